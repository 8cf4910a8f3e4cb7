// SPDX-License-Identifier: Apache-2.0
// Beast's WebSocket over our own streams, for both ends. The only file that pays for its templates.
#include "net/internal/websocket_session.hpp"

#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>
#include <mutex>
#include <optional>
#include <unistd.h>

#include "net/internal/async_byte_stream.hpp"

namespace tranche::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace ws = boost::beast::websocket;
using ErrorCode = boost::system::error_code;

constexpr std::uint16_t kAbnormal = 1006;  // Never on the wire: the connection broke.
constexpr std::uint16_t kGoingAway = 1001;
constexpr std::uint16_t kTooSlow = 1008;

bool offers(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (one == wanted) return true;
  }
  return false;
}

class BeastSession final : public WebSocketSession,
                           public Mail,
                           public std::enable_shared_from_this<BeastSession> {
 public:
  BeastSession(std::shared_ptr<Loop> loop, WebSocketCallbacks callbacks, WebSocketOptions options)
      : loop_(std::move(loop)), callbacks_(std::move(callbacks)), options_(std::move(options)) {}

  // Any thread ------------------------------------------------------------------------------------------
  bool send(std::string message) override {
    const std::lock_guard lock(mutex_);
    if (closing_) return false;
    if (queued_bytes_ + message.size() > options_.queue_bytes_max) {
      begin_close(kTooSlow, "reads too slowly");
      return false;
    }
    queued_bytes_ += message.size();
    outbox_.push_back(std::move(message));
    notify();
    return true;
  }

  void close(std::uint16_t code, std::string reason) override {
    const std::lock_guard lock(mutex_);
    if (!closing_) begin_close(code, std::move(reason));
  }

  [[nodiscard]] bool open() const override {
    const std::lock_guard lock(mutex_);
    return !closing_;
  }

  // The loop's thread -----------------------------------------------------------------------------------
  void accept(WebSocketUpgrade upgrade) override {
    beast::http::request<beast::http::empty_body> request;
    request.method(beast::http::verb::get);
    request.version(11);
    request.target("/");
    request.set(beast::http::field::host, "localhost");
    request.set(beast::http::field::connection, "upgrade");
    request.set(beast::http::field::upgrade, "websocket");
    request.set(beast::http::field::sec_websocket_version, "13");
    request.set(beast::http::field::sec_websocket_key, upgrade.key);
    const bool agreed = !options_.protocol.empty() && offers(upgrade.protocols, options_.protocol);
    if (!adopt(std::move(upgrade))) return finish(kAbnormal, "the connection broke");
    if (agreed) {
      stream_->set_option(
          ws::stream_base::decorator([protocol = options_.protocol](ws::response_type& response) {
            response.set(beast::http::field::sec_websocket_protocol, protocol);
          }));
    }
    stream_->async_accept(request, [self = shared_from_this()](ErrorCode error) { self->opened(error); });
  }

  void connect(WebSocketUpgrade upgrade, const WebSocketTarget& target) override {
    if (!adopt(std::move(upgrade))) return finish(kAbnormal, "the connection broke");
    stream_->set_option(ws::stream_base::decorator(
        [headers = target.headers, protocol = options_.protocol](ws::request_type& request) {
          for (const auto& [name, value] : headers) request.set(name, value);
          if (!protocol.empty()) request.set(beast::http::field::sec_websocket_protocol, protocol);
        }));
    stream_->async_handshake(
        response_, target.host, target.path, [self = shared_from_this()](ErrorCode error) {
          self->opened(error);
        });
  }

  void expire(Clock::time_point) override {}  // Beast keeps the time of a WebSocket.
  void drain() override { close(kGoingAway, "the server is going away"); }
  void abort() override { finish(kAbnormal, "aborted"); }

 private:
  bool adopt(WebSocketUpgrade upgrade) {
    asio::ip::tcp::socket socket(loop_->io());
    ErrorCode error;
    socket.assign(asio::ip::tcp::v4(), upgrade.descriptor, error);  // The family is not looked at again.
    if (error) {
      ::close(upgrade.descriptor);
      return false;
    }
    loop_->add(shared_from_this());
    stream_.emplace(
        AsyncByteStream(std::move(socket), std::move(upgrade.stream), std::move(upgrade.early_bytes)));
    ws::stream_base::timeout timeouts{};
    timeouts.handshake_timeout = options_.handshake_timeout;
    timeouts.idle_timeout = options_.idle_timeout;
    timeouts.keep_alive_pings = true;
    stream_->set_option(timeouts);
    stream_->read_message_max(options_.message_bytes_max);
    stream_->auto_fragment(true);
    stream_->binary(options_.kind == MessageKind::kBinary);
    stream_->write_buffer_bytes(16 * 1024);
    return true;
  }

  void opened(ErrorCode error) {
    if (finished_) return;
    if (error) return finish(kAbnormal, refusal_text(error));
    open_ = true;
    if (callbacks_.on_open) callbacks_.on_open(*this);
    read();
    pump();
  }

  std::string refusal_text(ErrorCode error) const {
    if (error == ws::error::upgrade_declined)
      return "the server answered " + std::to_string(response_.result_int()) + " to the WebSocket handshake";
    return error.message();
  }

  void read() {
    stream_->async_read(buffer_,
                        [self = shared_from_this()](ErrorCode error, std::size_t) { self->received(error); });
  }

  void received(ErrorCode error) {
    if (finished_) return;
    if (error) {
      const ws::close_reason& reason = stream_->reason();
      if (error == ws::error::closed) return finish(reason.code, std::string(reason.reason.c_str()));
      if (error == ws::error::message_too_big)
        return finish(ws::close_code::too_big, "the message is too large");
      return finish(kAbnormal, error.message());
    }
    std::string message = beast::buffers_to_string(buffer_.data());
    buffer_.consume(buffer_.size());
    if (buffer_.capacity() > 64 * 1024) buffer_ = {};
    if (callbacks_.on_message) callbacks_.on_message(*this, std::move(message));
    if (!finished_) read();
  }

  // Writes one message at a time; what came meanwhile waits in the outbox.
  void deliver() override {
    {
      const std::lock_guard lock(mutex_);
      notified_ = false;
    }
    pump();
  }

  // Sends what waits. Called directly too, while mail may be queued: only deliver() may allow the next mail.
  void pump() {
    std::unique_lock lock(mutex_);
    if (!open_ || finished_ || writing_ || close_sent_) return;
    if (!outbox_.empty() && !cut_) {
      writing_ = true;
      current_ = std::move(outbox_.front());
      outbox_.pop_front();
      lock.unlock();
      stream_->async_write(asio::buffer(current_), [self = shared_from_this()](ErrorCode error, std::size_t) {
        self->written(error);
      });
      return;
    }
    if (!closing_) return;
    close_sent_ = true;
    const ws::close_reason reason(static_cast<ws::close_code>(close_code_), close_reason_);
    lock.unlock();
    stream_->async_close(reason, [self = shared_from_this()](ErrorCode) {
      self->finish(self->close_code_, self->close_reason_);
    });
  }

  void written(ErrorCode error) {
    writing_ = false;
    {
      const std::lock_guard lock(mutex_);
      queued_bytes_ -= current_.size();
    }
    current_ = {};
    if (finished_) return;
    if (error) return finish(kAbnormal, error.message());
    pump();
  }

  void begin_close(std::uint16_t code, std::string reason) {  // With mutex_ held.
    closing_ = true;
    cut_ = code == kTooSlow;
    close_code_ = code;
    close_reason_ = reason.substr(0, 120);  // A close frame carries 123 bytes.
    notify();
  }

  void notify() {  // With mutex_ held.
    if (notified_) return;
    notified_ = true;
    loop_->post(shared_from_this());
  }

  void finish(std::uint16_t code, const std::string& reason) {
    const std::shared_ptr<BeastSession> keep = shared_from_this();
    {
      const std::lock_guard lock(mutex_);
      if (finished_) return;
      finished_ = true;
      closing_ = true;
      outbox_.clear();
    }
    if (stream_) stream_->next_layer().close();
    WebSocketCallbacks callbacks = std::move(callbacks_);
    callbacks_ = {};
    if (stream_) loop_->remove(*this);  // Otherwise it never was there, and this may be any thread.
    if (callbacks.on_close) callbacks.on_close(code, reason);
  }

  const std::shared_ptr<Loop> loop_;
  WebSocketCallbacks callbacks_;
  const WebSocketOptions options_;

  mutable std::mutex mutex_;
  std::deque<std::string> outbox_;
  std::size_t queued_bytes_ = 0;
  bool notified_ = false;
  bool closing_ = false;
  bool cut_ = false;  // Closed for slowness: what is queued is not worth waiting for.
  std::uint16_t close_code_ = 1000;
  std::string close_reason_;
  bool finished_ = false;  // Written by the loop's thread, with mutex_ held.

  // The loop's thread only.
  std::optional<ws::stream<AsyncByteStream, false>> stream_;
  ws::response_type response_;
  beast::flat_buffer buffer_;
  std::string current_;
  bool open_ = false;
  bool writing_ = false;
  bool close_sent_ = false;
};

}  // namespace

std::shared_ptr<WebSocketSession> make_websocket_session(std::shared_ptr<Loop> loop,
                                                         WebSocketCallbacks callbacks,
                                                         WebSocketOptions options) {
  return std::make_shared<BeastSession>(std::move(loop), std::move(callbacks), std::move(options));
}

}  // namespace tranche::net
