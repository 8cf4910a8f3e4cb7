// SPDX-License-Identifier: Apache-2.0
// From any thread to the loop: answers and streamed chunks. No socket is touched here.
#include "net/reply.hpp"

#include <utility>

#include "base/check.hpp"
#include "net/internal/connection.hpp"
#include "net/internal/exchange.hpp"
#include "net/internal/tunnel.hpp"
#include "net/internal/websocket_session.hpp"

namespace tranche::net {

StreamState::StreamState(std::shared_ptr<Loop> loop, std::size_t bytes_max)
    : loop_(std::move(loop)), bytes_max_(bytes_max) {}

void StreamState::notify() {
  if (queued_) return;
  queued_ = true;
  loop_->post(shared_from_this());
}

bool StreamState::write(std::string chunk) {
  const std::lock_guard lock(mutex_);
  if (ended_ || gone_) return false;
  if (pending_.size() + backlog_.load(std::memory_order_relaxed) + chunk.size() > bytes_max_) {
    overflowed_.store(true, std::memory_order_relaxed);
    ended_ = true;
    pending_ = {};
    notify();
    return false;
  }
  if (pending_.empty()) {
    pending_ = std::move(chunk);
  } else {
    pending_ += chunk;
  }
  notify();
  return true;
}

void StreamState::close() {
  const std::lock_guard lock(mutex_);
  if (ended_ || gone_) return;
  ended_ = true;
  notify();
}

void StreamState::abort() {
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  overflowed_.store(true, std::memory_order_relaxed);
  ended_ = true;
  pending_ = {};
  notify();
}

bool StreamState::open() const {
  const std::lock_guard lock(mutex_);
  return !ended_ && !gone_;
}

std::size_t StreamState::waiting() const {
  const std::lock_guard lock(mutex_);
  return pending_.size() + backlog_.load(std::memory_order_relaxed);
}

void StreamState::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      callback_ = std::move(callback);
      return;
    }
  }
  if (callback) callback();
}

void StreamState::attach(Connection* connection) {
  connection_ = connection;
}

std::string StreamState::take(bool& ended) {
  const std::lock_guard lock(mutex_);
  ended = ended_;
  return std::exchange(pending_, {});
}

void StreamState::gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    gone_ = true;
    pending_ = {};
    callback.swap(callback_);
  }
  connection_ = nullptr;
  if (callback) callback();
}

void StreamState::deliver() {
  {
    const std::lock_guard lock(mutex_);
    queued_ = false;
  }
  if (connection_ != nullptr) connection_->wants_flush();
}

Exchange::~Exchange() {
  // Nobody will carry them; a finished stream knows already; a WebSocket or a tunnel was taken out.
  if (stream) stream->gone();
  if (websocket) websocket->abort();
  if (tunnel) tunnel->abort();
}

void Exchange::finish(std::shared_ptr<Exchange> exchange) {
  const std::shared_ptr<Loop> to = exchange->loop;
  to->post(std::move(exchange));
}

void Exchange::deliver() {
  ready = true;
  if (connection != nullptr) connection->wants_flush();
}

Stream::Stream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}

Stream::~Stream() {
  state_->close();
}

bool Stream::write(std::string chunk) {
  return state_->write(std::move(chunk));
}

void Stream::close() {
  state_->close();
}

void Stream::abort() {
  state_->abort();
}

bool Stream::open() const {
  return state_->open();
}

std::size_t Stream::waiting() const {
  return state_->waiting();
}

void Stream::on_close(std::function<void()> callback) {
  state_->on_close(std::move(callback));
}

std::string sse_event(std::string_view id, std::string_view event, std::string_view data) {
  std::string out;
  out.reserve(id.size() + event.size() + data.size() + 32);
  if (!id.empty()) out.append("id: ").append(id).append("\n");
  if (!event.empty()) out.append("event: ").append(event).append("\n");
  for (;;) {
    const std::size_t end = data.find('\n');
    out.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + 1);
  }
  return out += "\n";
}

Reply::Reply(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

Reply::~Reply() {
  if (!exchange_) return;
  Response response;
  response.status = 500;
  response.content_type = "application/problem+json";
  response.body = R"({"status":500,"title":"Internal Server Error","detail":"the request was not answered"})";
  send(std::move(response));
}

Reply& Reply::operator=(Reply&& other) noexcept {
  std::swap(exchange_, other.exchange_);
  return *this;
}

void Reply::send(Response response) {
  TRANCHE_CHECK(exchange_ != nullptr);
  exchange_->answer = Exchange::Answer::kResponse;
  exchange_->response = std::move(response);
  Exchange::finish(std::move(exchange_));
}

std::shared_ptr<Stream> Reply::stream(Response head) {
  TRANCHE_CHECK(exchange_ != nullptr);
  exchange_->answer = Exchange::Answer::kStream;
  exchange_->response = std::move(head);
  exchange_->stream = std::make_shared<StreamState>(exchange_->loop, exchange_->stream_bytes_max);
  auto stream = std::make_shared<Stream>(exchange_->stream);
  Exchange::finish(std::move(exchange_));
  return stream;
}

std::shared_ptr<WebSocket> Reply::upgrade(WebSocketCallbacks callbacks, WebSocketOptions options) {
  TRANCHE_CHECK(exchange_ != nullptr);
  auto websocket = make_websocket_session(exchange_->loop, std::move(callbacks), std::move(options));
  exchange_->websocket = websocket;
  exchange_->answer = Exchange::Answer::kUpgrade;
  if (!exchange_->upgradable) {
    exchange_->answer = Exchange::Answer::kResponse;
    exchange_->response.status = 400;
    exchange_->response.content_type = "text/plain";
    exchange_->response.body = "a WebSocket handshake was expected\n";
  }
  Exchange::finish(std::move(exchange_));
  return websocket;
}

AnswerBatch::AnswerBatch() {
  hold_wake_ups();
}

AnswerBatch::~AnswerBatch() {
  release_wake_ups();
}

}  // namespace tranche::net
