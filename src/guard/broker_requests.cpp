// SPDX-License-Identifier: Apache-2.0
// What the broker answers: to agents that create and change tenants, and to processes that join or leave.
#include <algorithm>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "guard/broker.hpp"
#include "guard/broker_listen.hpp"

namespace tranche::guard {
namespace {

std::string text_of(const char* bytes, std::size_t size) {
  return {bytes, ::strnlen(bytes, size)};
}

int pidfd_of(int link) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(link, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) return -1;
#ifdef SYS_pidfd_open
  return static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0));
#else
  return -1;
#endif
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

void Broker::accept_process(BrokerTenant& tenant, std::uint64_t) {
  // All that stand in the queue: three hundred processes may attach at once.
  for (int i = 0; i < 64; ++i) {
    const int link = ::accept4(tenant.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (link < 0) return;
    if (tenant.processes.size() >= 2ULL * kProcessesMax) {
      ::close(link);
      continue;
    }
    watch(Kind::kProcessLink, link, &tenant);
    tenant.processes.push_back({link, -1, {}});
  }
}

// A connected process spoke, or hung up.
void Broker::join(BrokerTenant& tenant, int link, std::uint64_t now) {
  const auto process = std::find_if(tenant.processes.begin(),
                                    tenant.processes.end(),
                                    [&](const JoinedProcess& p) { return p.link == link; });
  if (process == tenant.processes.end()) return unwatch(link);
  Request request;
  int fds[kFdsMax];
  const bool whole = receive_message(link, &request, sizeof request, fds, kFdsMax);
  for (const int fd : fds)
    if (fd >= 0) ::close(fd);
  if (!whole) {
    // With a pidfd the hang-up means nothing (a forked child may hold the other end, or a job closed it).
    unwatch(link);
    if (process->pidfd < 0) process_gone(tenant, link, now);
    return;
  }
  Reply reply;
  const bool understood = request.magic == kWireMagic && request.version == kLayoutVersion;
  reply.answer = !understood                 ? Answer::kBadVersion
                 : request.ask != Ask::kJoin ? Answer::kRefused
                                             : Answer::kDone;
  if (reply.answer != Answer::kDone || process->identity.pid != 0) {
    send_message(link, &reply, sizeof reply, nullptr, 0);
    return;
  }
  process->identity = request.process;
  process->pidfd = pidfd_of(link);
  if (process->pidfd >= 0) watch(Kind::kPidfd, process->pidfd, &tenant);
  regroup(now);
  const int regions[3] = {tenant.control_fd(), tenant.ledger_fd(), tenant.bell()};
  send_message(link, &reply, sizeof reply, regions, 3);
}

void Broker::process_gone(BrokerTenant& tenant, int fd, std::uint64_t now) {
  const auto process = std::find_if(tenant.processes.begin(),
                                    tenant.processes.end(),
                                    [&](const JoinedProcess& p) { return p.link == fd || p.pidfd == fd; });
  if (process == tenant.processes.end()) return unwatch(fd);
  const JoinedProcess gone = *process;
  unwatch(gone.link);
  unwatch(gone.pidfd);
  if (gone.link >= 0) ::close(gone.link);
  if (gone.pidfd >= 0) ::close(gone.pidfd);
  tenant.processes.erase(process);
  mark_dirty(tenant, tenant.forget(gone.identity));
  regroup(now);
}

// The driver took the memory back without anybody having zeroed it.
void Broker::mark_dirty(BrokerTenant& tenant, const BrokerTenant::Reclaimed& reclaimed) {
  for (std::uint32_t i = 0; i < tenant.limits().device_count; ++i) {
    if (reclaimed.bytes[i] == 0) continue;
    devices_[tenant.limits().devices[i].physical].dirty = true;
    tenant.ledger().devices[i].dirty_bytes.fetch_add(reclaimed.bytes[i]);
  }
}

void Broker::serve_agent(int fd, std::uint64_t now) {
  Request request;
  int ignored[kFdsMax];
  const bool whole = receive_message(fd, &request, sizeof request, ignored, kFdsMax);
  for (const int extra : ignored)
    if (extra >= 0) ::close(extra);
  if (!whole) {
    unwatch(fd);
    ::close(fd);
    for (auto& [name, tenant] : tenants_)
      if (tenant->owner == fd) tenant->owner = -1;
    remove_orphans(now);
    return;
  }
  if (request.ask == Ask::kList) return list_tenants(fd);
  std::vector<int> fds;
  const Reply reply = answer(request, fd, now, fds);
  send_message(fd, &reply, sizeof reply, fds.data(), static_cast<std::uint32_t>(fds.size()));
}

Reply Broker::answer(const Request& request, int agent, std::uint64_t now, std::vector<int>& fds) {
  Reply reply;
  std::memcpy(reply.tenant, request.tenant, sizeof reply.tenant);
  if (request.magic != kWireMagic || request.version != kLayoutVersion) {
    reply.answer = Answer::kBadVersion;
    return reply;
  }
  if (request.ask == Ask::kCreateTenant) {
    reply.answer = create_tenant(request, agent, now, fds);
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
  } else {
    reply.answer = Answer::kRefused;
  }
  return reply;
}

Answer Broker::create_tenant(const Request& request, int agent, std::uint64_t now, std::vector<int>& fds) {
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
  auto tenant = BrokerTenant::create(name, request.limits, now);
  if (!tenant) return Answer::kRefused;
  tenant->listener = listen_at(path, request.socket_mode);
  if (tenant->listener < 0) return Answer::kRefused;
  tenant->socket_path = path;
  tenant->owner = agent;
  watch(Kind::kTenantListener, tenant->listener, tenant.get());
  watch(Kind::kBell, tenant->bell(), tenant.get());
  fds = {tenant->control_fd(), tenant->ledger_fd()};
  tenants_[name] = std::move(tenant);
  regroup(now);
  return Answer::kDone;
}

void Broker::list_tenants(int agent) {
  for (auto& [name, tenant] : tenants_) {
    Reply reply;
    reply.answer = Answer::kDone;
    reply.processes = static_cast<std::uint32_t>(tenant->processes.size());
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
