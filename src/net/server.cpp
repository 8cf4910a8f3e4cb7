// SPDX-License-Identifier: Apache-2.0
// Accepts connections and spreads them over the loops.
#include "net/server.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <mutex>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>

#include "net/internal/connection.hpp"

namespace tranche::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

tcp::endpoint endpoint_of(const ServerOptions& options) {
  boost::system::error_code error;
  const std::string text = options.address == "localhost" ? "127.0.0.1" : options.address;
  const asio::ip::address address = asio::ip::make_address(text, error);
  if (error) throw std::invalid_argument("'" + options.address + "' is not an address to listen on");
  if (!options.tls && !address.is_loopback())
    throw std::invalid_argument("plain HTTP is served on loopback only: give a certificate to listen on " +
                                options.address);
  return {address, options.port};
}

// Deadlines are looked at this often: a quarter of the shortest one.
std::chrono::milliseconds tick_of(const ServerOptions& options) {
  const auto shortest = std::min({options.header_timeout,
                                  options.body_timeout,
                                  options.idle_timeout,
                                  options.answer_timeout,
                                  options.write_timeout});
  return std::clamp(shortest / 4, std::chrono::milliseconds{5}, std::chrono::milliseconds{250});
}

void set_socket_options(int descriptor, const ServerOptions& options) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  // Sent but never acknowledged: the peer's machine is gone.
  const auto patience = static_cast<unsigned>(options.write_timeout.count());
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\nConnection: "
    "close\r\n\r\n"
    "too many connections, come back later\n";

}  // namespace

class Server::State {
 public:
  State(ServerOptions options, Handler handler) : shared_(std::make_shared<ServerShared>()) {
    const tcp::endpoint endpoint = endpoint_of(options);
    if (options.tls) tls_ = std::make_shared<const TlsContext>(*options.tls);
    for (int i = 0; i < std::max(1, options.threads); ++i)
      loops_.push_back(std::make_shared<Loop>(tick_of(options), options.spin));
    shared_->options = std::move(options);
    shared_->handler = std::move(handler);
    listen(endpoint);
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

  void start() {
    for (const auto& loop : loops_) loop->start();
    started_ = true;
    asio::co_spawn(loops_[0]->io(), accept_all(), asio::detached);
  }

  bool drain(std::chrono::milliseconds patience) {
    if (!started_) return true;
    close_acceptor();
    for (const auto& loop : loops_) loop->begin_drain();
    const auto until = Clock::now() + patience;
    while (connections() > 0) {
      if (Clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return true;
  }

  void stop() {
    if (started_) close_acceptor();
    for (const auto& loop : loops_) loop->stop();
    started_ = false;
  }

  void renew_tls(const TlsServerOptions& tls) {
    auto renewed = std::make_shared<const TlsContext>(tls);
    const std::lock_guard lock(tls_mutex_);
    if (!tls_) throw std::runtime_error("this server was started without TLS");
    tls_ = std::move(renewed);
  }

  [[nodiscard]] ServerCounts counts() const {
    ServerCounts counts;
    counts.connections = connections();
    counts.accepted = accepted_.load(std::memory_order_relaxed);
    counts.refused = refused_.load(std::memory_order_relaxed);
    counts.requests = shared_->requests.load(std::memory_order_relaxed);
    return counts;
  }

 private:
  void listen(const tcp::endpoint& endpoint) {
    acceptor_.emplace(loops_[0]->io());
    boost::system::error_code error;
    acceptor_->open(endpoint.protocol(), error);
    if (!error) acceptor_->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_->bind(endpoint, error);
    if (!error) acceptor_->listen(1024, error);
    if (!error) acceptor_->native_non_blocking(true, error);
    if (error) {
      throw std::runtime_error("cannot listen on " + endpoint.address().to_string() + " port " +
                               std::to_string(endpoint.port()) + ": " + error.message());
    }
    port_ = acceptor_->local_endpoint().port();
  }

  [[nodiscard]] std::size_t connections() const {
    std::size_t all = 0;
    for (const auto& loop : loops_) all += loop->sessions();
    return all;
  }

  asio::awaitable<void> accept_all() {
    boost::system::error_code error;
    while (acceptor_->is_open()) {
      co_await acceptor_->async_wait(tcp::acceptor::wait_read,
                                     asio::redirect_error(asio::use_awaitable, error));
      if (error || !acceptor_->is_open()) break;
      if (!accept_waiting()) {
        // Out of descriptors or memory: those who wait in the backlog are served when some are free again.
        asio::steady_timer pause(loops_[0]->io(), std::chrono::milliseconds{50});
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
    }
  }

  // Everyone in the backlog. False when the system refused.
  bool accept_waiting() {
    for (;;) {
      const int descriptor =
          ::accept4(acceptor_->native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (descriptor >= 0) {
        welcome(descriptor);
        continue;
      }
      if (errno == EAGAIN) return true;
      if (errno != EINTR && errno != ECONNABORTED) return false;
    }
  }

  void welcome(int descriptor) {
    accepted_.fetch_add(1, std::memory_order_relaxed);
    if (connections() >= shared_->options.connections_max) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      if (!shared_->options.tls) {
        ::send(descriptor, kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        ::shutdown(descriptor, SHUT_WR);
        std::array<char, 4096> unread{};  // What is left unread would turn the answer into a reset.
        while (::recv(descriptor, unread.data(), unread.size(), MSG_DONTWAIT) > 0) {}
      }
      ::close(descriptor);
      return;
    }
    set_socket_options(descriptor, shared_->options);
    const std::shared_ptr<Loop>& loop = loops_[next_++ % loops_.size()];
    if (loop == loops_[0]) return begin(loop, descriptor);
    asio::post(loop->io(), [this, loop, descriptor] { begin(loop, descriptor); });
  }

  void begin(const std::shared_ptr<Loop>& loop, int descriptor) {
    boost::system::error_code error;
    if (loop->stopped()) {
      ::close(descriptor);
      return;
    }
    tcp::socket socket(loop->io());
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size);
    socket.assign(name.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), descriptor, error);
    if (error) {
      ::close(descriptor);
      return;
    }
    std::shared_ptr<const TlsContext> tls;
    {
      const std::lock_guard lock(tls_mutex_);
      tls = tls_;
    }
    auto stream = tls ? tls->server_stream(descriptor) : plain_stream(descriptor);
    std::make_shared<Connection>(loop, shared_, std::move(socket), std::move(stream))->start();
  }

  void close_acceptor() {
    std::promise<void> closed;
    asio::post(loops_[0]->io(), [&] {
      boost::system::error_code error;
      if (acceptor_->is_open()) {
        accept_waiting();  // Those who were already connected get their answer.
        acceptor_->close(error);
      }
      closed.set_value();
    });
    closed.get_future().wait();
  }

  const std::shared_ptr<ServerShared> shared_;
  std::mutex tls_mutex_;
  std::shared_ptr<const TlsContext> tls_;
  std::vector<std::shared_ptr<Loop>> loops_;
  std::optional<tcp::acceptor> acceptor_;
  std::uint16_t port_ = 0;
  bool started_ = false;
  std::size_t next_ = 0;
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> refused_{0};
};

Server::Server(ServerOptions options, Handler handler)
    : state_(std::make_unique<State>(std::move(options), std::move(handler))) {}

Server::~Server() {
  stop();
}

std::uint16_t Server::port() const {
  return state_->port();
}

void Server::start() {
  state_->start();
}

bool Server::drain(std::chrono::milliseconds patience) {
  return state_->drain(patience);
}

void Server::stop() {
  state_->stop();
}

void Server::renew_tls(const TlsServerOptions& tls) {
  state_->renew_tls(tls);
}

ServerCounts Server::counts() const {
  return state_->counts();
}

}  // namespace tranche::net
