// SPDX-License-Identifier: Apache-2.0
#include "net/client.hpp"

#include <algorithm>
#include <array>

#include "net/internal/dial.hpp"
#include "net/internal/event_reader.hpp"
#include "net/internal/response_reader.hpp"

namespace tranche::net {
namespace {

using Clock = std::chrono::steady_clock;
using Status = Transfer::Status;

bool safe_to_repeat(std::string_view method, const HeaderList& headers) {
  static constexpr std::array<std::string_view, 5> kSafe = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"};
  if (std::find(kSafe.begin(), kSafe.end(), method) != kSafe.end()) return true;
  return std::any_of(headers.begin(), headers.end(), [](const auto& field) {
    return same_text_in_any_case(field.first, "Idempotency-Key");
  });
}

}  // namespace

class Client::State {
 public:
  explicit State(ClientOptions options) : options_(std::move(options)) {
    if (options_.tls) tls_ = std::make_unique<TlsContext>(*options_.tls);
  }

  Result<Response, ClientFault> request(std::string_view method,
                                        std::string_view path,
                                        const HeaderList& headers,
                                        std::string_view body) {
    const std::string bytes = head(method, path, headers, body) + std::string(body);
    bool reused = still_open();
    for (;;) {
      const Deadline deadline = Clock::now() + options_.request_timeout;
      Result<Response, ClientFault> answer = exchange(method, bytes, deadline);
      const bool stale = !answer && answer.error().kind == FaultKind::kBroken && reused && !answer_begun_;
      if (!stale || !safe_to_repeat(method, headers)) return answer;
      reused = false;
    }
  }

  Result<Response, ClientFault> stream(std::string_view path,
                                       const HeaderList& headers,
                                       const std::function<bool(const ServerEvent&)>& on_event,
                                       std::chrono::milliseconds idle_timeout) {
    disconnect();  // A stream has a connection of its own, and leaves none behind.
    ResponseReader reader(ResponseReader::Body::kExpected, options_.body_bytes_max);
    EventReader events;
    const auto take_events = [&](bool complete) -> bool {
      if (!reader.header_complete() || reader.response().status != 200) return true;
      if (!reader.response().content_type.starts_with("text/event-stream")) return true;
      return events.read(std::exchange(reader.response().body, {}), on_event) || complete;
    };
    const Clock::duration patience = idle_timeout;
    Result<Response, ClientFault> answer =
        connect_and_send(head("GET", path, headers, {}), Clock::now() + options_.request_timeout);
    if (answer) answer = receive(reader, [&] { return Clock::now() + patience; }, take_events);
    disconnect();
    return answer;
  }

  void disconnect() {
    connection_ = {};
    input_.clear();
  }

 private:
  std::string head(std::string_view method,
                   std::string_view path,
                   const HeaderList& headers,
                   std::string_view body) {
    std::string out;
    out.reserve(512);
    out.append(method).append(" ").append(path.empty() ? "/" : path).append(" HTTP/1.1\r\nHost: ");
    const bool numeric6 = options_.host.find(':') != std::string::npos;
    out.append(numeric6 ? "[" + options_.host + "]" : options_.host).append(":");
    out.append(std::to_string(options_.port)).append("\r\n");
    for (const auto& [name, value] : headers) {
      const std::string_view breaks("\r\n\0", 3);
      if (name.find_first_of(breaks) != std::string::npos || value.find_first_of(breaks) != std::string::npos)
        continue;
      out.append(name).append(": ").append(value).append("\r\n");
    }
    if (!body.empty() || method == "POST" || method == "PUT" || method == "PATCH")
      out.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
    return out += "\r\n";
  }

  // Whether the kept connection is there, and the server has not ended it meanwhile.
  bool still_open() {
    if (!connection_.stream) return false;
    std::array<char, 1> probe{};
    if (connection_.stream->read(probe).status == Status::kWaitReadable) return true;
    disconnect();
    return false;
  }

  Result<Response, ClientFault> exchange(std::string_view method, std::string_view bytes, Deadline deadline) {
    Result<Response, ClientFault> answer = connect_and_send(bytes, deadline);
    if (!answer) return answer;
    ResponseReader reader(method == "HEAD" ? ResponseReader::Body::kNone : ResponseReader::Body::kExpected,
                          options_.body_bytes_max);
    answer = receive(reader, [&] { return deadline; }, [](bool) { return true; });
    if (!answer || !reader.keep_alive()) disconnect();
    return answer;
  }

  Result<Response, ClientFault> connect_and_send(std::string_view bytes, Deadline deadline) {
    answer_begun_ = false;
    if (!connection_.stream) {
      Result<Dialled, ClientFault> dialled = dial(options_, tls_.get());
      if (!dialled) return refuse(dialled.error());
      connection_ = std::move(*dialled);
    }
    while (!bytes.empty()) {
      const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};  // NOLINT: only read.
      const Transfer sent = connection_.stream->write({&piece, 1});
      if (sent.status == Status::kDone) {
        bytes.remove_prefix(sent.bytes);
      } else if (sent.status == Status::kFailed || sent.status == Status::kClosed) {
        break;  // It may have answered before it closed (413, 503): read that.
      } else if (!wait_for(sent.status, deadline)) {
        disconnect();
        return refuse(fault_at(options_, FaultKind::kTimedOut, "while sending"));
      }
    }
    return Response{};
  }

  bool wait_for(Status status, Deadline deadline) {
    const Readiness wanted = status == Status::kWaitReadable ? Readiness::kReadable : Readiness::kWritable;
    return wait_until_ready(connection_.descriptor.get(), wanted, deadline);
  }

  template <class NextDeadline, class OnProgress>
  Result<Response, ClientFault> receive(ResponseReader& reader,
                                        NextDeadline next_deadline,
                                        OnProgress on_progress) {
    std::array<char, 16 * 1024> scratch{};
    Deadline deadline = next_deadline();
    for (;;) {
      const Transfer got = connection_.stream->read(scratch);
      auto outcome = ResponseReader::Outcome::kNeedMore;
      if (got.status == Status::kDone) {
        answer_begun_ = true;
        input_.append(scratch.data(), got.bytes);
        std::size_t used = 0;
        outcome = reader.read(input_, used);
        input_.erase(0, used);
        deadline = next_deadline();
      } else if (got.status == Status::kClosed || got.status == Status::kFailed) {
        outcome = reader.end_of_stream();
        if (outcome == ResponseReader::Outcome::kBroken && tls_ && !answer_begun_ &&
            got.status == Status::kFailed)
          return refuse(fault_at(options_, FaultKind::kTlsRefused, connection_.stream->last_error()));
      } else if (!wait_for(got.status, deadline)) {
        disconnect();
        return refuse(fault_at(options_, FaultKind::kTimedOut, "while waiting for the answer"));
      }
      if (outcome == ResponseReader::Outcome::kBroken)
        return refuse(fault_at(options_, FaultKind::kBroken, reader.error()));
      const bool complete = outcome == ResponseReader::Outcome::kResponse;
      if (!on_progress(complete) || complete) return std::move(reader.response());
    }
  }

  ClientOptions options_;
  std::unique_ptr<TlsContext> tls_;
  Dialled connection_;
  std::string input_;
  bool answer_begun_ = false;
};

Client::Client(ClientOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Result<Response, ClientFault> Client::request(std::string_view method,
                                              std::string_view path,
                                              const HeaderList& headers,
                                              std::string_view body) {
  return state_->request(method, path, headers, body);
}

Result<Response, ClientFault> Client::stream(std::string_view path,
                                             const HeaderList& headers,
                                             const std::function<bool(const ServerEvent&)>& on_event,
                                             std::chrono::milliseconds idle_timeout) {
  return state_->stream(path, headers, on_event, idle_timeout);
}

void Client::disconnect() {
  state_->disconnect();
}

}  // namespace tranche::net
