// SPDX-License-Identifier: Apache-2.0
#include "bench/http_load.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tranche::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSubBits = 5;  // 32 buckets for every doubling.

std::size_t bucket_of(std::uint64_t value) {
  if (value < (1U << kSubBits)) return value;
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  return (static_cast<std::size_t>(shift + 1) << kSubBits) + ((value >> shift) & ((1U << kSubBits) - 1));
}

std::uint64_t upper_edge(std::size_t bucket) {
  if (bucket < (1U << kSubBits)) return bucket;
  const std::size_t shift = (bucket >> kSubBits) - 1;
  const std::uint64_t base = (1U << kSubBits) + (bucket & ((1U << kSubBits) - 1));
  return ((base + 1) << shift) - 1;
}

double thread_cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// One answer at the front of `bytes`: its length and status, or nothing while it is incomplete.
struct Answer {
  std::size_t bytes = 0;
  int status = 0;  // 0: not HTTP.
};
std::optional<Answer> first_answer(std::string_view bytes) {
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view head = bytes.substr(0, end + 2);
  Answer answer;
  if (!head.starts_with("HTTP/1.") || head.size() < 12) return answer;
  std::from_chars(head.data() + 9, head.data() + 12, answer.status);
  std::size_t length = 0;
  static constexpr std::string_view kLength = "\r\ncontent-length:";
  for (std::size_t at = head.find('\r'); at != std::string_view::npos; at = head.find('\r', at + 1)) {
    if (head.size() - at < kLength.size()) break;
    if (::strncasecmp(head.data() + at, kLength.data(), kLength.size()) != 0) continue;
    std::size_t digits = at + kLength.size();
    while (digits < head.size() && head[digits] == ' ') ++digits;
    std::from_chars(head.data() + digits, head.data() + head.size(), length);
    break;
  }
  answer.bytes = end + 4 + length;
  if (bytes.size() < answer.bytes) return std::nullopt;
  return answer;
}

class Generator {
 public:
  explicit Generator(const HttpLoad& load) : load_(load), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    connections_.resize(static_cast<std::size_t>(load.connections));
    for (std::size_t i = 0; i < connections_.size(); ++i) connect(i);
  }
  ~Generator() {
    for (const Connection& connection : connections_)
      if (connection.descriptor >= 0) ::close(connection.descriptor);
    ::close(epoll_);
  }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  HttpLoadResult run() {
    Clock::time_point counted_from = Clock::now() + load_.warm_up;
    const Clock::time_point until = counted_from + load_.duration;
    for (std::size_t i = 0; i < connections_.size(); ++i) send_next(i, Clock::now());
    double cpu_before = thread_cpu_seconds();
    std::array<epoll_event, 256> events{};
    while (alive_ > 0) {
      const int ready = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 100);
      const Clock::time_point now = Clock::now();
      if (now >= until || (load_.count_max > 0 && result_.answers >= load_.count_max)) break;
      if (!counting_ && now >= counted_from) {
        counting_ = true;
        counted_from = now;
        cpu_before = thread_cpu_seconds();
      }
      for (int i = 0; i < ready; ++i) on_ready(events[static_cast<std::size_t>(i)].data.u32, now);
    }
    result_.seconds = std::chrono::duration<double>(Clock::now() - counted_from).count();
    result_.generator_cpu_seconds = thread_cpu_seconds() - cpu_before;
    return std::move(result_);
  }

 private:
  struct Connection {
    int descriptor = -1;
    std::string input;
    std::string output;
    std::uint64_t number = 0;
    Clock::time_point sent;
  };

  void connect(std::size_t index) {
    Connection& connection = connections_[index];
    connection.descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(load_.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(connection.descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("load: cannot connect to 127.0.0.1:" + std::to_string(load_.port));
    const int on = 1;
    ::setsockopt(connection.descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.u32 = static_cast<std::uint32_t>(index);
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.descriptor, &event);
    ++alive_;
  }

  void send_next(std::size_t index, Clock::time_point now) {
    Connection& connection = connections_[index];
    connection.output.clear();
    load_.request(connection.output, static_cast<int>(index), connection.number++);
    connection.sent = now;
    // Blocking: a request is far smaller than the socket's buffer.
    std::string_view left = connection.output;
    while (!left.empty()) {
      const ssize_t sent = ::send(connection.descriptor, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent <= 0) return lose(connection);
      left.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  void lose(Connection& connection) {
    if (connection.descriptor < 0) return;
    ::close(connection.descriptor);
    connection.descriptor = -1;
    ++result_.broken;
    --alive_;
  }

  void on_ready(std::size_t index, Clock::time_point now) {
    Connection& connection = connections_[index];
    if (connection.descriptor < 0) return;
    const ssize_t got = ::recv(connection.descriptor, scratch_.data(), scratch_.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return lose(connection);
    std::string_view bytes(scratch_.data(), static_cast<std::size_t>(got));
    if (!connection.input.empty()) bytes = connection.input.append(bytes);
    const std::optional<Answer> answer = first_answer(bytes);
    if (!answer) {
      if (connection.input.empty()) connection.input = bytes;
      return;
    }
    if (answer->status == 0 || bytes.size() != answer->bytes) return lose(connection);
    connection.input.clear();
    if (counting_) {
      ++result_.answers;
      ++result_.statuses[answer->status];
      result_.latency.add(now - connection.sent);
    }
    send_next(index, now);
  }

  const HttpLoad& load_;
  int epoll_;
  std::vector<Connection> connections_;
  std::array<char, 64 * 1024> scratch_{};
  std::size_t alive_ = 0;
  bool counting_ = false;
  HttpLoadResult result_;
};

}  // namespace

LatencyHistogram::LatencyHistogram() : buckets_(bucket_of(3'600'000'000'000ULL) + 1) {}

void LatencyHistogram::add(std::chrono::nanoseconds latency) {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(0, latency.count()));
  ++buckets_[std::min(bucket_of(value), buckets_.size() - 1)];
  ++count_;
}

double LatencyHistogram::percentile_ms(double percent) const {
  const double wanted = static_cast<double>(count_) * percent / 100.0;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen > 0 && static_cast<double>(seen) >= wanted) return static_cast<double>(upper_edge(i)) / 1e6;
  }
  return 0;
}

HttpLoadResult run_http_load(const HttpLoad& load) {
  return Generator(load).run();
}

std::string http_request(std::string_view method,
                         std::string_view path,
                         std::string_view header_lines,
                         std::string_view body) {
  std::string out;
  out.append(method).append(" ").append(path).append(" HTTP/1.1\r\nHost: 127.0.0.1\r\n").append(header_lines);
  if (!body.empty()) out.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  return out.append("\r\n").append(body);
}

}  // namespace tranche::bench
