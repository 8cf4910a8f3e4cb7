// SPDX-License-Identifier: Apache-2.0
// What the broker answers to agents that create, change and remove tenants.
#include <algorithm>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "guard/broker.hpp"
#include "guard/broker_listen.hpp"

namespace tranche::guard {
namespace {

std::string text_of(const char* bytes, std::size_t size) {
  return {bytes, ::strnlen(bytes, size)};
}

}  // namespace

int listen_at(const std::string& path, unsigned mode) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) return -1;
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ::unlink(path.c_str());
  const mode_t before = ::umask(0177);  // Nobody slips in between bind and chmod.
  const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::umask(before);
  if (bound && ::chmod(path.c_str(), mode) == 0 && ::listen(fd, 1024) == 0) return fd;
  ::close(fd);
  return -1;
}

void Broker::accept_agent() {
  const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) watch(Kind::kAgent, fd, nullptr);
}

void Broker::serve_agent(int fd, std::uint64_t now) {
  Request request;
  int passed[kFdsMax];
  const bool whole = receive_message(fd, &request, sizeof request, passed, kFdsMax);
  for (std::uint32_t i = 1; i < kFdsMax; ++i)
    if (passed[i] >= 0) ::close(passed[i]);
  if (!whole) {
    if (passed[0] >= 0) ::close(passed[0]);
    unwatch(fd);
    ::close(fd);
    for (auto& [name, tenant] : tenants_)
      if (tenant->owner == fd) tenant->owner = -1;
    remove_orphans(now);
    return;
  }
  if (request.ask == Ask::kList) return list_tenants(fd);
  std::vector<int> fds;
  const Reply reply = answer(request, fd, passed[0], now, fds);
  send_message(fd, &reply, sizeof reply, fds.data(), static_cast<std::uint32_t>(fds.size()));
}

Reply Broker::answer(
    const Request& request, int agent, int ledger, std::uint64_t now, std::vector<int>& fds) {
  Reply reply;
  std::memcpy(reply.tenant, request.tenant, sizeof reply.tenant);
  if (request.ask == Ask::kCreateTenant && request.magic == kWireMagic && request.version == kLayoutVersion) {
    reply.answer = create_tenant(request, agent, ledger, now, fds);
    return reply;
  }
  if (ledger >= 0) ::close(ledger);
  if (request.magic != kWireMagic || request.version != kLayoutVersion) {
    reply.answer = Answer::kBadVersion;
    return reply;
  }
  if (request.ask == Ask::kScrubbed) {
    devices_[request.limits.devices[0].physical].dirty = false;
    regroup(now);
    reply.answer = Answer::kDone;
    return reply;
  }
  const auto found = tenants_.find(text_of(request.tenant, sizeof request.tenant));
  reply.answer = found == tenants_.end() ? Answer::kUnknownTenant : Answer::kDone;
  if (found == tenants_.end()) return reply;
  if (request.ask == Ask::kSetLimits) {
    found->second->set_limits(request.limits, now);
    regroup(now);
  } else if (request.ask == Ask::kRemoveTenant) {
    remove_tenant(found->first, now);
  } else if (request.ask == Ask::kProcesses) {
    list_processes(agent, *found->second);
  } else if (request.ask == Ask::kPark || request.ask == Ask::kUnpark) {
    reply.answer = move_account(*found->second, request, now);
  } else {
    reply.answer = Answer::kRefused;
  }
  return reply;
}

Answer Broker::create_tenant(
    const Request& request, int agent, int ledger, std::uint64_t now, std::vector<int>& fds) {
  struct Closing {
    int fd;
    ~Closing() {
      if (fd >= 0) ::close(fd);
    }
  } past{ledger};
  const std::string name = text_of(request.tenant, sizeof request.tenant);
  const std::string path = text_of(request.socket_path, sizeof request.socket_path);
  if (name.empty() || path.empty() || request.limits.device_count == 0) return Answer::kRefused;
  if (const auto found = tenants_.find(name); found != tenants_.end()) {
    found->second->owner = agent;  // An agent that came back takes over what it left.
    found->second->set_limits(request.limits, now);
    fds = {found->second->control_fd(), found->second->ledger_fd()};
    regroup(now);
    return Answer::kExists;
  }
  auto tenant = ledger < 0 ? BrokerTenant::create(name, request.limits, now)
                           : BrokerTenant::resume(name, request.limits, std::exchange(past.fd, -1), now);
  if (!tenant) return Answer::kRefused;
  tenant->listener = listen_at(path, request.socket_mode);
  if (tenant->listener < 0) return Answer::kRefused;
  tenant->socket_path = path;
  tenant->owner = agent;
  watch(Kind::kTenantListener, tenant->listener, tenant.get());
  watch(Kind::kBell, tenant->bell(), tenant.get());
  fds = {tenant->control_fd(), tenant->ledger_fd()};
  BrokerTenant& made = *tenant;
  tenants_[name] = std::move(tenant);
  if (ledger >= 0) find_processes(made, now);
  regroup(now);
  return Answer::kDone;
}

void Broker::list_tenants(int agent) {
  for (auto& [name, tenant] : tenants_) {
    Reply reply;
    reply.answer = Answer::kDone;
    reply.processes = static_cast<std::uint32_t>(tenant->processes.size());
    reply.limits = tenant->limits();
    name.copy(reply.tenant, sizeof reply.tenant - 1);
    const int regions[2] = {tenant->control_fd(), tenant->ledger_fd()};
    if (!send_message(agent, &reply, sizeof reply, regions, 2)) return;
  }
  Reply end;
  end.answer = Answer::kUnknownTenant;
  send_message(agent, &end, sizeof end, nullptr, 0);
}

void Broker::remove_tenant(const std::string& name, std::uint64_t now) {
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return;
  BrokerTenant& tenant = *found->second;
  notice_dirt(tenant);
  // Whoever still runs keeps the last limits as a ceiling: the gate falls back by itself when the beat ends.
  for (std::uint32_t i = 0; i < tenant.limits().device_count; ++i) {
    for (LaneControl& lane : tenant.control().devices[i].lanes)
      lane.gate.store(static_cast<std::uint32_t>(Gate::kOwnCap));
    for (LaneArbiter& lane : devices_[tenant.limits().devices[i].physical].lanes) lane.remove(key_of(tenant));
  }
  tenant.wake_all();
  for (const JoinedProcess& process : tenant.processes) {
    unwatch(process.link);
    unwatch(process.pidfd);
  }
  unwatch(tenant.listener);
  unwatch(tenant.bell());
  tenants_.erase(found);
  if (tenants_.empty()) empty_since_ = now;
  regroup(now);
}

void Broker::remove_orphans(std::uint64_t now) {
  std::vector<std::string> gone;
  for (const auto& [name, tenant] : tenants_)
    if (tenant->owner < 0 && tenant->processes.empty()) gone.push_back(name);
  for (const std::string& name : gone) remove_tenant(name, now);
}

}  // namespace tranche::guard
