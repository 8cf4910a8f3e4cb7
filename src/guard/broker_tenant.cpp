// SPDX-License-Identifier: Apache-2.0
#include "guard/broker_tenant.hpp"

#include <algorithm>
#include <cstring>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guard/host_clock.hpp"
#include "guard/vram_account.hpp"

namespace tranche::guard {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

void close_if_open(int fd) {
  if (fd >= 0) ::close(fd);
}

// A ceiling goes on from what it allowed so far; only its slope changes.
void set_ceiling(LaneControl& lane, std::uint32_t share, std::uint64_t now) {
  const std::uint64_t at = lane.allowance_at.load(kRelaxed);
  const std::uint64_t elapsed = at == 0 ? 0 : now - at;
  const std::uint64_t before = lane.allowance_ns.load(kRelaxed);
  const auto earned =
      static_cast<std::uint64_t>(static_cast<Word128>(elapsed) * lane.share.load(kRelaxed) / kShareWhole);
  lane.allowance_seq.fetch_add(1, std::memory_order_acq_rel);
  lane.allowance_ns.store(before + earned, kRelaxed);
  lane.allowance_at.store(now, kRelaxed);
  lane.share.store(share, kRelaxed);
  lane.allowance_seq.fetch_add(1, std::memory_order_release);
}

}  // namespace

std::unique_ptr<BrokerTenant> BrokerTenant::make(const std::string& name, int ledger_fd, std::uint64_t now) {
  std::unique_ptr<BrokerTenant> tenant(new BrokerTenant);
  tenant->name_ = name;
  tenant->ledger_fd_ = ledger_fd;
  tenant->control_fd_ = create_region("tranche-control", sizeof(ControlRegion));
  tenant->bell_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (tenant->control_fd_ < 0 || ledger_fd < 0 || tenant->bell_ < 0) return nullptr;
  tenant->control_ =
      static_cast<ControlRegion*>(map_region(tenant->control_fd_, sizeof(ControlRegion), true));
  tenant->ledger_ = static_cast<LedgerRegion*>(map_region(ledger_fd, sizeof(LedgerRegion), true));
  if (tenant->control_ == nullptr || tenant->ledger_ == nullptr) return nullptr;
  seal_control(tenant->control_fd_);
  tenant->control_->header = {kControlMagic, kLayoutVersion, sizeof(ControlRegion)};
  std::strncpy(tenant->control_->tenant, name.c_str(), kTenantNameMax - 1);
  tenant->beat(now);
  return tenant;
}

std::unique_ptr<BrokerTenant> BrokerTenant::create(const std::string& name,
                                                   const TenantLimits& limits,
                                                   std::uint64_t now) {
  auto tenant = make(name, create_region("tranche-ledger", sizeof(LedgerRegion)), now);
  if (!tenant) return nullptr;
  tenant->ledger_->header = {kLedgerMagic, kLayoutVersion, sizeof(LedgerRegion)};
  for (std::uint32_t i = 0; i < std::min(limits.device_count, kDevicesMax); ++i)
    tenant->ledger_->devices[i].context_bytes.store(std::uint64_t{limits.devices[i].context_mib} << 20,
                                                    kRelaxed);
  tenant->set_limits(limits, now);
  return tenant;
}

std::unique_ptr<BrokerTenant> BrokerTenant::resume(const std::string& name,
                                                   const TenantLimits& limits,
                                                   int ledger_fd,
                                                   std::uint64_t now) {
  auto tenant = make(name, ledger_fd, now);
  const RegionHeader expected{kLedgerMagic, kLayoutVersion, sizeof(LedgerRegion)};
  if (!tenant || std::memcmp(&tenant->ledger_->header, &expected, sizeof expected) != 0) return nullptr;
  for (std::uint32_t i = 0; i < kDevicesMax; ++i) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      // A ceiling begins where the charges of the past stand: neither a debt of hours nor a gift.
      const LaneLedger& past = tenant->ledger_->devices[i].lanes[lane];
      LaneControl& rules = tenant->control_->devices[i].lanes[lane];
      rules.allowance_ns.store(charged_ns(past) + past.forfeited_ns.load(kRelaxed), kRelaxed);
    }
  }
  tenant->set_limits(limits, now);
  return tenant;
}

BrokerTenant::~BrokerTenant() {
  for (const JoinedProcess& process : processes) {
    close_if_open(process.link);
    close_if_open(process.pidfd);
  }
  close_if_open(listener);
  if (!socket_path.empty()) ::unlink(socket_path.c_str());
  close_if_open(control_fd_);
  close_if_open(ledger_fd_);
  close_if_open(bell_);
  if (control_ != nullptr) ::munmap(control_, sizeof(ControlRegion));
  if (ledger_ != nullptr) ::munmap(ledger_, sizeof(LedgerRegion));
}

void BrokerTenant::set_limits(const TenantLimits& limits, std::uint64_t now) {
  limits_ = limits;
  limits_.device_count = std::min(limits.device_count, kDevicesMax);
  control_->device_count.store(limits_.device_count, kRelaxed);
  control_->warn_at.store(limits.warn_at, kRelaxed);
  control_->end_at.store(limits.end_at, kRelaxed);
  control_->stop.store(limits.stop, kRelaxed);
  for (std::uint32_t i = 0; i < limits_.device_count; ++i) {
    DeviceLimits& wanted = limits_.devices[i];
    wanted.share = std::clamp(wanted.share, 1U, kShareWhole);
    DeviceControl& device = control_->devices[i];
    device.vram_limit.store(wanted.vram_bytes, kRelaxed);
    device.mode.store(static_cast<std::uint32_t>(wanted.mode), kRelaxed);
    device.priority.store(wanted.priority, kRelaxed);
    if (wanted.paused != 0) {
      device.flags.fetch_or(kPaused, kRelaxed);
    } else {
      device.flags.fetch_and(~static_cast<std::uint32_t>(kPaused), kRelaxed);
    }
    std::memcpy(device.uuid, wanted.uuid, sizeof device.uuid - 1);
    for (LaneControl& lane : device.lanes) set_ceiling(lane, wanted.share, now);
  }
  control_->generation.fetch_add(1, std::memory_order_release);
  wake_all();
}

void BrokerTenant::wake_all() {
  for (std::uint32_t i = 0; i < limits_.device_count; ++i)
    for (LaneControl& lane : control_->devices[i].lanes) futex_wake_all(lane.wake);
}

// What a process held when it died, without what the driver keeps for itself.
std::uint64_t BrokerTenant::left_behind(std::uint32_t slot,
                                        std::uint32_t device,
                                        const ProcessIdentity& process) {
  const std::uint64_t own = ledger_->processes[slot].own[device].exchange(0);
  ledger_->processes[slot].parked.store(0, kRelaxed);
  const std::uint64_t bytes = VramAccount(ledger_, device).reclaim(slot, process);
  return bytes > own ? bytes - own : 0;
}

std::uint32_t BrokerTenant::slot_of(const ProcessIdentity& process) const {
  for (std::uint32_t slot = 0; slot < kProcessesMax; ++slot)
    if (ledger_->processes[slot].identity.load() == pack(process)) return slot;
  return kNoSlot;
}

bool BrokerTenant::parked(const JoinedProcess& process) const {
  const std::uint32_t slot = slot_of(process.identity);
  return slot != kNoSlot && ledger_->processes[slot].parked.load(kRelaxed) != 0;
}

// What is parked stands in the ledger, so that a broker that takes over knows it.
BrokerTenant::Reclaimed BrokerTenant::park(const JoinedProcess& process) {
  Reclaimed moved;
  const std::uint32_t slot = slot_of(process.identity);
  if (slot == kNoSlot || ledger_->processes[slot].parked.exchange(1) != 0) return moved;
  for (std::uint32_t device = 0; device < kDevicesMax; ++device) {
    VramAccount account(ledger_, device);
    moved.bytes[device] = account.used_by(slot);
    ledger_->processes[slot].parked_bytes[device].store(moved.bytes[device], kRelaxed);
    account.release(slot, moved.bytes[device]);
  }
  return moved;
}

bool BrokerTenant::unpark(const JoinedProcess& process) {
  const std::uint32_t slot = slot_of(process.identity);
  if (slot == kNoSlot || ledger_->processes[slot].parked.load(kRelaxed) == 0) return false;
  const auto& parked_bytes = ledger_->processes[slot].parked_bytes;
  for (std::uint32_t device = 0; device < kDevicesMax; ++device) {
    const std::uint64_t bytes = parked_bytes[device].load(kRelaxed);
    const std::uint64_t limit = control_->devices[device].vram_limit.load(kRelaxed);
    if (bytes == 0 || VramAccount(ledger_, device).reserve(slot, bytes, limit).granted) continue;
    while (device-- > 0) VramAccount(ledger_, device).release(slot, parked_bytes[device].load(kRelaxed));
    return false;
  }
  ledger_->processes[slot].parked.store(0, kRelaxed);
  return true;
}

BrokerTenant::Reclaimed BrokerTenant::forget(const ProcessIdentity& process) {
  Reclaimed reclaimed;
  if (process.pid == 0) return reclaimed;  // It hung up before it said who it was.
  for (std::uint32_t slot = 0; slot < kProcessesMax; ++slot) {
    if (!(ledger_->processes[slot].identity.load() == pack(process))) continue;
    for (std::uint32_t device = 0; device < kDevicesMax; ++device)
      reclaimed.bytes[device] += left_behind(slot, device, process);
    reclaim_slot(*ledger_, slot, process);
  }
  return reclaimed;
}

}  // namespace tranche::guard
