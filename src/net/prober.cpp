// SPDX-License-Identifier: Apache-2.0
#include "net/prober.hpp"

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <thread>

#include "net/internal/byte_stream.hpp"

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

  void start(const ForwardTarget& target, const TlsContext* sealed, std::chrono::milliseconds patience) {
    Error error;
    const asio::ip::address address = asio::ip::make_address(target.address, error);
    if (error || (!target.identity.empty() && sealed == nullptr)) return end(0);
    identity_ = target.identity;
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](const Error&) { self->end(0); });
    socket_.async_connect({address, target.port}, [self = shared_from_this(), sealed](const Error& failed) {
      if (failed) return self->end(0);
      Error ignored;
      self->socket_.non_blocking(true, ignored);
      const int descriptor = self->socket_.native_handle();
      self->bytes_ = self->identity_.empty() ? plain_stream(descriptor) : sealed->peer_stream(descriptor);
      self->shake_hands();
    });
  }

 private:
  using Step = void (Question::*)();

  // Again when the socket is ready for it; false: there is nothing to wait for.
  bool waits(const Transfer& transfer, Step step) {
    const bool for_reading = transfer.status == Transfer::Status::kWaitReadable;
    if (!for_reading && transfer.status != Transfer::Status::kWaitWritable) return false;
    socket_.async_wait(for_reading ? tcp::socket::wait_read : tcp::socket::wait_write,
                       [self = shared_from_this(), step](const Error& failed) {
                         failed ? self->end(0) : (self.get()->*step)();
                       });
    return true;
  }

  void shake_hands() {
    if (!told_) return;
    const Transfer step = bytes_->handshake();
    if (waits(step, &Question::shake_hands)) return;
    const auto certificate = bytes_->peer_certificate();
    const bool is_whom_we_meant = identity_.empty() || (certificate && certificate->common_name == identity_);
    step.status == Transfer::Status::kDone&& is_whom_we_meant ? write() : end(0);
  }

  void write() {
    while (told_ && written_ < text_.size()) {
      const iovec rest{text_.data() + written_, text_.size() - written_};
      const Transfer sent = bytes_->write({&rest, 1});
      if (waits(sent, &Question::write)) return;
      if (sent.status != Transfer::Status::kDone) return end(0);
      written_ += sent.bytes;
    }
    read();
  }

  void read() {
    while (told_ && got_ < kThroughStatus) {
      const Transfer got = bytes_->read({answer_.data() + got_, answer_.size() - got_});
      if (waits(got, &Question::read)) return;
      if (got.status != Transfer::Status::kDone) return end(0);
      got_ += got.bytes;
    }
    if (told_) end(status());
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
  std::unique_ptr<ByteStream> bytes_;
  asio::steady_timer timer_;
  std::string text_;
  std::string identity_;
  std::function<void(int)> told_;
  std::size_t written_ = 0;
  std::array<char, 64> answer_{};
  std::size_t got_ = 0;
};

}  // namespace

class Prober::State {
 public:
  explicit State(const std::optional<TlsClientOptions>& sealed)
      : sealed_(sealed ? std::make_unique<const TlsContext>(*sealed) : nullptr),
        work_(asio::make_work_guard(io_)),
        thread_([this] { io_.run(); }) {}
  ~State() {
    io_.stop();
    thread_.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  asio::io_context& io() { return io_; }
  [[nodiscard]] const TlsContext* sealed() const { return sealed_.get(); }

 private:
  const std::unique_ptr<const TlsContext> sealed_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

Prober::Prober(const std::optional<TlsClientOptions>& sealed) : state_(std::make_unique<State>(sealed)) {}
Prober::~Prober() = default;

void Prober::ask(const ForwardTarget& target,
                 const std::string& path,
                 std::chrono::milliseconds patience,
                 std::function<void(int status)> told) {
  std::string text = "GET " + path + " HTTP/1.1\r\nHost: " + target.address + "\r\nConnection: close\r\n\r\n";
  auto question = std::make_shared<Question>(state_->io(), std::move(text), std::move(told));
  asio::post(state_->io(), [question, target, sealed = state_->sealed(), patience] {
    question->start(target, sealed, patience);
  });
}

}  // namespace tranche::net
