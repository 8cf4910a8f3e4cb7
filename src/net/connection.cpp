// SPDX-License-Identifier: Apache-2.0
// The reading half of a connection: bytes in, requests out, deadlines, refusals.
#include "net/internal/connection.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>

namespace tranche::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Phase = RequestReader::Phase;
using Status = Transfer::Status;

constexpr std::chrono::milliseconds kDrainGrace{250};
constexpr std::size_t kDiscardBytesMax = 4 * 1024 * 1024;
constexpr std::size_t kOutputBytesMax = 1024 * 1024;
constexpr int kReadsInARow = 4;  // Then it is another connection's turn.

ReaderLimits reader_limits(const ServerOptions& options) {
  ReaderLimits limits;
  limits.header_bytes = options.header_bytes_max;
  limits.target_bytes = std::min(options.header_bytes_max, limits.target_bytes);
  limits.body_bytes = options.body_bytes_max;
  limits.stream_over = options.stream_bodies_over;
  return limits;
}

Response problem(int status, std::string_view detail) {
  Response response;
  response.status = status;
  response.content_type = "application/problem+json";
  response.body = R"({"type":"about:blank","status":)" + std::to_string(status) + R"(,"title":")";
  response.body.append(reason_phrase(status)).append(R"(","detail":")").append(detail).append("\"}");
  return response;
}

}  // namespace

Connection::Connection(std::shared_ptr<Loop> loop,
                       std::shared_ptr<ServerShared> shared,
                       tcp::socket socket,
                       std::unique_ptr<ByteStream> stream)
    : loop_(std::move(loop)),
      shared_(std::move(shared)),
      socket_(std::move(socket)),
      stream_(std::move(stream)),
      tls_(shared_->options.tls.has_value()),
      reader_(reader_limits(shared_->options)) {
  boost::system::error_code error;
  peer_ = socket_.remote_endpoint(error).address().to_string();
}

Connection::~Connection() = default;

void Connection::start() {
  loop_->add(shared_from_this());
  read_deadline_ = Clock::now() + shared_->options.header_timeout;
  shake_hands();
}

void Connection::shake_hands() {
  const Transfer step = stream_->handshake();
  if (step.status == Status::kWaitReadable || step.status == Status::kWaitWritable) {
    const auto what = step.status == Status::kWaitReadable ? tcp::socket::wait_read : tcp::socket::wait_write;
    socket_.async_wait(what, [self = shared_from_this()](const boost::system::error_code&) {
      if (!self->closed_) self->shake_hands();
    });
    return;
  }
  if (step.status != Status::kDone) return close();
  shaking_hands_ = false;
  certificate_ = stream_->peer_certificate();
  await_bytes();
}

void Connection::await_bytes() {
  if (closed_ || peer_finished_) return;
  if (reading_ && (full() || upgrading_)) {
    room_awaited_ = true;  // Until an answer made room for more requests, or somebody took of the body.
    if (body_) read_deadline_ = Clock::time_point::max();
  } else if (stream_->has_buffered()) {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->on_bytes(); });
  } else {
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const boost::system::error_code&) { self->on_bytes(); });
  }
}

void Connection::on_bytes() {
  if (closed_) return;
  {
    const Loop::Busy busy(*loop_);
    reading_ ? receive() : discard();
    loop_->read_mail();
  }
  await_bytes();
}

bool Connection::full() const {
  const ServerOptions& options = shared_->options;
  return in_flight_.size() >= options.pipeline_max ||
         (!in_flight_.empty() && in_flight_bytes_ > options.body_bytes_max) ||
         output_.size() > kOutputBytesMax || (body_ && body_->is_full());
}

void Connection::receive() {
  bool more = true;
  for (int i = 0; i < kReadsInARow && more && reading_ && !closed_ && !full() && !upgrading_; ++i) {
    const std::span<char> scratch = loop_->scratch();
    const Transfer got = stream_->read(scratch);
    switch (got.status) {
      case Status::kDone:
        consume({scratch.data(), got.bytes});
        more = got.bytes == scratch.size() || stream_->has_buffered();
        break;
      case Status::kWaitReadable:
      case Status::kWaitWritable:
        more = false;
        break;
      case Status::kClosed:
        peer_has_finished();
        break;
      case Status::kFailed:
        close();
        return;
    }
  }
  if (closed_) return;
  watch_clock();
  wants_flush();
}

// It will send no more, but may well wait for its answers; a reader of a stream that ended is gone.
void Connection::peer_has_finished() {
  peer_finished_ = true;
  reading_ = false;
  end_body(RequestBody::State::kBroken);
  if (closed_) return;
  const bool streaming = !in_flight_.empty() && in_flight_.front()->begun;
  if (streaming || (in_flight_.empty() && output_.empty())) close();
}

void Connection::consume(std::string_view bytes) {
  if (input_.empty()) {
    const std::size_t used = parse(bytes);
    if (!closed_ && reading_) input_.assign(bytes.substr(used));
    return;
  }
  input_.append(bytes);
  const std::size_t used = parse(input_);
  input_.erase(0, used);
}

std::size_t Connection::parse(std::string_view bytes) {
  std::size_t total = 0;
  while (reading_ && !closed_ && !upgrading_ && !full() && total < bytes.size()) {
    std::size_t used = 0;
    const RequestReader::Outcome outcome = reader_.read(bytes.substr(total), used);
    total += used;
    if (outcome == RequestReader::Outcome::kRefused) {
      end_body(RequestBody::State::kBroken);
      refuse(reader_.refusal_status(), reader_.refusal_reason());
      return bytes.size();
    }
    if (body_) {
      hand_on(outcome == RequestReader::Outcome::kRequest);
      if (outcome == RequestReader::Outcome::kRequest) continue;
    }
    if (outcome == RequestReader::Outcome::kNeedMore) break;
    const bool in_pieces = outcome == RequestReader::Outcome::kHead;
    if (in_pieces) begin_body();
    dispatch(in_pieces ? reader_.take_head() : reader_.take());
    if (!reading_ && total < bytes.size()) linger_ = true;
  }
  if ((reading_ || body_) && reader_.expects_continue() && !continue_sent_) continue_owed_ = true;
  return total;
}

// From here on the body goes to whoever takes the request, and no further request is read before its end.
void Connection::begin_body() {
  body_ = std::make_shared<RequestBody>(reader_.body_length());
  body_->on_room([self = weak_from_this(), executor = socket_.get_executor()] {
    asio::post(executor, [self] {
      if (const auto connection = self.lock()) connection->go_on_with_body();
    });
  });
}

void Connection::go_on_with_body() {
  if (closed_) return;
  {
    const Loop::Busy busy(*loop_);
    if (body_ && !full()) {
      read_deadline_ = Clock::now() + shared_->options.body_timeout;
      if (!input_.empty()) consume({});
    }
    if (closed_) return;
    wants_flush();
    loop_->read_mail();
  }
  if (closed_ || full() || !std::exchange(room_awaited_, false)) return;
  await_bytes();
}

// Nobody takes it any more, or it does not come: its answer is the last of this connection.
void Connection::give_up_on_body() {
  if (!body_) return;
  reading_ = false;
  linger_ = true;
  input_ = {};
  end_body(RequestBody::State::kBroken);
  read_deadline_ = Clock::now() + shared_->options.answer_timeout;
}

void Connection::hand_on(bool is_whole) {
  const auto body = body_;  // Who is told may close this connection.
  body->add(reader_.take_body());
  if (body->is_wanted()) read_deadline_ = Clock::now() + shared_->options.body_timeout;
  if (!is_whole || closed_) return;
  static_cast<void>(reader_.take());
  end_body(RequestBody::State::kWhole);
  continue_sent_ = continue_owed_ = false;
  if (std::exchange(last_, false)) reading_ = false;
}

void Connection::end_body(RequestBody::State how) {
  if (const auto body = std::exchange(body_, nullptr)) body->end(how);
}

void Connection::dispatch(Request request) {
  auto exchange = std::make_shared<Exchange>();
  exchange->loop = loop_;
  exchange->stream_bytes_max = shared_->options.stream_bytes_max;
  exchange->connection = this;
  exchange->keep_alive = reader_.keep_alive();
  exchange->http10 = reader_.http10();
  request.rest = body_;
  request.peer = peer_;
  request.tls = tls_;
  request.client_certificate = certificate_;
  exchange->head_only = request.method == "HEAD";
  exchange->request_bytes = request.body.size();
  const std::string_view protocol = request.header("Upgrade");
  upgrading_ = !protocol.empty() && !body_;  // Until it is answered, what follows may be in that protocol.
  if (request.method == "GET" && same_text_in_any_case(protocol, "websocket") &&
      request.header("Sec-WebSocket-Version") == "13") {
    exchange->upgradable = true;
    exchange->websocket_key = request.header("Sec-WebSocket-Key");
    exchange->websocket_protocols = request.header("Sec-WebSocket-Protocol");
  }
  in_flight_bytes_ += exchange->request_bytes;
  in_flight_.push_back(exchange);
  ++served_;
  if (!body_) continue_sent_ = continue_owed_ = false;
  if (!exchange->keep_alive || loop_->draining()) (body_ ? last_ = true : reading_ = false);
  shared_->requests.fetch_add(1, std::memory_order_relaxed);
  try {
    shared_->handler(std::move(request), Reply(std::move(exchange)));
  } catch (const std::exception& fault) {  // The Reply it dropped has answered with a 500.
    if (shared_->options.on_fault) shared_->options.on_fault(fault.what());
  } catch (...) {
    if (shared_->options.on_fault) shared_->options.on_fault("an exception of an unknown type");
  }
}

// Answers in its turn, then closes: after a framing error nothing that follows can be trusted.
void Connection::refuse(int status, std::string_view reason) {
  reading_ = false;
  linger_ = true;
  input_ = {};
  auto exchange = std::make_shared<Exchange>();
  exchange->connection = this;
  exchange->keep_alive = false;
  exchange->answer = Exchange::Answer::kResponse;
  exchange->response = problem(status, reason);
  exchange->ready = true;
  in_flight_.push_back(std::move(exchange));
  read_deadline_ = Clock::now() + shared_->options.answer_timeout;
  wants_flush();
}

void Connection::give_up_on_handler() {
  for (const auto& exchange : in_flight_) exchange->connection = nullptr;
  in_flight_.clear();
  refuse(504, "no answer in time");
}

// Reads what a refused client still sends, so that closing does not reset the answer away.
void Connection::discard() {
  const std::span<char> scratch = loop_->scratch();
  for (int i = 0; i < kReadsInARow; ++i) {
    const Transfer got = stream_->read(scratch);
    if (got.status == Status::kWaitReadable || got.status == Status::kWaitWritable) return;
    if (got.status == Status::kFailed) return close();
    if (got.status == Status::kClosed) return lingering_ ? close() : peer_has_finished();
    discarded_ += got.bytes;
    if (discarded_ > kDiscardBytesMax) return close();
  }
}

void Connection::watch_clock() {
  if (!reading_) return;
  const Phase phase = reader_.phase();
  if (phase == clock_phase_ && served_ == clock_served_ && phase != Phase::kIdle) return;
  if (phase == Phase::kIdle && served_ == 0) return;  // The deadline of the connect stands.
  clock_phase_ = phase;
  clock_served_ = served_;
  const ServerOptions& options = shared_->options;
  std::chrono::milliseconds patience = options.header_timeout;
  if (phase == Phase::kBody) patience = options.body_timeout;
  if (body_ && !body_->is_wanted()) {  // It waits for its turn, and so does what it has not sent.
    read_deadline_ = Clock::time_point::max();
    return;
  }
  if (phase == Phase::kIdle) patience = in_flight_.empty() ? options.idle_timeout : options.answer_timeout;
  const bool streaming = !in_flight_.empty() && in_flight_.front()->begun;
  read_deadline_ = streaming && phase == Phase::kIdle ? Clock::time_point::max() : Clock::now() + patience;
}

void Connection::expire(Clock::time_point now) {
  if (now >= write_deadline_) return close();
  if (in_flight_.empty() && output_.empty() && reader_.phase() == Phase::kIdle) {
    output_.release();
    if (input_.empty()) input_.shrink_to_fit();
  }
  if (now < read_deadline_) return;
  if (shaking_hands_ || lingering_) return close();
  if (body_) return give_up_on_body();
  if (reading_ && reader_.phase() != Phase::kIdle) return refuse(408, "the request did not arrive in time");
  if (in_flight_.empty()) return close();
  if (!in_flight_.front()->ready) give_up_on_handler();
}

void Connection::drain() {
  if (shaking_hands_ || closed_) return;
  const Loop::Busy busy(*loop_);
  if (reading_ && reader_.phase() == Phase::kIdle) receive();  // It may have sent one just now.
  if (closed_ || !reading_ || reader_.phase() != Phase::kIdle) {
    if (!closed_) wants_flush();
    return;
  }
  if (served_ == 0) {
    read_deadline_ = std::min(read_deadline_, Clock::now() + kDrainGrace);
    return;
  }
  reading_ = false;
  wants_flush();
}

void Connection::abort() {
  close();
}

}  // namespace tranche::net
