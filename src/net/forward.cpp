// SPDX-License-Identifier: Apache-2.0
#include "net/forward.hpp"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <mutex>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "net/internal/exchange.hpp"
#include "net/internal/response_reader.hpp"
#include "net/internal/upstream_pool.hpp"

namespace tranche::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t kWholeAnswerMost = 64 * 1024;  // Shorter ones go in one piece.
constexpr std::size_t kClientBacklogMost = 128 * 1024;
constexpr std::chrono::milliseconds kClientPause{2};

constexpr std::array<std::string_view, 9> kOfOneHop{"Connection",
                                                    "Keep-Alive",
                                                    "Proxy-Connection",
                                                    "Transfer-Encoding",
                                                    "Content-Length",
                                                    "TE",
                                                    "Trailer",
                                                    "Upgrade",
                                                    "Expect"};
bool is_of_one_hop(std::string_view name) {
  for (const std::string_view one : kOfOneHop)
    if (same_text_in_any_case(one, name)) return true;
  return false;
}

std::string request_text(const Request& request, const std::string& path, const ForwardTarget& target) {
  std::string out;
  out.reserve(256 + request.headers.bytes() + request.body.size());
  out.append(request.method).append(" ").append(path).append(" HTTP/1.1\r\n");
  bool has_host = false;
  for (std::size_t i = 0; i < request.headers.size(); ++i) {
    const auto [name, value] = request.headers.at(i);
    if (is_of_one_hop(name) || same_text_in_any_case(name, "Authorization") ||
        same_text_in_any_case(name, "X-Forwarded-For"))
      continue;
    has_host = has_host || same_text_in_any_case(name, "Host");
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (!has_host) out.append("Host: ").append(target.address).append("\r\n");
  out.append("X-Forwarded-For: ").append(request.peer).append("\r\n");
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT" ||
      request.method == "PATCH")
    out.append("Content-Length: ").append(std::to_string(request.body.size())).append("\r\n");
  return out.append("\r\n").append(request.body);
}

// What is ours to say is not taken from the other server.
void drop_hop_fields(Response& response) {
  std::erase_if(response.headers, [](const auto& field) {
    const bool is_length =
        same_text_in_any_case(field.first, "Content-Length");  // A HEAD is answered with it.
    return (is_of_one_hop(field.first) && !is_length) || same_text_in_any_case(field.first, "Content-Type") ||
           same_text_in_any_case(field.first, "Date");
  });
}

// One request on its way there and its answer on its way back.
class Forwarding final : public UpstreamPool::Timed, public std::enable_shared_from_this<Forwarding> {
 public:
  Forwarding(std::shared_ptr<UpstreamPool> pool,
             std::shared_ptr<const Request> request,
             std::string text,
             ForwardTarget target,
             ForwardOptions options,
             Reply reply,
             ForwardHooks hooks)
      : pool_(std::move(pool)),
        request_(std::move(request)),
        text_(std::move(text)),
        target_(std::move(target)),
        options_(options),
        reply_(std::move(reply)),
        hooks_(std::move(hooks)),
        socket_(pool_->loop().io()),
        reader_(request_->method == "HEAD" ? ResponseReader::Body::kNone : ResponseReader::Body::kExpected,
                SIZE_MAX) {}
  ~Forwarding() override { pool_->unwatch(*this); }

  void start() {
    pool_->watch(*this);
    asio::co_spawn(pool_->loop().io(), run(shared_from_this()), asio::detached);
  }

 private:
  void expire(Clock::time_point now) override {
    if (now < deadline_) return;
    timed_out_ = true;
    deadline_ = Clock::time_point::max();
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

  asio::awaitable<void> run([[maybe_unused]] std::shared_ptr<Forwarding> self) {
    ForwardEnd end = ForwardEnd::kNotSent;
    if (co_await open()) { end = co_await write_request() ? co_await read_answer() : ForwardEnd::kNoAnswer; }
    finish(end);
  }

  asio::awaitable<bool> open() {
    if (auto kept = pool_->take(target_)) {
      socket_ = std::move(*kept);
      co_return true;
    }
    boost::system::error_code error;
    const asio::ip::address address = asio::ip::make_address(target_.address, error);
    if (error) co_return false;
    deadline_ = Clock::now() + options_.connect;
    co_await socket_.async_connect({address, target_.port}, asio::redirect_error(asio::use_awaitable, error));
    if (error || timed_out_) co_return false;
    socket_.non_blocking(true, error);
    socket_.set_option(tcp::no_delay(true), error);
    co_return true;
  }

  asio::awaitable<bool> write_request() {
    boost::system::error_code error;
    deadline_ = Clock::now() + options_.first_byte;
    for (std::size_t sent = 0; sent < text_.size();) {
      const ssize_t count =
          ::send(socket_.native_handle(), text_.data() + sent, text_.size() - sent, MSG_NOSIGNAL);
      if (count > 0) {
        sent += static_cast<std::size_t>(count);
        continue;
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN) co_return false;
      co_await socket_.async_wait(tcp::socket::wait_write, asio::redirect_error(asio::use_awaitable, error));
      if (error || timed_out_) co_return false;
    }
    co_return true;
  }

  asio::awaitable<ForwardEnd> read_answer() {
    boost::system::error_code error;
    std::string rest;  // Read, and not parsed yet: a header that is not whole.
    for (;;) {
      co_await socket_.async_wait(tcp::socket::wait_read, asio::redirect_error(asio::use_awaitable, error));
      if (timed_out_) co_return heard_ ? ForwardEnd::kBroken : ForwardEnd::kTimedOut;
      if (error) co_return heard_ ? ForwardEnd::kBroken : ForwardEnd::kNoAnswer;
      const std::span<char> scratch = pool_->loop().scratch();
      const ssize_t got = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      ResponseReader::Outcome outcome = ResponseReader::Outcome::kNeedMore;
      if (got <= 0) {
        if (got < 0 || !heard_) co_return heard_ ? ForwardEnd::kBroken : ForwardEnd::kNoAnswer;
        outcome = reader_.end_of_stream();
        reusable_ = false;
      } else {
        heard_ = true;
        deadline_ = Clock::now() + options_.between_bytes;
        rest.append(scratch.data(), static_cast<std::size_t>(got));
        std::size_t used = 0;
        outcome = reader_.read(rest, used);
        rest.erase(0, used);
      }
      if (outcome == ResponseReader::Outcome::kBroken) co_return ForwardEnd::kBroken;
      const bool whole = outcome == ResponseReader::Outcome::kResponse;
      if (whole) reusable_ = reusable_ && reader_.keep_alive() && rest.empty();
      if (reader_.header_complete() && !co_await pass_on(whole)) co_return ForwardEnd::kGone;
      if (whole) co_return ForwardEnd::kDone;
    }
  }

  // What has come of the answer goes to the client; false when he is gone.
  asio::awaitable<bool> pass_on(bool whole) {
    Response& response = reader_.response();
    if (!head_done_) {
      head_done_ = true;
      status_ = response.status;
      const bool has_length = !response.header("Content-Length").empty();
      streams_ = !has_length;
      drop_hop_fields(response);
      if (hooks_.on_head) hooks_.on_head(response);
    }
    if (!stream_ && whole) {
      if (hooks_.on_body) hooks_.on_body(response.body, true);
      answered_ = true;
      const Loop::Busy busy(pool_->loop());
      reply_.send(std::move(response));
      pool_->loop().read_mail();
      co_return true;
    }
    if (!stream_ && !streams_ && response.body.size() < kWholeAnswerMost) co_return true;
    std::string piece = std::exchange(response.body, {});
    if (!stream_) {
      Response head = response;
      answered_ = true;
      stream_ = reply_.stream(std::move(head));
    }
    if (hooks_.on_body) hooks_.on_body(piece, whole);
    while (stream_->open() && stream_->waiting() > kClientBacklogMost) {
      boost::system::error_code error;
      deadline_ = Clock::now() + options_.between_bytes;  // It is the client that is waited for.
      asio::steady_timer pause(pool_->loop().io(), kClientPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
    const bool taken = piece.empty() ? stream_->open() : stream_->write(std::move(piece));
    if (whole) stream_->close();
    co_return taken || whole;
  }

  void finish(ForwardEnd end) {
    pool_->unwatch(*this);
    boost::system::error_code ignored;
    if (end == ForwardEnd::kDone && reusable_) {
      pool_->give(target_, std::move(socket_));
    } else {
      socket_.close(ignored);
    }
    if (stream_ && end != ForwardEnd::kDone) stream_->abort();
    if (hooks_.on_end) hooks_.on_end(end, status_, answered_ ? nullptr : &reply_);
  }

  std::shared_ptr<UpstreamPool> pool_;
  std::shared_ptr<const Request> request_;
  std::string text_;
  ForwardTarget target_;
  ForwardOptions options_;
  Reply reply_;
  ForwardHooks hooks_;
  tcp::socket socket_;
  ResponseReader reader_;
  std::shared_ptr<Stream> stream_;
  Clock::time_point deadline_ = Clock::time_point::max();
  int status_ = 0;
  bool timed_out_ = false, heard_ = false, head_done_ = false, streams_ = false;
  bool answered_ = false;
  bool reusable_ = true;
};

}  // namespace

class Forwarder::Pools {
 public:
  std::shared_ptr<UpstreamPool> of(Loop& loop) {
    const std::lock_guard lock(mutex_);
    if (closed_) return nullptr;
    auto& pool = pools_[&loop];
    if (!pool) pool = std::make_shared<UpstreamPool>(loop);
    return pool;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    pools_.clear();
  }

 private:
  std::mutex mutex_;
  bool closed_ = false;
  std::map<Loop*, std::shared_ptr<UpstreamPool>> pools_;
};

Forwarder::Forwarder() : pools_(std::make_shared<Pools>()) {}
Forwarder::~Forwarder() = default;

void Forwarder::send(std::shared_ptr<const Request> request,
                     std::string target_path,
                     ForwardTarget target,
                     ForwardOptions options,
                     Reply reply,
                     ForwardHooks hooks) {
  const std::shared_ptr<Loop> loop = reply.exchange_->loop;
  auto pool = pools_->of(*loop);
  if (!pool) return;  // The server ends; nobody waits for this answer any more.
  std::string text = request_text(*request, target_path, target);
  auto forwarding = std::make_shared<Forwarding>(std::move(pool),
                                                 std::move(request),
                                                 std::move(text),
                                                 std::move(target),
                                                 options,
                                                 std::move(reply),
                                                 std::move(hooks));
  asio::dispatch(loop->io(), [forwarding = std::move(forwarding)] { forwarding->start(); });
}

const std::shared_ptr<Loop>& Forwarder::thread_of(const Reply& reply) {
  return reply.exchange_->loop;
}

void Forwarder::later(Loop& thread, std::function<void()> what) {
  asio::post(thread.io(), std::move(what));
}

void Forwarder::close() {
  pools_->close();
}

bool is_retry_safe(const Request& request) {
  return request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS" ||
         request.method == "PUT" || request.method == "DELETE" || request.headers.contains("Idempotency-Key");
}

}  // namespace tranche::net
