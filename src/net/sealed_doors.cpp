// SPDX-License-Identifier: Apache-2.0
#include "net/sealed_doors.hpp"

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <map>
#include <mutex>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "net/internal/byte_stream.hpp"
#include "net/internal/dial.hpp"
#include "net/internal/loop.hpp"
#include "net/internal/tunnel.hpp"

namespace tranche::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Status = Transfer::Status;

constexpr std::chrono::milliseconds kTick{250};
constexpr std::chrono::seconds kHandshake{5};
constexpr std::chrono::hours kQuietMost{24};  // The gateway has limits of its own, service by service.
constexpr std::size_t kConnectionsMost = 4096;

Descriptor dial_inside(const std::string& path) {
  Descriptor descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) return {};
  path.copy(name.sun_path, path.size());
  if (::connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return {};
  return descriptor;
}

// Somebody at the door who has not shown yet who he is.
class Visitor final : public Session, public std::enable_shared_from_this<Visitor> {
 public:
  Visitor(std::shared_ptr<Loop> loop, const TlsContext& tls, int descriptor, std::string inside)
      : loop_(std::move(loop)),
        socket_(loop_->io()),
        stream_(tls.server_stream(descriptor)),
        inside_(std::move(inside)) {
    boost::system::error_code error;
    socket_.assign(tcp::v4(), descriptor, error);  // The family is not looked at again.
    if (error) ::close(descriptor);
  }

  void start() {
    if (!socket_.is_open()) return;
    loop_->add(shared_from_this());
    shake_hands();
  }

 private:
  void shake_hands() {
    if (!socket_.is_open()) return;
    const Transfer step = stream_->handshake();
    if (step.status == Status::kWaitReadable || step.status == Status::kWaitWritable) {
      socket_.async_wait(
          step.status == Status::kWaitReadable ? tcp::socket::wait_read : tcp::socket::wait_write,
          [self = shared_from_this()](const boost::system::error_code&) { self->shake_hands(); });
      return;
    }
    const auto certificate = stream_->peer_certificate();
    if (step.status != Status::kDone || !certificate || certificate->common_name != kGatewayName)
      return abort();
    come_in();
  }

  void come_in() {
    Descriptor inside = dial_inside(inside_);
    if (inside.get() < 0) return abort();
    boost::system::error_code error;
    tcp::socket there(loop_->io());
    const int descriptor = inside.release();
    there.assign(tcp::v4(), descriptor, error);
    if (error) {
      ::close(descriptor);
      return abort();
    }
    auto plain = plain_stream(descriptor);
    auto tunnel =
        std::make_shared<Tunnel>(loop_, std::move(there), std::move(plain), std::string(), kQuietMost, [] {});
    const auto self = shared_from_this();
    const int outside = socket_.release(error);
    loop_->remove(*this);
    if (error) return tunnel->abort();
    tunnel->start(outside, std::move(stream_), {}, {});
  }

  void expire(Clock::time_point now) override {
    if (now - began_ > kHandshake) abort();
  }
  void drain() override { abort(); }
  void abort() override {
    const auto self = shared_from_this();
    boost::system::error_code ignored;
    socket_.close(ignored);
    loop_->remove(*this);
  }

  const std::shared_ptr<Loop> loop_;
  tcp::socket socket_;
  std::unique_ptr<ByteStream> stream_;
  const std::string inside_;
  const Clock::time_point began_ = Clock::now();
};

}  // namespace

class SealedDoors::State {
 public:
  explicit State(const TlsServerOptions& tls)
      : tls_(std::make_shared<const TlsContext>(tls)), loop_(std::make_shared<Loop>(kTick)) {
    loop_->start();
  }
  ~State() {
    on_loop([this] { doors_.clear(); });
    loop_->stop();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::uint16_t open(const std::string& address, const std::string& inside) {
    boost::system::error_code error;
    const asio::ip::address at = asio::ip::make_address(address, error);
    std::uint16_t port = 0;
    if (!error)
      on_loop([&] {
        auto door = std::make_shared<Door>(Door{tcp::acceptor(loop_->io()), inside});
        const tcp::endpoint endpoint(at, 0);
        door->acceptor.open(endpoint.protocol(), error);
        if (!error) door->acceptor.bind(endpoint, error);
        if (!error) door->acceptor.listen(1024, error);
        if (!error) door->acceptor.native_non_blocking(true, error);
        if (error) return;
        port = door->acceptor.local_endpoint().port();
        doors_.emplace(port, door);
        await_visitor(door);
      });
    if (error) throw std::runtime_error("cannot listen for a service on " + address + ": " + error.message());
    return port;
  }

  void close(std::uint16_t port) {
    on_loop([&] {
      const auto found = doors_.find(port);
      if (found == doors_.end()) return;
      boost::system::error_code ignored;
      found->second->acceptor.close(ignored);
      doors_.erase(found);
    });
  }

  void renew(const TlsServerOptions& tls) {
    auto renewed = std::make_shared<const TlsContext>(tls);
    const std::lock_guard lock(mutex_);
    tls_ = std::move(renewed);
  }

 private:
  struct Door {
    tcp::acceptor acceptor;
    std::string inside;
  };

  template <class What>
  void on_loop(What what) {
    std::promise<void> done;
    asio::post(loop_->io(), [&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }

  void await_visitor(const std::shared_ptr<Door>& door) {
    door->acceptor.async_wait(tcp::acceptor::wait_read, [this, door](const boost::system::error_code& error) {
      if (error || !door->acceptor.is_open()) return;
      let_in(*door);
      await_visitor(door);
    });
  }

  void let_in(Door& door) {
    for (;;) {
      const int descriptor =
          ::accept4(door.acceptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (descriptor < 0) return;
      if (loop_->sessions() >= kConnectionsMost) {  // The gateway goes elsewhere.
        ::close(descriptor);
        continue;
      }
      const int on = 1;
      ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      std::shared_ptr<const TlsContext> tls;
      {
        const std::lock_guard lock(mutex_);
        tls = tls_;
      }
      std::make_shared<Visitor>(loop_, *tls, descriptor, door.inside)->start();
    }
  }

  std::mutex mutex_;
  std::shared_ptr<const TlsContext> tls_;
  const std::shared_ptr<Loop> loop_;
  std::map<std::uint16_t, std::shared_ptr<Door>> doors_;  // The loop's thread only.
};

SealedDoors::SealedDoors(const TlsServerOptions& tls) : state_(std::make_unique<State>(tls)) {}
SealedDoors::~SealedDoors() = default;

std::uint16_t SealedDoors::open(const std::string& address, const std::string& inside) {
  return state_->open(address, inside);
}
void SealedDoors::close(std::uint16_t port) {
  state_->close(port);
}
void SealedDoors::renew(const TlsServerOptions& tls) {
  state_->renew(tls);
}

}  // namespace tranche::net
