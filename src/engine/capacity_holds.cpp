// SPDX-License-Identifier: Apache-2.0
// What open windows keep for their owners, as the fleet sees it.
#include <algorithm>
#include <bit>

#include "engine/capacity.hpp"
#include "engine/state.hpp"

namespace tranche::engine {
namespace {

// What is left of a booked slice beside the leases that run in it; nothing when they use it up.
std::optional<policy::Shape> remainder(const Booking& booking,
                                       const Device& device,
                                       const Slice& slice,
                                       const std::optional<policy::Shape>& booked,
                                       const State& state) {
  std::int64_t milli = slice.milli;
  std::int64_t vram = slice.vram;
  bool used = false;
  for (const LeaseId id : state.index.capacity->leases_on(device.node)) {
    const Lease& lease = state.leases.at(id);
    if (lease.booking != booking.id) continue;
    for (const Slice& own : lease.slices) {
      if (own.device != device.id) continue;
      milli -= own.milli;
      vram -= own.vram;
      used = true;
    }
  }
  const bool shared = booking.ask.profile.empty() && slice.milli < policy::kDeviceMilli &&
                      booking.ask.isolation == Isolation::kSoft;
  policy::Shape shape{.devices = 1, .milli = policy::kDeviceMilli};
  if (!booking.ask.profile.empty()) {
    if (used || !booked) return std::nullopt;
    shape.milli = slice.milli;
    shape.profile = booked->profile;
  } else if (shared || used) {
    // Compute whose memory is used up, or the other way round, is still nobody else's: whoever came there
    // would be in the way as soon as the owner's job ends.
    milli = std::max<std::int64_t>(milli, 0);
    vram = std::max<std::int64_t>(vram, 0);
    if (milli >= policy::kDeviceMilli || (milli == 0 && vram == 0)) return std::nullopt;
    shape.milli = static_cast<std::int32_t>(milli);
    shape.vram = vram;
    shape.trust_group = booking.trust_group;
  }
  return shape;
}

}  // namespace

bool Capacity::is_blocked(const Device& device) const {
  if (!takes_work(device.state) || device.record.kept_for != PartyId{}) return true;
  return waits_for_window(device.id);
}

bool Capacity::waits_for_window(DeviceId device) const {
  const auto holds = holds_.find(device);
  if (holds == holds_.end()) return false;
  for (const auto& [claim, hold] : holds->second)
    if (!hold.taken) return true;
  return false;
}

// A hold follows the calendar, whether or not the node takes new work at the moment.
void Capacity::book_hold(Hold& hold, bool take) {
  const policy::NodeIndex index = hold.placement.node;
  const int position = std::countr_zero(hold.placement.devices);
  const auto& device = fleet().node(index).devices[static_cast<std::size_t>(position)];
  const bool was_open = fleet().node(index).open;
  const bool was_blocked = device.blocked;
  placer_.set_open(index, true);
  placer_.set_blocked(index, position, false);
  const policy::KindIndex kind = placer_.kind(hold.shape);
  if (take) {
    bool fits = fleet().device_fits(fleet().spec(index), device, hold.shape);
    if (hold.shape.profile != 0 && fits) {
      const auto* profile = fleet().geometry(fleet().spec(index)).find(hold.shape.profile);
      fits = (profile->slots_at(hold.placement.slot(position)) & device.slots_used) == 0;
    }
    if (fits) placer_.take(kind, hold.placement);
    hold.taken = fits;
  } else if (hold.taken) {
    placer_.release(kind, hold.placement, policy::Learning::kIgnore);
    hold.taken = false;
  }
  placer_.set_blocked(index, position, was_blocked);
  placer_.set_open(index, was_open);
}

void Capacity::drop_holds(DeviceId device) {
  const auto found = holds_.find(device);
  if (found == holds_.end()) return;
  for (auto& [claim, hold] : found->second) book_hold(hold, false);
  holds_.erase(found);
}

void Capacity::give_way(const State& state, const std::vector<Slice>& slices) {
  for (const Slice& slice : slices) {
    drop_holds(slice.device);
    bar(state, slice.device, false);
  }
}

void Capacity::refresh_holds(const State& state, DeviceId id) {
  const auto known = places_.find(id);
  if (known == places_.end()) return;
  const auto [index, position] = known->second;
  state.index.calendar->touched(id);
  drop_holds(id);
  const Device& device = state.devices.at(id);
  std::map<ClaimId, Hold> holds;
  for (const CalendarClaim& claim : state.index.calendar->claims_on(id)) {
    const Booking& booking = state.bookings.at(claim.claim);
    const BookedWindow& window = booking.windows[claim.window];
    if (window.state != WindowState::kOpen) continue;
    for (const BookedPlace& place : window.places) {
      for (const Slice& slice : place.slices) {
        if (slice.device != id) continue;
        const auto shape =
            remainder(booking, device, slice, shape_of(booking.ask, booking.trust_group), state);
        if (!shape) continue;
        Hold& hold = holds[claim.claim];
        hold.shape = *shape;
        hold.placement = {.node = index, .devices = static_cast<std::uint16_t>(1U << position)};
        hold.placement.set_slot(position, slice.start);
      }
    }
  }
  // In order of the claims, whoever came first: the same after a restart.
  for (auto& [claim, hold] : holds) book_hold(hold, true);
  if (!holds.empty()) holds_[id] = std::move(holds);
  placer_.set_blocked(index, position, is_blocked(device));
  waiting_kinds_.node_freed(index);
  changed();
}

void Capacity::refresh_holds(const State& state, const Booking& booking) {
  for (const BookedWindow& window : booking.windows) {
    if (window.state == WindowState::kPlanned) continue;
    for (const BookedPlace& place : window.places)
      for (const Slice& slice : place.slices)
        if (window.state == WindowState::kOpen || holds_.contains(slice.device))
          refresh_holds(state, slice.device);
  }
}

void Capacity::refresh_holds(const State& state, const Lease& lease) {
  for (const Slice& slice : lease.slices)
    if (!state.index.calendar->claims_on(slice.device).empty()) refresh_holds(state, slice.device);
}

const Capacity::Hold* Capacity::hold(ClaimId claim, DeviceId device) const {
  const auto on = holds_.find(device);
  if (on == holds_.end()) return nullptr;
  const auto found = on->second.find(claim);
  return found == on->second.end() || !found->second.taken ? nullptr : &found->second;
}

void Capacity::bar(const State& state, DeviceId id, bool barred) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  const auto [index, position] = found->second;
  placer_.set_blocked(index, position, barred || is_blocked(state.devices.at(id)));
}

void Capacity::bar(const State& state, Barred& barred) {
  const auto found = places_.find(barred.device);
  if (found == places_.end() || barred.slots == kAllSlots) return bar(state, barred.device, true);
  barred.slots = placer_.keep_slots(found->second.first, found->second.second, barred.slots);
}

void Capacity::unbar(const State& state, const Barred& barred) {
  const auto found = places_.find(barred.device);
  if (found == places_.end() || barred.slots == kAllSlots) return bar(state, barred.device, false);
  placer_.unkeep_slots(found->second.first, found->second.second, barred.slots);
}

}  // namespace tranche::engine
