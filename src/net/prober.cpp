// SPDX-License-Identifier: Apache-2.0
#include "net/prober.hpp"

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <thread>

namespace tranche::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::string_view kBeforeStatus = "HTTP/1.1 ";
constexpr std::size_t kThroughStatus = kBeforeStatus.size() + 3;

// One question. It lives in what it waits for.
class Question : public std::enable_shared_from_this<Question> {
 public:
  Question(asio::io_context& io, std::string text, std::function<void(int)> told)
      : socket_(io), timer_(io), text_(std::move(text)), told_(std::move(told)) {}

  void start(const ForwardTarget& target, std::chrono::milliseconds patience) {
    Error error;
    const asio::ip::address address = asio::ip::make_address(target.address, error);
    if (error) return end(0);
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](const Error&) { self->end(0); });
    socket_.async_connect({address, target.port}, [self = shared_from_this()](const Error& failed) {
      failed ? self->end(0) : self->write();
    });
  }

 private:
  void write() {
    asio::async_write(
        socket_, asio::buffer(text_), [self = shared_from_this()](const Error& failed, std::size_t) {
          failed ? self->end(0) : self->read();
        });
  }

  void read() {
    socket_.async_read_some(asio::buffer(answer_.data() + got_, answer_.size() - got_),
                            [self = shared_from_this()](const Error& failed, std::size_t count) {
                              self->got_ += count;
                              if (failed) return self->end(0);
                              self->got_ < kThroughStatus ? self->read() : self->end(self->status());
                            });
  }

  [[nodiscard]] int status() const {
    const std::string_view answer(answer_.data(), got_);
    int status = 0;
    if (answer.starts_with("HTTP/1."))
      std::from_chars(answer.data() + kBeforeStatus.size(), answer.data() + kThroughStatus, status);
    return status;
  }

  void end(int status) {
    const auto told = std::exchange(told_, nullptr);
    if (!told) return;
    Error ignored;
    timer_.cancel();
    socket_.close(ignored);
    told(status);
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  const std::string text_;
  std::function<void(int)> told_;
  std::array<char, 64> answer_{};
  std::size_t got_ = 0;
};

}  // namespace

class Prober::State {
 public:
  State() : work_(asio::make_work_guard(io_)), thread_([this] { io_.run(); }) {}
  ~State() {
    io_.stop();
    thread_.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  asio::io_context& io() { return io_; }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

Prober::Prober() : state_(std::make_unique<State>()) {}
Prober::~Prober() = default;

void Prober::ask(const ForwardTarget& target,
                 const std::string& path,
                 std::chrono::milliseconds patience,
                 std::function<void(int status)> told) {
  std::string text = "GET " + path + " HTTP/1.1\r\nHost: " + target.address + "\r\nConnection: close\r\n\r\n";
  auto question = std::make_shared<Question>(state_->io(), std::move(text), std::move(told));
  asio::post(state_->io(), [question, target, patience] { question->start(target, patience); });
}

}  // namespace tranche::net
