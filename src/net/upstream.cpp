// SPDX-License-Identifier: Apache-2.0
#include "net/internal/upstream.hpp"

#include <array>
#include <boost/asio/post.hpp>
#include <charconv>
#include <sys/socket.h>
#include <utility>

#include "net/internal/tunnel.hpp"
#include "net/internal/upstream_pool.hpp"
#include "net/request_body.hpp"

namespace tranche::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Outcome = RelayReader::Outcome;
using Status = Transfer::Status;

constexpr std::size_t kWholeAnswerMost = 64 * 1024;  // Shorter ones go in one piece.
constexpr std::size_t kClientBacklogMost = 128 * 1024;
constexpr std::size_t kMemoryKept = 64 * 1024;  // With a connection that waits.
constexpr std::chrono::milliseconds kClientPause{2};

bool has_body(const Request& request) {
  return !request.body.empty() || request.method == "POST" || request.method == "PUT" ||
         request.method == "PATCH";
}

// A piece of a body whose length nobody knows beforehand.
void append_chunk(std::string& out, std::string_view piece) {
  if (piece.empty()) return;
  std::array<char, 24> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), piece.size(), 16);
  out.append(digits.data(), end).append("\r\n").append(piece).append("\r\n");
}

// How long the body is, and what of it is here.
void write_body(std::string& out, const Request& request) {
  if (request.rest && !request.rest->length()) {
    out.append("Transfer-Encoding: chunked\r\n\r\n");
    return append_chunk(out, request.body);
  }
  if (request.rest || has_body(request))
    out.append("Content-Length: ")
        .append(std::to_string(request.rest ? *request.rest->length() : request.body.size()))
        .append("\r\n");
  out.append("\r\n").append(request.body);
}

void write_request(std::string& out, const Errand& errand, const ForwardTarget& target) {
  const Request& request = errand.request();
  out.clear();
  out.append(request.method).append(" ").append(errand.target_path()).append(" HTTP/1.1\r\n");
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
  if (const std::string_view protocol = request.header("Upgrade"); !protocol.empty() && !request.rest)
    out.append("Connection: Upgrade\r\nUpgrade: ").append(protocol).append("\r\n");
  write_body(out, request);
}

}  // namespace

Upstream::Upstream(const std::shared_ptr<UpstreamPool>& pool, ForwardTarget target)
    : home_(pool), target_(std::move(target)), socket_(pool->loop().io()) {}

void Upstream::carry(std::shared_ptr<Errand> errand, const ForwardOptions& options, Reply reply) {
  pool_ = home_.lock();
  errand_ = std::move(errand);
  options_ = options;
  reply_.emplace(std::move(reply));
  status_ = 0;
  timed_out_ = heard_ = head_done_ = whole_ = answered_ = false;
  reusable_ = true;
  body_ended_ = !errand_->request().rest;
  sent_ = 0;
  rest_.clear();
  write_request(text_, *errand_, target_);
  reader_.begin(errand_->request().method == "HEAD" ? RelayReader::Body::kNone
                                                    : RelayReader::Body::kExpected);
  pool_->watch(*this);
  bytes_ ? send_request() : connect();
}

void Upstream::connect() {
  boost::system::error_code error;
  const asio::ip::address address = asio::ip::make_address(target_.address, error);
  const bool is_sealed = !target_.identity.empty();
  if (error || (is_sealed && pool_->sealed() == nullptr)) return end(ForwardEnd::kNotSent);
  deadline_ = Clock::now() + options_.connect;
  socket_.async_connect({address, target_.port},
                        [self = shared_from_this(), is_sealed](const boost::system::error_code& failed) {
                          if (failed || self->timed_out_) return self->end(ForwardEnd::kNotSent);
                          boost::system::error_code ignored;
                          self->socket_.non_blocking(true, ignored);
                          self->socket_.set_option(tcp::no_delay(true), ignored);
                          const int descriptor = self->socket_.native_handle();
                          self->bytes_ = is_sealed ? self->pool_->sealed()->peer_stream(descriptor)
                                                   : plain_stream(descriptor);
                          self->shake_hands();
                        });
}

void Upstream::shake_hands() {
  if (timed_out_) return end(ForwardEnd::kNotSent);
  const Transfer step = bytes_->handshake();
  if (step.status == Status::kWaitReadable || step.status == Status::kWaitWritable) {
    socket_.async_wait(
        step.status == Status::kWaitReadable ? tcp::socket::wait_read : tcp::socket::wait_write,
        [self = shared_from_this()](const boost::system::error_code&) { self->shake_hands(); });
    return;
  }
  const auto certificate = bytes_->peer_certificate();
  const bool is_whom_we_meant =
      target_.identity.empty() || (certificate && certificate->common_name == target_.identity);
  if (step.status != Status::kDone || !is_whom_we_meant) return end(ForwardEnd::kNotSent);
  send_request();
}

// A body that is read as it is passed on is answered at any time, also before its end.
void Upstream::send_request() {
  deadline_ = Clock::now() + options_.first_byte;
  while (send_text()) {
    if (body_ended_) break;
    if (next_of_body()) continue;
    if (errand_) await_answer();
    return;
  }
  if (!errand_) return;
  if (body_ended_ && sent_ == text_.size() && text_.capacity() > kMemoryKept) std::string().swap(text_);
  if (sent_ >= text_.size() || !body_ended_) await_answer();
}

bool Upstream::send_text() {
  while (sent_ < text_.size()) {
    const iovec piece{text_.data() + sent_, text_.size() - sent_};
    const Transfer sent = bytes_->write({&piece, 1});
    if (sent.status == Status::kDone) {
      sent_ += sent.bytes;
      continue;
    }
    if (sent.status == Status::kClosed || sent.status == Status::kFailed) {
      reusable_ = false;
      if (body_ended_) {
        end(ForwardEnd::kNoAnswer);
      } else {  // It may have said why before it closed.
        errand_->request().rest->forget_wish();
        await_answer();
      }
      return false;
    }
    if (!std::exchange(awaits_room_, true))
      socket_.async_wait(
          sent.status == Status::kWaitReadable ? tcp::socket::wait_read : tcp::socket::wait_write,
          [self = shared_from_this(), errand = errand_.get()](const boost::system::error_code& error) {
            self->awaits_room_ = false;
            if (self->errand_.get() != errand) return;
            error ? self->end(ForwardEnd::kNoAnswer) : self->send_request();
          });
    return false;
  }
  return true;
}

bool Upstream::next_of_body() {
  RequestBody& body = *errand_->request().rest;
  const bool is_chunked = !body.length();
  std::string piece = body.take();
  text_.clear();
  sent_ = 0;
  if (is_chunked) append_chunk(text_, piece);
  if (!is_chunked) text_ = std::move(piece);
  if (!text_.empty()) return true;
  if (body.state() == RequestBody::State::kBroken) {
    end(ForwardEnd::kNoBody);
    return false;
  }
  if (body.state() == RequestBody::State::kWhole) {
    body_ended_ = true;
    if (is_chunked) text_ = "0\r\n\r\n";
    return true;
  }
  deadline_ = Clock::time_point::max();  // It is the client that is waited for, and he has his own.
  // Not at once: whoever tells is in the middle of reading what the client sent.
  body.want([self = weak_from_this(), errand = errand_.get(), executor = socket_.get_executor()] {
    asio::post(executor, [self, errand] {
      const auto upstream = self.lock();
      if (upstream && upstream->errand_.get() == errand && !upstream->awaits_room_) upstream->send_request();
    });
  });
  return false;
}

// One that is kept waits too, and so hears when its other end closes.
void Upstream::await_answer() {
  if (std::exchange(awaiting_, true)) return;
  const auto heard = [self = shared_from_this()](const boost::system::error_code& error) {
    self->awaiting_ = false;
    self->on_readable(error);
  };
  if (bytes_->has_buffered()) return asio::post(socket_.get_executor(), [heard] { heard({}); });
  socket_.async_wait(tcp::socket::wait_read, heard);
}

void Upstream::on_readable(const boost::system::error_code& error) {
  if (!errand_) {
    if (const auto home = home_.lock()) home->forget(*this);
    return close();
  }
  if (timed_out_) return end(heard_ ? ForwardEnd::kBroken : ForwardEnd::kTimedOut);
  if (error) return end(heard_ ? ForwardEnd::kBroken : ForwardEnd::kNoAnswer);
  Loop& loop = pool_->loop();
  const Loop::Busy busy(loop);
  receive();
  loop.read_mail();
}

void Upstream::receive() {
  const std::span<char> scratch = pool_->loop().scratch();
  const Transfer got = bytes_->read(scratch);
  if (got.status == Status::kDone) return take({scratch.data(), got.bytes});
  if (got.status == Status::kWaitReadable || got.status == Status::kWaitWritable) return await_answer();
  if (got.status == Status::kFailed || !heard_)
    return end(heard_ ? ForwardEnd::kBroken : ForwardEnd::kNoAnswer);
  reusable_ = false;
  if (reader_.end_of_stream() == Outcome::kBroken) return end(ForwardEnd::kBroken);
  pass_on(true);
}

void Upstream::take(std::string_view bytes) {
  heard_ = true;
  deadline_ = Clock::now() + options_.between_bytes;
  const bool is_rest = !rest_.empty();
  if (is_rest) bytes = rest_.append(bytes);
  std::size_t used = 0;
  const Outcome outcome = reader_.read(bytes, used);
  is_rest ? rest_.erase(0, used) : rest_.assign(bytes.substr(used));
  if (outcome == Outcome::kBroken) return end(ForwardEnd::kBroken);
  const bool whole = outcome == Outcome::kAnswer;
  if (whole && reader_.status() == 101) return change_protocol();
  if (whole) reusable_ = reusable_ && reader_.keep_alive() && rest_.empty() && body_ended_;
  if (!reader_.header_complete()) return await_answer();
  pass_on(whole);
}

// What has come of the answer goes to the client.
void Upstream::pass_on(bool whole) {
  if (!std::exchange(head_done_, true)) {
    status_ = reader_.status();
    errand_->on_head(status_, reader_.content_type(), reader_.fields());
  }
  if (!stream_ && whole) return send_whole();
  const bool may_be_whole_soon = !reader_.length().empty() && reader_.body().size() < kWholeAnswerMost;
  if (!stream_ && may_be_whole_soon) return await_answer();
  send_piece(whole);
}

void Upstream::send_whole() {
  errand_->on_body(reader_.body());
  answered_ = true;
  Response response{.status = status_, .content_type = {}, .body = std::move(reader_.body()), .headers = {}};
  if (errand_->request().method == "HEAD" && !reader_.length().empty())
    response.headers.emplace_back("Content-Length", reader_.length());
  Forwarder::exchange_of(*reply_).relayed_fields = std::move(reader_.fields());
  reply_->send(std::move(response));
  end(ForwardEnd::kDone);
}

void Upstream::send_piece(bool whole) {
  held_ = std::exchange(reader_.body(), {});
  whole_ = whole;
  if (!stream_) {
    answered_ = true;
    Forwarder::exchange_of(*reply_).relayed_fields = std::move(reader_.fields());
    stream_ = reply_->stream({.status = status_, .content_type = {}, .body = {}, .headers = {}});
  }
  errand_->on_body(held_);
  write_held();
}

void Upstream::write_held() {
  if (stream_->open() && stream_->waiting() > kClientBacklogMost) {
    deadline_ = Clock::now() + options_.between_bytes;  // It is the client that is waited for.
    pause_.emplace(pool_->loop().io(), kClientPause);
    pause_->async_wait([self = shared_from_this()](const boost::system::error_code&) {
      if (self->errand_) self->write_held();
    });
    return;
  }
  const bool is_taken = held_.empty() ? stream_->open() : stream_->write(std::exchange(held_, {}));
  if (whole_) {
    stream_->close();
    return end(ForwardEnd::kDone);
  }
  is_taken ? await_answer() : end(ForwardEnd::kGone);
}

// From here on it is not HTTP: both connections become one tunnel.
void Upstream::change_protocol() {
  if (errand_->request().header("Upgrade").empty() || errand_->request().rest)
    return end(ForwardEnd::kBroken);
  status_ = reader_.status();
  errand_->on_head(status_, {}, reader_.fields());
  Exchange& exchange = Forwarder::exchange_of(*reply_);
  exchange.relayed_fields = std::move(reader_.fields());
  auto tunnel = std::make_shared<Tunnel>(
      exchange.loop,
      std::move(socket_),
      std::move(bytes_),
      std::move(rest_),
      options_.between_bytes,
      [errand = errand_, status = status_] { errand->on_end(ForwardEnd::kDone, status, nullptr); });
  Forwarder::switch_protocol(*reply_, reader_.protocol(), std::move(tunnel));
  pool_->unwatch(*this);
  errand_.reset();
  reply_.reset();
  pool_.reset();
}

void Upstream::end(ForwardEnd how) {
  const auto self = shared_from_this();
  pool_->unwatch(*this);
  if (const auto& body = errand_->request().rest) body->forget_wish();
  deadline_ = Clock::time_point::max();
  if (stream_ && how != ForwardEnd::kDone) stream_->abort();
  stream_.reset();
  const auto pool = std::move(pool_);
  const auto errand = std::move(errand_);
  Reply reply = std::move(*reply_);
  reply_.reset();
  if (how == ForwardEnd::kDone && reusable_ && pool->give(self)) {
    await_answer();
  } else {
    close();
  }
  errand->on_end(how, status_, answered_ ? nullptr : &reply);
}

void Upstream::expire(Clock::time_point now) {
  if (now < deadline_) return;
  timed_out_ = true;
  deadline_ = Clock::time_point::max();
  close();
}

bool Upstream::is_quiet() {
  char byte = 0;
  return ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void Upstream::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  bytes_.reset();
}

}  // namespace tranche::net
