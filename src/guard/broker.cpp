// SPDX-License-Identifier: Apache-2.0
// The broker's loop: who is served when.
#include "guard/broker.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "guard/broker_listen.hpp"
#include "guard/host_clock.hpp"

namespace tranche::guard {
namespace {

constexpr std::uint64_t kBeatNs = 250'000'000;
constexpr std::uint64_t kRingWindowNs = 1'000'000;
constexpr std::uint64_t kRingsMax = 64;  // In a window; a saturating tenant rings some ten times.

// Decides within microseconds and sleeps in between, so it should not queue behind whatever else the host
// runs.
void hurry() {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  sched_param parameters{};
  parameters.sched_priority = 2;  // Before jobs that ask for real time themselves.
  if (::sched_setscheduler(0, SCHED_RR, &parameters) != 0) ::setpriority(PRIO_PROCESS, 0, -20);
}

}  // namespace

Broker::Broker(BrokerOptions options) : options_(std::move(options)) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  stop_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  watch(Kind::kStop, stop_, nullptr);
}

Broker::~Broker() {
  tenants_.clear();
  for (const auto& [fd, source] : sources_)
    if (source.kind == Kind::kAgent || source.kind == Kind::kListener) ::close(fd);
  if (listener_ >= 0) ::unlink(options_.socket_path.c_str());
  ::close(stop_);
  ::close(epoll_);
  if (lock_ >= 0) ::close(lock_);
}

void Broker::listen() {
  lock_ = ::open((options_.socket_path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0)
    throw std::runtime_error("another broker holds " + options_.socket_path + ".lock");
  const int probe = connect_to(options_.socket_path.c_str());
  if (probe >= 0) {
    ::close(probe);
    throw std::runtime_error("a broker answers at " + options_.socket_path + " already");
  }
  listener_ = listen_at(options_.socket_path, 0600);
  if (listener_ < 0)
    throw std::runtime_error("cannot listen at " + options_.socket_path + ": " + std::strerror(errno));
  watch(Kind::kListener, listener_, nullptr);
}

void Broker::watch(Kind kind, int fd, BrokerTenant* tenant) {
  sources_[fd] = {kind, fd, tenant};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void Broker::unwatch(int fd) {
  if (fd < 0 || sources_.erase(fd) == 0) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

void Broker::stop() {
  const std::uint64_t one = 1;
  if (::write(stop_, &one, sizeof one) < 0) return;
}

void Broker::run() {
  if (options_.real_time) hurry();
  running_ = true;
  std::uint64_t beat_at = 0;
  std::uint64_t next = 0;
  empty_since_ = monotonic_ns();
  while (running_) {
    std::uint64_t now = monotonic_ns();
    if (now >= beat_at) {
      for (auto& [name, tenant] : tenants_) tenant->beat(now);
      beat_at = now + kBeatNs;
      remove_orphans(now);
      if (options_.linger_ns != 0 && tenants_.empty() && now - empty_since_ > options_.linger_ns) return;
    }
    unmute(now);
    next = std::min(step_devices(now), beat_at);
    now = monotonic_ns();
    const std::uint64_t wait = next > now ? next - now : 0;
    const timespec patience{static_cast<time_t>(wait / 1'000'000'000U),
                            static_cast<long>(wait % 1'000'000'000U)};
    epoll_event events[64];
    const int count = ::epoll_pwait2(epoll_, events, 64, &patience, nullptr);
    now = monotonic_ns();
    for (int i = 0; i < count; ++i) {
      const auto found = sources_.find(events[i].data.fd);
      if (found == sources_.end()) continue;
      const Source source = found->second;
      serve(source, events[i].events, now);
    }
  }
}

void Broker::serve(const Source& source, std::uint32_t, std::uint64_t now) {
  switch (source.kind) {
    case Kind::kStop:
      running_ = false;
      break;
    case Kind::kListener:
      accept_agent();
      break;
    case Kind::kAgent:
      serve_agent(source.fd, now);
      break;
    case Kind::kTenantListener:
      accept_process(*source.tenant, now);
      break;
    case Kind::kBell:
      ring(*source.tenant, now);
      break;
    case Kind::kProcessLink:
      join(*source.tenant, source.fd, now);
      break;
    case Kind::kPidfd:
      process_gone(*source.tenant, source.fd, now);
      break;
  }
}

// A bell says "look at my ledger". All devices are looked at after every round of events, so here it is only
// emptied, and a tenant that rings without end is not listened to for a moment.
void Broker::ring(BrokerTenant& tenant, std::uint64_t now) {
  std::uint64_t count = 0;
  if (::read(tenant.bell(), &count, sizeof count) < 0) return;
  if (notice_dirt(tenant)) publish_dirt();
  for (std::uint32_t i = 0; i < tenant.limits().device_count; ++i) {
    const auto device = devices_.find(tenant.limits().devices[i].physical);
    if (device != devices_.end()) device->second.next_step = 0;
  }
  if (now - tenant.ringing_since > kRingWindowNs) {
    tenant.ringing_since = now;
    tenant.rings = 0;
  }
  if (++tenant.rings < kRingsMax) return;
  tenant.muted_until = now + kRingWindowNs;
  epoll_event event{};
  event.data.fd = tenant.bell();
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, tenant.bell(), &event);
}

// A job gave memory back as it was: because it could not zero it, or while nobody shared the device.
bool Broker::notice_dirt(BrokerTenant& tenant) {
  bool found = false;
  for (std::uint32_t i = 0; i < tenant.limits().device_count; ++i) {
    const std::uint64_t dirty = tenant.ledger().devices[i].dirty_bytes.load();
    if (std::exchange(tenant.seen_dirty[i], dirty) == dirty) continue;
    devices_[tenant.limits().devices[i].physical].dirty = true;
    found = true;
  }
  return found;
}

void Broker::publish_dirt() {
  for (auto& [name, tenant] : tenants_)
    for (std::uint32_t i = 0; i < tenant->limits().device_count; ++i)
      devices_[tenant->limits().devices[i].physical].dirty
          ? tenant->control().devices[i].flags.fetch_or(kZeroOnAlloc)
          : tenant->control().devices[i].flags.fetch_and(~std::uint32_t{kZeroOnAlloc});
}

void Broker::unmute(std::uint64_t now) {
  for (auto& [name, tenant] : tenants_) {
    if (tenant->muted_until == 0 || now < tenant->muted_until) continue;
    tenant->muted_until = 0;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = tenant->bell();
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, tenant->bell(), &event);
  }
}

std::uint64_t Broker::step_devices(std::uint64_t now) {
  std::uint64_t next = UINT64_MAX;
  for (auto& [tenant_name, tenant] : tenants_)
    if (tenant->muted_until != 0) next = std::min(next, tenant->muted_until);
  for (auto& [physical, device] : devices_) {
    if (device.lanes[0].tenants() < 2) continue;
    if (now >= device.next_step) {
      device.next_step = UINT64_MAX;
      for (LaneArbiter& lane : device.lanes) {
        device.next_step = std::min(device.next_step, lane.step(now));
        for (LaneControl* rules : lane.woken()) futex_wake_all(rules->wake);
      }
    }
    next = std::min(next, device.next_step);
  }
  return next;
}

// Who shares which device? A tenant counts while it has a process.
void Broker::regroup(std::uint64_t now) {
  std::map<std::uint32_t, std::uint32_t> present;
  for (auto& [name, tenant] : tenants_)
    for (std::uint32_t i = 0; i < tenant->limits().device_count; ++i)
      if (!tenant->processes.empty()) ++present[tenant->limits().devices[i].physical];
  for (auto& [name, tenant] : tenants_) {
    for (std::uint32_t i = 0; i < tenant->limits().device_count; ++i) {
      const DeviceLimits& wanted = tenant->limits().devices[i];
      DeviceControl& control = tenant->control().devices[i];
      const std::uint32_t others = present[wanted.physical] -
                                   (tenant->processes.empty() ? 0U : std::min(1U, present[wanted.physical]));
      control.co_tenants.store(others);
      Device& device = devices_[wanted.physical];
      others > 0 ? control.flags.fetch_or(kZeroOnFree) : control.flags.fetch_and(~std::uint32_t{kZeroOnFree});
      const bool counts = !tenant->processes.empty();
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        LaneArbiter& arbiter = device.lanes[lane];
        if (counts && !tenant->counted[i])
          arbiter.add(key_of(*tenant), &control.lanes[lane], &tenant->ledger().devices[i].lanes[lane], now);
        if (!counts && tenant->counted[i]) arbiter.remove(key_of(*tenant));
        arbiter.set(key_of(*tenant), wanted.share, wanted.priority, wanted.mode);
        const Gate gate = others > 0 ? Gate::kArbitrated : Gate::kAlone;
        if (control.lanes[lane].gate.exchange(static_cast<std::uint32_t>(gate)) !=
            static_cast<std::uint32_t>(gate))
          futex_wake_all(control.lanes[lane].wake);
      }
      tenant->counted[i] = counts;
      device.next_step = 0;
    }
  }
  // After the word that all must zero from now on: what was left before it is seen here.
  for (auto& [name, tenant] : tenants_)
    for (std::uint32_t i = 0; i < tenant->limits().device_count; ++i)
      if (present[tenant->limits().devices[i].physical] > 1) notice_dirt(*tenant);
  publish_dirt();
}

}  // namespace tranche::guard
