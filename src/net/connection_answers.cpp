// SPDX-License-Identifier: Apache-2.0
// The answering half of a connection: answers in the order of their requests, streams, writing, the end.
#include <array>
#include <boost/asio/post.hpp>
#include <charconv>

#include "net/internal/connection.hpp"
#include "net/internal/tunnel.hpp"
#include "net/internal/websocket_session.hpp"

namespace tranche::net {
namespace {

using Status = Transfer::Status;

constexpr std::chrono::milliseconds kLinger{2'000};
constexpr std::size_t kProgress = 4 * 1024;  // A client that takes this much in time gets more time.

bool has_line_break(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
}

// Fields that only this file may set: they frame the answer.
bool frames_the_answer(std::string_view name) {
  return same_text_in_any_case(name, "Content-Length") || same_text_in_any_case(name, "Transfer-Encoding") ||
         same_text_in_any_case(name, "Connection") || same_text_in_any_case(name, "Date");
}

void append_number(std::string& out, std::size_t number, int base) {
  std::array<char, 24> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number, base);
  out.append(digits.data(), end);
}

}  // namespace

void Connection::flush() {
  if (closed_) return;
  const Loop::Busy busy(*loop_);
  emit_continue();
  emit_answers();
  if (closed_) return;
  write_out();
  if (closed_) return;
  // Answers made room: go on with requests that were read already.
  if (reading_ && !upgrading_ && !body_ && !input_.empty() && !full() &&
      reader_.phase() == RequestReader::Phase::kIdle) {
    consume({});
    watch_clock();
    if (!closed_) wants_flush();
  }
  if (room_awaited_ && !full() && !upgrading_ && !body_) {
    room_awaited_ = false;
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->on_bytes(); });
  }
}

void Connection::emit_continue() {
  if (!continue_owed_) return;
  const bool is_wanted = body_ && body_->is_wanted() && in_flight_.size() == 1 && !in_flight_.front()->ready;
  if (!is_wanted && !in_flight_.empty()) return;
  continue_owed_ = false;
  continue_sent_ = true;
  output_.tail() += "HTTP/1.1 100 Continue\r\n\r\n";
}

void Connection::emit_answers() {
  bool emitted = false;
  while (!closed_ && !in_flight_.empty() && in_flight_.front()->ready) {
    const std::shared_ptr<Exchange> front = in_flight_.front();
    if (in_flight_.size() == 1 && !reading_) front->keep_alive = false;
    if (front->answer == Exchange::Answer::kUpgrade) return emit_upgrade(*front);
    if (front->answer == Exchange::Answer::kTunnel) return emit_tunnel(*front);
    if (front->answer == Exchange::Answer::kStream) {
      if (!emit_stream(*front)) break;
    } else {
      if (body_ && in_flight_.size() == 1) front->keep_alive = false;
      emit_response(*front);
    }
    if (closed_) return;
    if (body_ && in_flight_.size() == 1) {  // Answered before it was sent whole.
      front->keep_alive = false;
      give_up_on_body();
      if (closed_) return;
    }
    in_flight_bytes_ -= front->request_bytes;
    front->connection = nullptr;
    in_flight_.erase(in_flight_.begin());
    if (in_flight_.empty()) upgrading_ = false;  // Nothing was read behind a request that asked for it.
    emitted = true;
    if (!front->keep_alive) {
      reading_ = false;
      for (const auto& exchange : in_flight_) exchange->connection = nullptr;
      in_flight_.clear();
    }
  }
  if (emitted && in_flight_.empty()) {
    emit_continue();
    watch_clock();
  }
}

void Connection::emit_head(const Exchange& exchange, std::string_view framing) {
  const Response& response = exchange.response;
  std::string& out = output_.tail();
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::size_t>(response.status), 10);
  out.append(" ").append(reason_phrase(response.status)).append("\r\nDate: ").append(loop_->date());
  out += "\r\n";
  if (!response.content_type.empty() && !has_line_break(response.content_type))
    out.append("Content-Type: ").append(response.content_type).append("\r\n");
  for (const auto& [name, value] : response.headers) {
    if (frames_the_answer(name) || has_line_break(name) || has_line_break(value)) continue;
    out.append(name).append(": ").append(value).append("\r\n");
  }
  out += exchange.relayed_fields;
  out += framing;
  if (!exchange.keep_alive) {
    out += "Connection: close\r\n";
  } else if (exchange.http10) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
}

void Connection::emit_response(Exchange& exchange) {
  Response& response = exchange.response;
  const bool bodiless = response.status == 204 || response.status == 304 || response.status < 200;
  std::string framing;
  if (!bodiless) {
    framing = "Content-Length: ";
    // A HEAD may be answered without building the body, when its length is known.
    const std::string_view known = exchange.head_only ? response.header("Content-Length") : "";
    if (response.body.empty() && !known.empty() && !has_line_break(known)) {
      framing += known;
    } else {
      append_number(framing, response.body.size(), 10);
    }
    framing += "\r\n";
  }
  emit_head(exchange, framing);
  if (!bodiless && !exchange.head_only) output_.push(std::move(response.body));
}

bool Connection::emit_stream(Exchange& exchange) {
  StreamState& stream = *exchange.stream;
  const bool chunked = !exchange.http10;
  if (!exchange.begun) {
    exchange.begun = true;
    stream.attach(this);
    if (!chunked) exchange.keep_alive = false;
    emit_head(exchange, chunked ? "Transfer-Encoding: chunked\r\n" : "");
    if (exchange.head_only) {
      stream.gone();
      return true;
    }
    if (reader_.phase() == RequestReader::Phase::kIdle) read_deadline_ = Clock::time_point::max();
  }
  if (stream.overflowed() || peer_finished_) {
    close();
    return false;
  }
  bool ended = false;
  std::string chunk = stream.take(ended);
  if (!chunk.empty()) {
    if (chunked) {
      append_number(output_.tail(), chunk.size(), 16);
      output_.tail() += "\r\n";
    }
    output_.push(std::move(chunk));
    if (chunked) output_.tail() += "\r\n";
  }
  if (!ended && !loop_->draining()) return false;
  if (chunked) output_.tail() += "0\r\n\r\n";
  stream.gone();
  return true;
}

void Connection::emit_upgrade(Exchange& exchange) {
  WebSocketUpgrade upgrade;
  upgrade.stream = std::move(stream_);
  upgrade.early_bytes = std::move(input_);
  upgrade.key = exchange.websocket_key;
  upgrade.protocols = exchange.websocket_protocols;
  const std::shared_ptr<WebSocketSession> session = std::move(exchange.websocket);
  boost::system::error_code error;
  upgrade.descriptor = socket_.release(error);
  close();
  if (error) return session->abort();
  session->accept(std::move(upgrade));
}

void Connection::emit_tunnel(Exchange& exchange) {
  exchange.keep_alive = true;  // Nothing is said of it: the connection is another one from here on.
  emit_head(exchange, "Connection: Upgrade\r\nUpgrade: " + exchange.switch_to + "\r\n");
  std::string first;
  while (!output_.empty()) {
    std::array<iovec, OutputQueue::kPieces> pieces{};
    const std::size_t before = first.size();
    for (const iovec& piece : output_.front(pieces))
      first.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    output_.consume(first.size() - before);
  }
  const std::shared_ptr<Tunnel> tunnel = std::move(exchange.tunnel);
  auto stream = std::move(stream_);
  std::string early = std::move(input_);
  boost::system::error_code error;
  const int descriptor = socket_.release(error);
  close();
  if (error) return tunnel->abort();
  tunnel->start(descriptor, std::move(stream), std::move(first), std::move(early));
}

void Connection::write_out() {
  while (!output_.empty() && !writable_awaited_) {
    std::array<iovec, OutputQueue::kPieces> pieces{};
    const Transfer sent = stream_->write(output_.front(pieces));
    if (sent.status == Status::kDone) {
      output_.consume(sent.bytes);
      written_since_ += sent.bytes;
    } else if (sent.status == Status::kWaitWritable || sent.status == Status::kWaitReadable) {
      await_writable();
    } else {
      return close();
    }
  }
  if (!in_flight_.empty() && in_flight_.front()->begun)
    in_flight_.front()->stream->set_backlog(output_.size());
  if (output_.empty()) after_writing();
}

void Connection::await_writable() {
  writable_awaited_ = true;
  if (write_deadline_ == Clock::time_point::max() || written_since_ >= kProgress) {
    write_deadline_ = Clock::now() + shared_->options.write_timeout;
    written_since_ = 0;
  }
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code&) {
                       self->writable_awaited_ = false;
                       if (self->closed_) return;
                       self->wants_flush();
                       self->loop_->read_mail();
                     });
}

void Connection::after_writing() {
  write_deadline_ = Clock::time_point::max();
  written_since_ = 0;
  if (!in_flight_.empty() || reading_) return;
  if (peer_finished_ || !linger_) return close();
  if (lingering_) return;
  lingering_ = true;
  stream_->shutdown_write();
  read_deadline_ = Clock::now() + kLinger;
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  reading_ = false;
  for (const auto& exchange : in_flight_) {
    exchange->connection = nullptr;
    if (exchange->stream) exchange->stream->gone();
  }
  in_flight_.clear();
  end_body(RequestBody::State::kBroken);
  boost::system::error_code error;
  if (stream_ && !lingering_ && output_.empty() && !shaking_hands_) stream_->shutdown_write();
  socket_.close(error);
  loop_->remove(*this);
}

}  // namespace tranche::net
