// SPDX-License-Identifier: Apache-2.0
#include "agent/guard_tenants.hpp"

#include <algorithm>
#include <poll.h>
#include <spawn.h>
#include <stdexcept>
#include <unistd.h>
#include <utility>

#include "agent/files.hpp"
#include "agent/host_time.hpp"
#include "guard/host_clock.hpp"

namespace tranche::agent {
namespace {

// Its own session and no terminal: it stays when the agent is replaced, and ends by itself when unused.
void start_broker(const std::string& program, const std::string& socket) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
  std::vector<std::string> words{"tranche", "broker", "--socket", socket, "--linger", "60s"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start a broker with " + program);
}

guard::TenantLimits limits_of(const wire::LeaseGrant& grant,
                              const std::vector<std::uint32_t>& physical,
                              bool paused) {
  guard::TenantLimits limits;
  limits.device_count =
      static_cast<std::uint32_t>(std::min<std::size_t>(grant.slices.size(), guard::kDevicesMax));
  for (std::uint32_t i = 0; i < limits.device_count; ++i) {
    const wire::SliceGrant& slice = grant.slices[i];
    guard::DeviceLimits& device = limits.devices[i];
    device.vram_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(slice.vram.count, 1));
    device.share = std::uint32_t{slice.milli} * (guard::kShareWhole / 1000);
    device.mode = slice.milli >= 1000         ? guard::ShareMode::kUnlimited
                  : grant.spec.limits.compute ? guard::ShareMode::kCap
                                              : guard::ShareMode::kFair;
    device.priority = grant.spec.priority.value;
    device.paused = paused ? 1 : 0;
    device.physical = physical[i];
  }
  return limits;
}

}  // namespace

GuardTenants::GuardTenants(std::filesystem::path folder, std::string program)
    : folder_(std::move(folder)), program_(std::move(program)) {}

guard::BrokerClient& GuardTenants::broker() {
  if (broker_) return *broker_;
  const std::string socket = (folder_ / "broker.sock").string();
  if (!guard::BrokerClient::answers(socket)) start_broker(program_, socket);
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries && !guard::BrokerClient::answers(socket); ++i) ::poll(nullptr, 0, 5);
  auto fresh = std::make_unique<guard::BrokerClient>(socket);
  // After one that died: accounts go on where they stood, and jobs that run join again.
  for (auto& [lease, regions] : regions_)
    regions.mapped =
        fresh->create_tenant(text(lease), regions.limits, socket_of(lease), 0666, regions.mapped.get());
  replaced_ = replaced_ || !regions_.empty();
  broker_ = std::move(fresh);
  return *broker_;
}

std::string GuardTenants::socket_of(LeaseId lease) const {
  return (folder_ / (text(lease) + ".sock")).string();
}

std::string GuardTenants::open(const wire::LeaseGrant& grant, const std::vector<std::uint32_t>& physical) {
  const std::string socket = socket_of(grant.lease);
  const guard::TenantLimits limits = limits_of(grant, physical, false);
  for (int attempt = 0;; ++attempt) {
    try {
      // Anybody may write to the socket who can reach it: the sandbox shows it to one job alone.
      auto mapped = broker().create_tenant(text(grant.lease), limits, socket, 0666);
      regions_[grant.lease] = {std::move(mapped), limits, ++regions_made_};
      return socket;
    } catch (const std::exception&) {
      broker_.reset();  // It went away: once more with a new one.
      if (attempt > 0) throw;
    }
  }
}

void GuardTenants::change(const wire::LeaseGrant& grant,
                          const std::vector<std::uint32_t>& physical,
                          bool paused) {
  const auto found = regions_.find(grant.lease);
  if (found == regions_.end()) return;
  found->second.limits = limits_of(grant, physical, paused);
  broker().set_limits(text(grant.lease), found->second.limits);
}

bool GuardTenants::keep() {
  if (regions_.empty()) return false;
  pollfd source{broker_ ? broker_->descriptor() : -1, POLLIN, 0};
  // It says nothing unasked: while there is silence, it lives.
  if (broker_ && ::poll(&source, 1, 0) == 0) return std::exchange(replaced_, false);
  broker_.reset();
  for (auto& [lease, regions] : regions_)
    regions.mapped =
        broker().create_tenant(text(lease), regions.limits, socket_of(lease), 0666, regions.mapped.get());
  return true;
}

void GuardTenants::close(LeaseId lease) {
  if (regions_.erase(lease) == 0) return;
  broker().remove_tenant(text(lease));
  ::unlink(socket_of(lease).c_str());
}

std::vector<DeviceReading> GuardTenants::read(const wire::LeaseGrant& grant) const {
  std::vector<DeviceReading> readings(grant.slices.size());
  const auto found = regions_.find(grant.lease);
  for (std::uint32_t i = 0; i < readings.size() && i < guard::kDevicesMax; ++i) {
    if (found == regions_.end()) continue;
    const guard::DeviceUsage usage = guard::usage_of(*found->second.mapped, i);
    readings[i] = {.device_nanoseconds = usage.device_ns,
                   .copied_bytes = usage.copy_bytes,
                   .vram = {static_cast<std::int64_t>(usage.vram_used)}};
  }
  return readings;
}

std::vector<wire::LimitReceipt> GuardTenants::limits(const wire::LeaseGrant& grant,
                                                     Instant from,
                                                     Instant to) const {
  std::vector<wire::LimitReceipt> receipts;
  const auto found = regions_.find(grant.lease);
  if (found == regions_.end()) return receipts;
  for (std::uint32_t i = 0; i < grant.slices.size() && i < guard::kDevicesMax; ++i) {
    const guard::DeviceUsage usage = guard::usage_of(*found->second.mapped, i);
    const std::int64_t wall = std::max<std::int64_t>(1, (to - from).count());
    receipts.push_back({.lease = grant.lease,
                        .device = grant.slices[i].device,
                        .from = from,
                        .to = to,
                        .vram_limit = {static_cast<std::int64_t>(usage.vram_limit)},
                        .vram_peak = {static_cast<std::int64_t>(usage.vram_peak)},
                        .compute_limit_milli = grant.slices[i].milli,
                        .compute_used_milli = static_cast<std::uint16_t>(std::min<std::int64_t>(
                            60'000, static_cast<std::int64_t>(usage.device_ns) / wall)),
                        .vram_refusals = usage.refusals,
                        .throttled = Duration(static_cast<std::int64_t>(usage.throttled_ns / 1000))});
  }
  return receipts;
}

std::vector<wire::SliceSample> GuardTenants::samples(const wire::LeaseGrant& grant) const {
  std::vector<wire::SliceSample> samples;
  const auto found = regions_.find(grant.lease);
  if (found == regions_.end()) return samples;
  for (std::uint32_t i = 0; i < grant.slices.size() && i < guard::kDevicesMax; ++i) {
    const guard::DeviceUsage usage = guard::usage_of(*found->second.mapped, i);
    samples.push_back({.lease = grant.lease,
                       .device = grant.slices[i].device,
                       .device_nanoseconds = usage.device_ns,
                       .copied_bytes = usage.copy_bytes,
                       .vram_refusals = usage.refusals,
                       .throttled_nanoseconds = usage.throttled_ns,
                       .vram_used = {static_cast<std::int64_t>(usage.vram_used)}});
  }
  return samples;
}

std::vector<GuardTenants::Account> GuardTenants::accounts(const wire::LeaseGrant& grant) const {
  std::vector<Account> out(grant.slices.size());
  const auto found = regions_.find(grant.lease);
  if (found == regions_.end()) return out;
  const auto now = static_cast<std::int64_t>(guard::monotonic_ns());
  for (std::uint32_t i = 0; i < out.size() && i < guard::kDevicesMax; ++i) {
    const guard::DeviceUsage usage = guard::usage_of(*found->second.mapped, i);
    const guard::LaneLedger& lane = found->second.mapped->ledger().devices[i].lanes[0];
    // Written by the job: whatever it claims, it launched nothing in the future.
    const std::int64_t launched =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(lane.submitted_at.load()), 0, now);
    out[i] = {.vram_limit = usage.vram_limit,
              .vram_counted = usage.vram_used,
              .counted_ns = usage.device_ns,
              .submitted_ns = lane.submitted_ns.load(),
              .measured_ns = lane.measured_ns.load(),
              .number = found->second.number,
              .since_launch = Duration((now - launched) / 1000),
              .neighbours = found->second.mapped->control().devices[i].co_tenants.load() != 0};
  }
  return out;
}

std::set<std::int32_t> GuardTenants::joined(LeaseId lease) {
  std::set<std::int32_t> pids;
  if (!regions_.contains(lease)) return pids;
  for (const guard::ProcessListing& process : broker().processes(text(lease)))
    pids.insert(static_cast<std::int32_t>(process.pid));
  return pids;
}

void GuardTenants::scrubbed(std::uint32_t physical) {
  broker().scrubbed(physical);
}

}  // namespace tranche::agent
