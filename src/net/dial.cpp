// SPDX-License-Identifier: Apache-2.0
#include "net/internal/dial.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tranche::net {
namespace {

using Clock = std::chrono::steady_clock;
using Status = Transfer::Status;

std::string system_text(int error) {
  return std::generic_category().message(error);
}

struct AddressesFree {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// The error of connecting to one address, or 0 with the descriptor set.
int connect_one(const addrinfo& address, Deadline deadline, Descriptor& out) {
  Descriptor descriptor(
      ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (descriptor.get() < 0) return errno;
  const int on = 1;
  ::setsockopt(descriptor.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(descriptor.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (!wait_until_ready(descriptor.get(), Readiness::kWritable, deadline)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(descriptor.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  out = std::move(descriptor);
  return 0;
}

Result<Descriptor, ClientFault> connect_any(const ClientOptions& options, Deadline deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int unknown = getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &list);
  if (unknown != 0) return refuse(fault_at(options, FaultKind::kUnreachable, gai_strerror(unknown)));
  const std::unique_ptr<addrinfo, AddressesFree> addresses(list);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    Descriptor descriptor;
    error = connect_one(*address, deadline, descriptor);
    if (error == 0) return descriptor;
  }
  const FaultKind kind = error == ETIMEDOUT ? FaultKind::kTimedOut : FaultKind::kUnreachable;
  return refuse(fault_at(options, kind, system_text(error)));
}

}  // namespace

int Descriptor::release() {
  return std::exchange(value_, -1);
}

void Descriptor::reset(int value) {
  if (value_ >= 0) ::close(value_);
  value_ = value;
}

bool wait_until_ready(int descriptor, Readiness readiness, Deadline deadline) {
  pollfd waiting{};
  waiting.fd = descriptor;
  waiting.events = readiness == Readiness::kReadable ? POLLIN : POLLOUT;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int milliseconds = static_cast<int>(std::clamp<decltype(left)>(left, 0, 3'600'000));
    const int ready = ::poll(&waiting, 1, milliseconds);
    if (ready > 0) return true;
    if (ready == 0 && left <= 3'600'000) return false;
    if (ready < 0 && errno != EINTR) return true;  // Let the operation itself report what is wrong.
  }
}

ClientFault fault_at(const ClientOptions& options, FaultKind kind, const std::string& what) {
  const bool numeric6 = options.host.find(':') != std::string::npos;
  const std::string where =
      (numeric6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
  switch (kind) {
    case FaultKind::kUnreachable:
      return {kind, "cannot reach " + where + ": " + what};
    case FaultKind::kTlsRefused:
      return {kind, "TLS with " + where + " was refused: " + what};
    case FaultKind::kTimedOut:
      return {kind, where + " did not answer in time: " + what};
    case FaultKind::kBroken:
      break;
  }
  return {kind, "no usable answer from " + where + ": " + what};
}

Result<Dialled, ClientFault> dial(const ClientOptions& options, const TlsContext* tls) {
  const Deadline deadline = Clock::now() + options.connect_timeout;
  Result<Descriptor, ClientFault> connected = connect_any(options, deadline);
  if (!connected) return refuse(connected.error());
  Dialled dialled;
  dialled.descriptor = std::move(*connected);
  const int descriptor = dialled.descriptor.get();
  if (tls == nullptr) {
    dialled.stream = plain_stream(descriptor);
    return dialled;
  }
  const std::string& name = options.tls->server_name.empty() ? options.host : options.tls->server_name;
  dialled.stream = tls->client_stream(descriptor, name);
  for (;;) {
    const Transfer step = dialled.stream->handshake();
    if (step.status == Status::kDone) return dialled;
    if (step.status == Status::kClosed || step.status == Status::kFailed)
      return refuse(fault_at(options, FaultKind::kTlsRefused, dialled.stream->last_error()));
    const Readiness wanted =
        step.status == Status::kWaitReadable ? Readiness::kReadable : Readiness::kWritable;
    if (!wait_until_ready(descriptor, wanted, deadline))
      return refuse(fault_at(options, FaultKind::kTimedOut, "the TLS handshake"));
  }
}

}  // namespace tranche::net
