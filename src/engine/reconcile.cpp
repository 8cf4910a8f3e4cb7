// SPDX-License-Identifier: Apache-2.0
#include "engine/reconcile.hpp"

#include <algorithm>
#include <array>

#include "engine/state.hpp"

namespace tranche::engine {
namespace {

using wire::CapacityClass;

constexpr std::size_t kClasses = 10;
constexpr std::int64_t kMib = 1 << 20;

struct Part {
  std::int64_t milli = 0;
  std::int64_t vram = 0;
};
using Parts = std::array<Part, kClasses>;

Part& part(Parts& parts, CapacityClass what) {
  return parts[static_cast<std::size_t>(what)];
}

CapacityClass class_of(const State& state, const Node& node, const Lease& lease) {
  if (!lease.live()) return CapacityClass::kScrub;  // Ended, and not wiped yet.
  if (lease.started == Instant{}) return CapacityClass::kHeldUnused;
  return is_at_or_below(state, lease.owner, node.owner) ? CapacityClass::kOwn : CapacityClass::kLent;
}

// What the part of the device is that nobody holds.
CapacityClass rest_class(const Node& node, const Device& device) {
  switch (device.state) {
    case DeviceState::kHealthy:
    case DeviceState::kProbation:
      if (node.state != NodeState::kReady) return CapacityClass::kOutOfService;
      return node.cordoned || node.draining ? CapacityClass::kMaintenance : CapacityClass::kIdle;
    case DeviceState::kScrubbing:
      return CapacityClass::kScrub;
    case DeviceState::kAccepting:
    case DeviceState::kSuspect:
    case DeviceState::kDraining:
    case DeviceState::kResetting:
    case DeviceState::kValidating:
      return CapacityClass::kHealth;
    case DeviceState::kMaintenance:
      return CapacityClass::kMaintenance;
    case DeviceState::kNew:
    case DeviceState::kQuarantined:
    case DeviceState::kInRepair:
    case DeviceState::kRetired:
    case DeviceState::kLost:
      break;
  }
  return CapacityClass::kOutOfService;
}

Parts parts_of(const State& state, const Node& node, const Device& device) {
  Parts parts{};
  Part rest{1000, device.facts.vram.count};
  for (const LeaseId id : state.index.capacity->leases_on(node.id)) {
    const auto found = state.leases.find(id);
    if (found == state.leases.end() || !found->second.holds_slices()) continue;
    for (const Slice& slice : found->second.slices) {
      if (slice.device != device.id) continue;
      Part& taken = part(parts, class_of(state, node, found->second));
      const Part more{std::min<std::int64_t>(slice.milli, rest.milli), std::min(slice.vram, rest.vram)};
      taken.milli += more.milli;
      taken.vram += more.vram;
      rest.milli -= more.milli;
      rest.vram -= more.vram;
    }
  }
  const CapacityClass what = rest_class(node, device);
  // Free compute without memory, or memory without compute, can be given to nobody.
  const bool stranded = what == CapacityClass::kIdle && (rest.milli == 0 || rest.vram < kMib);
  Part& left = part(parts, stranded ? CapacityClass::kStranded : what);
  left.milli += rest.milli;
  left.vram += rest.vram;
  return parts;
}

void add(CapacityTime& sum, const Part& part, Duration length) {
  sum.milli += part.milli * length.count();
  sum.mebibytes += part.vram / kMib * length.count();
  sum.bytes += part.vram % kMib * length.count();
}

void add(DeviceDayUse& day, const Parts& parts, const Part& whole, Instant from, Instant to) {
  if (day.from == Instant{}) day.from = from;
  day.to = to;
  day.classes.resize(kClasses);
  for (std::size_t i = 0; i < kClasses; ++i) add(day.classes[i], parts[i], to - from);
  add(day.had, whole, to - from);
}

// Counts the time since the last change into `days`, cut at midnight.
template <class Days>
void count(const State& state, const Device& device, Instant at, Days& days) {
  const Node& node = state.nodes.at(device.node);
  if (device.record.tallied == Instant{} || at <= device.record.tallied) return;
  const Parts parts = parts_of(state, node, device);
  const Part whole{1000, device.facts.vram.count};
  for (Instant from = device.record.tallied; from < at;) {
    const Instant midnight = std::chrono::floor<std::chrono::days>(from);
    const Instant to = std::min<Instant>(at, midnight + std::chrono::days(1));
    DeviceDayUse& day = days[DeviceDayKey{midnight, device.id}];
    day.key = {midnight, device.id};
    add(day, parts, whole, from, to);
    from = to;
  }
}

Int128 vram_of(const CapacityTime& time) {
  return Int128{time.mebibytes} * kMib + time.bytes;
}

std::string decimal(Int128 value) {
  std::string out;
  do {
    out.insert(out.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value > 0);
  return out;
}

}  // namespace

void tally(State& state, DeviceId id, Instant at) {
  const auto found = state.devices.find(id);
  if (found == state.devices.end()) return;
  count(state, found->second, at, state.device_days);
  found->second.record.tallied = std::max(found->second.record.tallied, at);
}

void tally(State& state, const Lease& lease, Instant at) {
  for (const Slice& slice : lease.slices) tally(state, slice.device, at);
}

std::vector<DeviceDayUse> device_days(const State& state, const Device& device, Instant from, Instant to) {
  std::map<DeviceDayKey, DeviceDayUse> days;
  for (auto at = state.device_days.lower_bound({from, {}});
       at != state.device_days.end() && at->first.day < to;
       ++at) {
    if (at->first.device == device.id) days.insert(*at);
  }
  count(state, device, state.now, days);
  std::vector<DeviceDayUse> out;
  for (auto& [key, day] : days)
    if (key.day >= from && key.day < to) out.push_back(std::move(day));
  return out;
}

wire::DeviceDay view_of(const State& state, const DeviceDayUse& day) {
  const Device& device = state.devices.at(day.key.device);
  const Node& node = state.nodes.at(device.node);
  wire::DeviceDay out{.device = device.id,
                      .node = node.name,
                      .model = device.facts.model,
                      .simulated = node.simulated,
                      .day = day.key.day,
                      .from = day.from,
                      .to = day.to,
                      .compute_milli_microseconds = day.had.milli,
                      .vram_byte_microseconds = decimal(vram_of(day.had))};
  std::int64_t milli = 0;
  Int128 vram = 0;
  for (std::size_t i = 0; i < day.classes.size(); ++i) {
    const CapacityTime& one = day.classes[i];
    milli += one.milli;
    vram += vram_of(one);
    if (one.milli == 0 && vram_of(one) == 0) continue;
    out.classes.push_back({static_cast<CapacityClass>(i), one.milli, decimal(vram_of(one))});
  }
  // What it had is counted by the clock alone, so this is a check and no definition.
  out.exact = milli == day.had.milli && vram == vram_of(day.had) &&
              day.had.milli == 1000 * (day.to - day.from).count();
  return out;
}

}  // namespace tranche::engine
