// SPDX-License-Identifier: Apache-2.0
#include "net/internal/upstream.hpp"

#include <sys/socket.h>
#include <utility>

#include "net/internal/tunnel.hpp"
#include "net/internal/upstream_pool.hpp"

namespace tranche::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Outcome = RelayReader::Outcome;

constexpr std::size_t kWholeAnswerMost = 64 * 1024;  // Shorter ones go in one piece.
constexpr std::size_t kClientBacklogMost = 128 * 1024;
constexpr std::size_t kMemoryKept = 64 * 1024;  // With a connection that waits.
constexpr std::chrono::milliseconds kClientPause{2};

bool has_body(const Request& request) {
  return !request.body.empty() || request.method == "POST" || request.method == "PUT" ||
         request.method == "PATCH";
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
  if (const std::string_view protocol = request.header("Upgrade"); !protocol.empty())
    out.append("Connection: Upgrade\r\nUpgrade: ").append(protocol).append("\r\n");
  if (has_body(request))
    out.append("Content-Length: ").append(std::to_string(request.body.size())).append("\r\n");
  out.append("\r\n").append(request.body);
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
  sent_ = 0;
  rest_.clear();
  write_request(text_, *errand_, target_);
  reader_.begin(errand_->request().method == "HEAD" ? RelayReader::Body::kNone
                                                    : RelayReader::Body::kExpected);
  pool_->watch(*this);
  socket_.is_open() ? send_request() : connect();
}

void Upstream::connect() {
  boost::system::error_code error;
  const asio::ip::address address = asio::ip::make_address(target_.address, error);
  if (error) return end(ForwardEnd::kNotSent);
  deadline_ = Clock::now() + options_.connect;
  socket_.async_connect({address, target_.port},
                        [self = shared_from_this()](const boost::system::error_code& failed) {
                          if (failed || self->timed_out_) return self->end(ForwardEnd::kNotSent);
                          boost::system::error_code ignored;
                          self->socket_.non_blocking(true, ignored);
                          self->socket_.set_option(tcp::no_delay(true), ignored);
                          self->send_request();
                        });
}

void Upstream::send_request() {
  deadline_ = Clock::now() + options_.first_byte;
  while (sent_ < text_.size()) {
    const ssize_t count =
        ::send(socket_.native_handle(), text_.data() + sent_, text_.size() - sent_, MSG_NOSIGNAL);
    if (count > 0) {
      sent_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      socket_.async_wait(tcp::socket::wait_write,
                         [self = shared_from_this()](const boost::system::error_code& error) {
                           if (!self->errand_) return;
                           error ? self->end(ForwardEnd::kNoAnswer) : self->send_request();
                         });
      return;
    } else if (errno != EINTR) {
      return end(ForwardEnd::kNoAnswer);
    }
  }
  if (text_.capacity() > kMemoryKept) std::string().swap(text_);
  await_answer();
}

// One that is kept waits too, and so hears when its other end closes.
void Upstream::await_answer() {
  if (std::exchange(awaiting_, true)) return;
  socket_.async_wait(tcp::socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->awaiting_ = false;
                       self->on_readable(error);
                     });
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
  const ssize_t got = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), 0);
  if (got > 0) return take({scratch.data(), static_cast<std::size_t>(got)});
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return await_answer();
  if (got < 0 || !heard_) return end(heard_ ? ForwardEnd::kBroken : ForwardEnd::kNoAnswer);
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
  if (whole) reusable_ = reusable_ && reader_.keep_alive() && rest_.empty();
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
  if (errand_->request().header("Upgrade").empty()) return end(ForwardEnd::kBroken);
  status_ = reader_.status();
  errand_->on_head(status_, {}, reader_.fields());
  Exchange& exchange = Forwarder::exchange_of(*reply_);
  exchange.relayed_fields = std::move(reader_.fields());
  auto tunnel = std::make_shared<Tunnel>(
      exchange.loop,
      std::move(socket_),
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
}

}  // namespace tranche::net
