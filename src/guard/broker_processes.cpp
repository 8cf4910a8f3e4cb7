// SPDX-License-Identifier: Apache-2.0
// The processes of a tenant as the broker sees them: joining, leaving, found again after a change of brokers.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard/broker.hpp"
#include "guard/process_identity.hpp"

namespace tranche::guard {
namespace {

std::uint32_t peer_of(int link) {
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool told = ::getsockopt(link, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid > 0;
  return told ? static_cast<std::uint32_t>(peer.pid) : 0;
}

int pidfd_of(std::uint32_t pid) {
#ifdef SYS_pidfd_open
  return pid == 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#else
  return -1;
#endif
}

// The pid by which we know a process that names itself by its own PID namespace; zero: it is not alive.
std::uint32_t find_alive(const ProcessIdentity& identity) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::uint32_t pid =
        static_cast<std::uint32_t>(std::strtoul(entry.path().filename().c_str(), nullptr, 10));
    if (pid != 0 && innermost_identity(pid) == identity) return pid;
  }
  return 0;
}

}  // namespace

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
    JoinedProcess fresh;
    fresh.link = link;
    tenant.processes.push_back(fresh);
  }
}

// A process said who it is. After a change of brokers it may be known already, by its ledger alone.
void Broker::take_place(BrokerTenant& tenant, JoinedProcess& process, const ProcessIdentity& identity) {
  JoinedProcess known;
  process.identity = identity;
  process.pid = peer_of(process.link);
  for (const JoinedProcess& each : tenant.processes)
    if (each.link < 0 && each.pid == process.pid) known = each;
  process.pidfd = known.pidfd >= 0 ? known.pidfd : pidfd_of(process.pid);
  if (known.pidfd < 0 && process.pidfd >= 0) watch(Kind::kPidfd, process.pidfd, &tenant);
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
  take_place(tenant, *process, request.process);
  const std::uint32_t process_pid = process->pid;
  std::erase_if(tenant.processes,
                [&](const JoinedProcess& each) { return each.link < 0 && each.pid == process_pid; });
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
  if (tenant.processes.empty()) notice_dirt(tenant);  // The next one here may be somebody else's.
  regroup(now);
}

// The driver took the memory back without anybody having zeroed it.
void Broker::mark_dirty(BrokerTenant& tenant, const BrokerTenant::Reclaimed& reclaimed) {
  for (std::uint32_t i = 0; i < tenant.limits().device_count; ++i) {
    if (reclaimed.bytes[i] == 0) continue;
    devices_[tenant.limits().devices[i].physical].dirty = true;
    tenant.ledger().devices[i].dirty_bytes.fetch_add(reclaimed.bytes[i]);
    tenant.seen_dirty[i] += reclaimed.bytes[i];
  }
}

void Broker::find_processes(BrokerTenant& tenant, std::uint64_t) {
  for (std::uint32_t slot = 0; slot < kProcessesMax; ++slot) {
    const Pair packed = tenant.ledger().processes[slot].identity.load();
    if (packed == Pair{}) continue;
    JoinedProcess found;
    found.identity = unpack_identity(packed);
    found.pid = find_alive(found.identity);
    found.pidfd = pidfd_of(found.pid);
    if (found.pidfd < 0) {
      mark_dirty(tenant, tenant.forget(found.identity));
      continue;
    }
    watch(Kind::kPidfd, found.pidfd, &tenant);
    tenant.processes.push_back(found);
  }
  // Who died before us, and on which device, is not known any more.
  for (std::uint32_t i = 0; i < tenant.limits().device_count; ++i)
    devices_[tenant.limits().devices[i].physical].dirty = true;
}

void Broker::list_processes(int agent, BrokerTenant& tenant) {
  for (const JoinedProcess& process : tenant.processes) {
    if (process.pid == 0) continue;
    Reply reply;
    reply.answer = Answer::kDone;
    reply.pid = process.pid;
    reply.parked = tenant.parked(process) ? 1 : 0;
    if (!send_message(agent, &reply, sizeof reply, nullptr, 0)) return;
  }
}

// A checkpoint took the memory of a process from the device without zeroing it, or is about to bring it back.
Answer Broker::move_account(BrokerTenant& tenant, const Request& request, std::uint64_t now) {
  for (const JoinedProcess& process : tenant.processes) {
    if (process.pid != request.pid) continue;
    if (request.ask == Ask::kUnpark) return tenant.unpark(process) ? Answer::kDone : Answer::kRefused;
    mark_dirty(tenant, tenant.park(process));
    regroup(now);
    return Answer::kDone;
  }
  return Answer::kUnknownTenant;
}

}  // namespace tranche::guard
