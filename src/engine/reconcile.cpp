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

CapacityClass running_class(const State& state, const Node& node, const Lease& lease) {
  return is_at_or_below(state, lease.owner, node.owner) ? CapacityClass::kOwn : CapacityClass::kLent;
}

CapacityClass class_of(const State& state, const Node& node, const Lease& lease) {
  if (!lease.live()) return CapacityClass::kScrub;  // Ended, and not wiped yet.
  if (lease.started == Instant{}) return CapacityClass::kHeldUnused;
  return running_class(state, node, lease);
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

// Moves as much of what is wanted as is left into a class.
void take(Parts& parts, Part& rest, CapacityClass what, Part wanted) {
  Part& taken = part(parts, what);
  const Part more{std::clamp<std::int64_t>(wanted.milli, 0, rest.milli),
                  std::clamp<std::int64_t>(wanted.vram, 0, rest.vram)};
  taken.milli += more.milli;
  taken.vram += more.vram;
  rest.milli -= more.milli;
  rest.vram -= more.vram;
}

struct Promise {  // A claim on the device at one instant, and what of it is not used by a lease.
  ClaimKind kind = ClaimKind::kBooking;
  Part unused{};
};
using Promises = std::map<ClaimId, Promise>;

// A contract that is not delivered is not paid: what is wrong with its device says where the time goes.
bool is_down(const State& state, const Booking& booking) {
  const Contract* contract = state.market.contracts.find(booking.contract.value);
  return contract != nullptr && contract->down_since != Instant{};
}

Promises promises_at(const State& state, const Device& device, Instant at) {
  Promises promises;
  for (const CalendarClaim& claim : state.index.calendar->claims_on(device.id)) {
    if (claim.from > at) break;  // In order of their start.
    if (!claim.at(at) || is_down(state, state.bookings.at(claim.claim))) continue;
    Promise& promise = promises[claim.claim];
    promise.kind = state.bookings.at(claim.claim).kind;
    promise.unused.milli += claim.use.milli;
    promise.unused.vram += claim.use.vram;
  }
  return promises;
}

void take_leases(const State& state,
                 const Node& node,
                 const Device& device,
                 Promises& promises,
                 Parts& parts,
                 Part& rest) {
  for (const LeaseId id : state.index.capacity->leases_on(node.id)) {
    const auto found = state.leases.find(id);
    if (found == state.leases.end() || !found->second.holds_slices()) continue;
    const auto promise = promises.find(found->second.booking);
    const bool promised = promise != promises.end();
    if (promised && promise->second.kind == ClaimKind::kContract) continue;  // Counted as sold already.
    for (const Slice& slice : found->second.slices) {
      if (slice.device != device.id) continue;
      take(parts, rest, class_of(state, node, found->second), {slice.milli, slice.vram});
      if (!promised) continue;
      promise->second.unused.milli -= slice.milli;
      promise->second.unused.vram -= slice.vram;
    }
  }
}

// What the device was in use for at an instant since the last change.
Parts parts_of(const State& state, const Node& node, const Device& device, Instant at) {
  Parts parts{};
  Part rest{1000, device.facts.vram.count};
  Promises promises = promises_at(state, device, at);
  // What was sold is paid for all of its window, whatever its buyer does with it.
  for (const auto& [id, promise] : promises)
    if (promise.kind == ClaimKind::kContract) take(parts, rest, CapacityClass::kSold, promise.unused);
  take_leases(state, node, device, promises, parts, rest);
  const CapacityClass what = rest_class(node, device);
  for (const auto& [id, promise] : promises) {
    if (what != CapacityClass::kIdle || promise.kind == ClaimKind::kContract) continue;
    const bool kept_free = promise.kind == ClaimKind::kMaintenance;
    take(parts, rest, kept_free ? CapacityClass::kMaintenance : CapacityClass::kHeldUnused, promise.unused);
  }
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

// Where the time since the last change is to be cut: at midnight, and where a claim begins or ends.
Instant next_cut(const State& state, const Device& device, Instant from, Instant at) {
  Instant cut = std::min<Instant>(at, std::chrono::floor<std::chrono::days>(from) + std::chrono::days(1));
  for (const CalendarClaim& claim : state.index.calendar->claims_on(device.id)) {
    if (claim.from >= cut) break;
    if (claim.from > from) cut = std::min(cut, claim.from);
    if (claim.to > from) cut = std::min(cut, claim.to);
  }
  return cut;
}

// Counts the time since the last change into `days`.
template <class Days>
void count(const State& state, const Device& device, Instant at, Days& days) {
  const Node& node = state.nodes.at(device.node);
  if (device.record.tallied == Instant{} || at <= device.record.tallied) return;
  const Part whole{1000, device.facts.vram.count};
  for (Instant from = device.record.tallied; from < at;) {
    const Instant midnight = std::chrono::floor<std::chrono::days>(from);
    const Instant to = next_cut(state, device, from, at);
    DeviceDayUse& day = days[DeviceDayKey{midnight, device.id}];
    day.key = {midnight, device.id};
    add(day, parts_of(state, node, device, from), whole, from, to);
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

void tally(State& state, const std::vector<BookedWindow>& windows, Instant at) {
  for (const BookedWindow& window : windows)
    for (const BookedPlace& place : window.places)
      for (const Slice& slice : place.slices) tally(state, slice.device, at);
}

void note_busy(State& state, LeaseId id, Instant from, Instant to, std::int64_t nanoseconds) {
  const Lease* lease = state.lease(id);
  if (lease == nullptr || from >= to || nanoseconds <= 0) return;
  std::int64_t held = 0;
  for (const Slice& slice : lease->slices) held += slice.milli;
  if (held <= 0) return;
  const Booking* booking = state.booking(lease->booking);
  const bool sold = booking != nullptr && booking->contract != ContractId{};
  // Both splits go by running sums, so that the parts add up to the whole.
  const auto part = [](std::int64_t whole, std::int64_t of, std::int64_t all) {
    return static_cast<std::int64_t>(Int128{whole} * of / all);
  };
  std::int64_t before = 0;
  for (const Slice& slice : lease->slices) {
    const Device* device = state.device(slice.device);
    const std::int64_t own = part(nanoseconds, before + slice.milli, held) - part(nanoseconds, before, held);
    before += slice.milli;
    if (device == nullptr) continue;
    const CapacityClass what =
        sold ? CapacityClass::kSold : running_class(state, state.nodes.at(device->node), *lease);
    for (Instant at = from; at < to;) {
      const Instant midnight = std::chrono::floor<std::chrono::days>(at);
      const Instant end = std::min<Instant>(to, midnight + std::chrono::days(1));
      const auto length = [&](Instant until) { return (until - from).count(); };
      DeviceDayUse& day = state.device_days[{midnight, device->id}];
      day.key = {midnight, device->id};
      day.busy.resize(kClasses);
      day.busy[static_cast<std::size_t>(what)] +=
          part(own, length(end), length(to)) - part(own, length(at), length(to));
      at = end;
    }
  }
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
    const std::int64_t busy = i < day.busy.size() ? day.busy[i] : 0;
    if (one.milli == 0 && vram_of(one) == 0) continue;
    out.classes.push_back({static_cast<CapacityClass>(i), one.milli, decimal(vram_of(one)), busy});
  }
  // What it had is counted by the clock alone, so this is a check and no definition.
  out.exact = milli == day.had.milli && vram == vram_of(day.had) &&
              day.had.milli == 1000 * (day.to - day.from).count();
  return out;
}

}  // namespace tranche::engine
