// SPDX-License-Identifier: Apache-2.0
#include "net/internal/tunnel.hpp"

#include <boost/asio/post.hpp>
#include <unistd.h>
#include <utility>

namespace tranche::net {
namespace {

using boost::asio::ip::tcp;
using Status = Transfer::Status;

constexpr std::size_t kOnItsWayMost = 64 * 1024;  // Then the one who speaks is not listened to.

}  // namespace

Tunnel::Tunnel(std::shared_ptr<Loop> loop,
               tcp::socket there,
               std::unique_ptr<ByteStream> stream,
               std::string early,
               std::chrono::milliseconds idle,
               std::function<void()> on_end)
    : loop_(std::move(loop)),
      idle_(idle),
      on_end_(std::move(on_end)),
      client_(tcp::socket(loop_->io())),
      server_(std::move(there)) {
  server_.stream = std::move(stream);
  client_.out = std::move(early);
}

Tunnel::~Tunnel() = default;

void Tunnel::start(int descriptor, std::unique_ptr<ByteStream> stream, std::string first, std::string early) {
  boost::system::error_code error;
  client_.socket.assign(tcp::v4(), descriptor, error);  // The family is not looked at again.
  if (error) {
    ::close(descriptor);
    return abort();
  }
  client_.stream = std::move(stream);
  client_.out.insert(0, first);
  server_.out = std::move(early);
  last_heard_ = Clock::now();
  loop_->add(shared_from_this());
  pump();
}

void Tunnel::pump() {
  if (ended_) return;
  if (!listen_to(client_, server_) || !listen_to(server_, client_)) return abort();
  if (!tell(client_, server_) || !tell(server_, client_)) return abort();
  if (client_.told && server_.told) return abort();
  await_bytes(client_, server_);
  await_bytes(server_, client_);
  await_room(client_);
  await_room(server_);
}

bool Tunnel::listen_to(End& from, End& to) {
  if (from.finished || to.out.size() >= kOnItsWayMost) return true;
  const std::span<char> scratch = loop_->scratch();
  const Transfer got = from.stream->read(scratch);
  if (got.status == Status::kFailed) return false;
  if (got.status == Status::kClosed) from.finished = true;
  if (got.status != Status::kDone) return true;
  to.out.append(scratch.data(), got.bytes);
  last_heard_ = Clock::now();
  return true;
}

bool Tunnel::tell(End& to, const End& from) {
  while (!to.out.empty()) {
    const iovec piece{to.out.data(), to.out.size()};
    const Transfer sent = to.stream->write({&piece, 1});
    if (sent.status == Status::kClosed || sent.status == Status::kFailed) return false;
    if (sent.status != Status::kDone) return true;
    to.out.erase(0, sent.bytes);
  }
  if (from.finished && !std::exchange(to.told, true)) to.stream->shutdown_write();
  return true;
}

void Tunnel::await_bytes(End& from, const End& to) {
  if (from.finished || to.out.size() >= kOnItsWayMost || std::exchange(from.awaits_bytes, true)) return;
  const auto heard = [self = shared_from_this(), &from](const boost::system::error_code&) {
    from.awaits_bytes = false;
    self->pump();
  };
  if (from.stream->has_buffered()) {
    boost::asio::post(loop_->io(), [heard] { heard({}); });
  } else {
    from.socket.async_wait(tcp::socket::wait_read, heard);
  }
}

void Tunnel::await_room(End& to) {
  if (to.out.empty() || std::exchange(to.awaits_room, true)) return;
  to.socket.async_wait(tcp::socket::wait_write,
                       [self = shared_from_this(), &to](const boost::system::error_code&) {
                         to.awaits_room = false;
                         self->pump();
                       });
}

void Tunnel::expire(Clock::time_point now) {
  if (now - last_heard_ > idle_) abort();
}

void Tunnel::abort() {
  if (std::exchange(ended_, true)) return;
  boost::system::error_code ignored;
  client_.socket.close(ignored);
  server_.socket.close(ignored);
  loop_->remove(*this);
  if (const auto on_end = std::exchange(on_end_, nullptr)) on_end();
}

}  // namespace tranche::net
