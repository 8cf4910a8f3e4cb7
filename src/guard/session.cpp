// SPDX-License-Identifier: Apache-2.0
#include "guard/session.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/broker_wire.hpp"
#include "guard/front.hpp"

namespace tranche::guard {

Session
    session;  // NOLINT: one session a process is what a session is; zero-initialised, no constructor runs.

namespace {

constexpr std::uint64_t kRejoinNs = 100'000'000;

pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;  // NOLINT

// A child must not inherit a lock that another thread of its parent held.
void reset_lock_in_child() {
  attach_lock = PTHREAD_MUTEX_INITIALIZER;
}

std::atomic<std::uint64_t>* make_mark() {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  ::madvise(page, 4096, MADV_WIPEONFORK);
  return static_cast<std::atomic<std::uint64_t>*>(page);
}

// Takes a slot in the ledger, first from the free ones, then from those whose processes are dead.
bool take_slot(LedgerRegion& ledger) {
  std::uint32_t slot = claim_slot(ledger, session.self);
  if (slot == kNoSlot) {
    reclaim_dead(ledger, session.self);
    slot = claim_slot(ledger, session.self);
  }
  if (slot == kNoSlot) return false;
  session.slot.store(slot, std::memory_order_relaxed);
  auto* mark = session.mark.load(std::memory_order_relaxed);
  if (mark == nullptr) {
    mark = make_mark();
    if (mark == nullptr) return false;
    ::pthread_atfork(nullptr, nullptr, reset_lock_in_child);
    session.mark.store(mark, std::memory_order_release);
  }
  mark->store(session.self.pid, std::memory_order_release);
  return true;
}

// The fixed place first: inside a sandbox it is bound by the agent, and no variable can lead away from it.
int connect_to_broker() {
  const int fixed = connect_to(kSandboxSocket);
  if (fixed >= 0 || ::access(kSandboxSocket, F_OK) == 0) return fixed;
  return connect_to(std::getenv(kSocketVariable));
}

bool ask_for_place(int link, int* fds) {
  Request request;
  request.process = session.self;
  Reply reply;
  return send_message(link, &request, sizeof request, nullptr, 0) &&
         receive_message(link, &reply, sizeof reply, fds, 3) && reply.answer == Answer::kDone;
}

// Which memory a ledger is, so that it is known again.
std::uint64_t region_number(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_ino) : 0;
}

bool join_broker() {
  const int link = connect_to_broker();
  if (link < 0) return false;
  session.self = own_identity();
  int fds[3] = {-1, -1, -1};
  const bool answered = ask_for_place(link, fds);
  const auto* control = static_cast<const ControlRegion*>(
      answered ? map_region(fds[0], sizeof(ControlRegion), false) : nullptr);
  auto* ledger = static_cast<LedgerRegion*>(
      control != nullptr ? map_region(fds[1], sizeof(LedgerRegion), true) : nullptr);
  session.ledger_number = fds[1] < 0 ? 0 : region_number(fds[1]);
  for (int i = 0; i < 2; ++i)
    if (fds[i] >= 0) ::close(fds[i]);
  const bool fits = ledger != nullptr && control->header.magic == kControlMagic &&
                    ledger->header.magic == kLedgerMagic && control->header.version == kLayoutVersion;
  if (!fits || !take_slot(*ledger)) {
    ::close(link);
    if (fds[2] >= 0) ::close(fds[2]);
    return false;
  }
  session.ledger.store(ledger, std::memory_order_relaxed);
  session.bell.store(fds[2], std::memory_order_relaxed);
  session.link.store(link, std::memory_order_relaxed);
  session.control.store(control, std::memory_order_release);
  return true;
}

bool hung_up(int link) {
  pollfd source{link, POLLIN, 0};
  return link >= 0 && ::poll(&source, 1, 0) == 1 && (source.revents & (POLLHUP | POLLERR)) != 0;
}

// The descriptors keep their numbers: another thread may be ringing the bell now.
void replace_descriptor(std::atomic<int>& held, int fresh) {
  const int before = held.load(std::memory_order_relaxed);
  if (before >= 0 && ::dup3(fresh, before, O_CLOEXEC) >= 0) {
    ::close(fresh);
  } else {
    held.store(fresh, std::memory_order_relaxed);
  }
}

void rejoin() {
  const int link = connect_to_broker();
  if (link < 0) return;
  int fds[3] = {-1, -1, -1};
  const bool answered = ask_for_place(link, fds);
  // With another ledger the account would begin anew while memory is held: rather stay under the ceiling.
  const bool same = answered && fds[1] >= 0 && region_number(fds[1]) == session.ledger_number;
  const auto* control =
      static_cast<const ControlRegion*>(same ? map_region(fds[0], sizeof(ControlRegion), false) : nullptr);
  for (int i = 0; i < 2; ++i)
    if (fds[i] >= 0) ::close(fds[i]);
  if (control == nullptr || control->header.magic != kControlMagic ||
      control->header.version != kLayoutVersion) {
    ::close(link);
    if (fds[2] >= 0) ::close(fds[2]);
    return;
  }
  replace_descriptor(session.bell, fds[2]);
  replace_descriptor(session.link, link);
  // The old region stays mapped: other threads may be reading it.
  session.control.store(control, std::memory_order_release);
}

void say_refused() {
  static std::atomic<bool> said;
  if (said.exchange(true)) return;
  std::fputs(
      "tranche-guard: no broker answers and no limits are known, so this process gets no device. "
      "Start it with `tranche guard run`, or ask the operator of this node.\n",
      stderr);
}

}  // namespace

Attachment attach() {
  if (has_slot()) return Attachment::kAttached;
  ::pthread_mutex_lock(&attach_lock);
  bool attached = has_slot();
  if (!attached) attached = join_broker();
  ::pthread_mutex_unlock(&attach_lock);
  if (!attached) say_refused();
  return attached ? Attachment::kAttached : Attachment::kRefused;
}

void rejoin_if_orphaned(std::uint64_t now) {
  static std::atomic<std::uint64_t> tried_at;
  std::uint64_t last = tried_at.load(std::memory_order_relaxed);
  if (now - last < kRejoinNs || !tried_at.compare_exchange_strong(last, now)) return;
  if (!has_slot() || !hung_up(session.link.load(std::memory_order_relaxed))) return;
  if (::pthread_mutex_trylock(&attach_lock) != 0) return;
  rejoin();
  ::pthread_mutex_unlock(&attach_lock);
}

void adopt_regions(const ControlRegion* control, LedgerRegion* ledger, int bell) {
  session.self = own_identity();
  session.ledger.store(ledger);
  session.bell.store(bell);
  session.link.store(-1);
  take_slot(*ledger);
  session.control.store(control);
}

void detach_for_test() {
  if (auto* mark = session.mark.load()) mark->store(0);
  session.control.store(nullptr);
  session.ledger.store(nullptr);
}

const ControlRegion* control_region() {
  return session.control.load(std::memory_order_acquire);
}
LedgerRegion* ledger_region() {
  return session.ledger.load(std::memory_order_acquire);
}

const DeviceControl* settings_of(std::uint32_t device) {
  const ControlRegion* control = control_region();
  return control == nullptr || device >= kDevicesMax ? nullptr : &control->devices[device];
}

void ring_broker() {
  const int bell = session.bell.load(std::memory_order_relaxed);
  const std::uint64_t one = 1;
  if (bell >= 0 && ::write(bell, &one, sizeof one) < 0) return;  // Full bell: it rings already.
}

}  // namespace tranche::guard
