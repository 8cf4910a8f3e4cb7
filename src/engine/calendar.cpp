// SPDX-License-Identifier: Apache-2.0
#include "engine/calendar.hpp"

#include <algorithm>

#include "engine/market_claims.hpp"
#include "engine/schedule.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::engine {
namespace {

// Preemptible work is not started where it would have to go again at once.
constexpr Duration kShortestRun = std::chrono::minutes(10);

std::uint16_t slots_of(const Device& device, const std::string& profile, std::uint8_t start) {
  for (const auto& one : device.facts.profiles) {
    if (!wire::equal_ignoring_case(one.name, profile)) continue;
    return static_cast<std::uint16_t>((((1U << one.memory_slices) - 1U) << start) | marks_of(one));
  }
  return 0xFFFF;
}

}  // namespace

DeviceUse use_of(const Device& device, const wire::Ask& ask, std::uint32_t trust_group, const Slice& slice) {
  DeviceUse use{.milli = slice.milli, .vram = slice.vram, .trust_group = trust_group};
  if (!ask.profile.empty()) {
    use.mode = UseMode::kPartition;
    use.slots = slots_of(device, ask.profile, slice.start);
  } else if (ask.isolation == Isolation::kSoft && slice.milli < policy::kDeviceMilli) {
    use.mode = UseMode::kShared;
  }
  return use;
}

bool is_legal(std::span<const DeviceUse> uses, std::int64_t device_vram) {
  std::int64_t milli = 0;
  std::int64_t vram = 0;
  unsigned slots = 0;
  for (const DeviceUse& use : uses) {
    if (use.mode != uses.front().mode) return false;
    if (use.mode == UseMode::kWhole && uses.size() > 1) return false;
    if (use.mode == UseMode::kShared && use.trust_group != uses.front().trust_group) return false;
    if (use.mode == UseMode::kPartition && (slots & use.slots) != 0) return false;
    slots |= use.slots;
    milli += use.milli;
    vram += use.vram;
  }
  return milli <= policy::kDeviceMilli && vram <= device_vram;
}

void Calendar::add(const State& state, const Booking& booking, std::uint32_t window) {
  const BookedWindow& booked = booking.windows[window];
  if (booked.state == WindowState::kClosed || booking.state != BookingState::kBooked) return;
  for (const BookedPlace& place : booked.places) {
    for (const Slice& slice : place.slices) {
      const Device& device = state.devices.at(slice.device);
      auto& claims = claims_[slice.device];
      const auto after = std::upper_bound(
          claims.begin(), claims.end(), booked.from, [](Instant from, const CalendarClaim& claim) {
            return from < claim.from;
          });
      claims.insert(after,
                    {booked.from,
                     booked.to,
                     booking.id,
                     window,
                     use_of(device, booking.ask, booking.trust_group, slice)});
    }
  }
  for (const BookedPlace& place : booked.places)
    for (const Slice& slice : place.slices) listing_changed(slice.device);
  if (booking.contract != ContractId{}) by_contract_[booking.contract] = booking.id;
  const bool open = booked.state == WindowState::kOpen;
  edges_.insert({open ? booked.to : booked.from, booking.id, window});
  if (open) open_.emplace(booking.id, window);
  wake_ = {};
}

void Calendar::remove(const Booking& booking, std::uint32_t window) {
  const BookedWindow& booked = booking.windows[window];
  for (const BookedPlace& place : booked.places) {
    for (const Slice& slice : place.slices) {
      const auto found = claims_.find(slice.device);
      if (found == claims_.end()) continue;
      listing_changed(slice.device);
      std::erase_if(found->second, [&](const CalendarClaim& claim) {
        return claim.claim == booking.id && claim.window == window;
      });
      if (found->second.empty()) claims_.erase(found);
    }
  }
  edges_.erase({booked.from, booking.id, window});
  edges_.erase({booked.to, booking.id, window});
  open_.erase({booking.id, window});
  wake_ = {};
}

void Calendar::opened(const Booking& booking, std::uint32_t window) {
  const BookedWindow& booked = booking.windows[window];
  edges_.erase({booked.from, booking.id, window});
  edges_.insert({booked.to, booking.id, window});
  open_.emplace(booking.id, window);
  wake_ = {};
}

ClaimId Calendar::claim_of(ContractId contract) const {
  const auto found = by_contract_.find(contract);
  return found == by_contract_.end() ? ClaimId{} : found->second;
}

const std::vector<CalendarClaim>& Calendar::claims_on(DeviceId device) const {
  static const std::vector<CalendarClaim> kNone;
  const auto found = claims_.find(device);
  return found == claims_.end() ? kNone : found->second;
}

std::vector<PassingUse> running_on(const State& state, const Device& device, Instant endless_until) {
  std::vector<PassingUse> running;
  for (const LeaseId id : state.index.capacity->leases_on(device.node)) {
    const Lease& lease = state.leases.at(id);
    // What runs in a window is part of that window's claim.
    if (!lease.live() || !lease.holds_slices() || lease.revoked || lease.booking != ClaimId{}) continue;
    const Job* job = state.job(lease.job);
    if (job == nullptr || job->ask.preemptible) continue;
    const Instant end = job->ask.time == Duration{} ? endless_until : expected_end(state, lease);
    for (const Slice& slice : lease.slices)
      if (slice.device == device.id)
        running.push_back({use_of(device, job->ask, lease.trust_group, slice), end});
  }
  return running;
}

std::set<NodeId> kept_free(const State& state, Instant now, Instant until) {
  std::set<NodeId> nodes;
  for (const Edge& edge : state.index.calendar->edges()) {
    const Booking& booking = state.bookings.at(edge.claim);
    if (booking.kind != ClaimKind::kMaintenance) continue;
    const BookedWindow& window = booking.windows[edge.window];
    if (window.from >= until || window.to <= now) continue;
    for (const BookedPlace& place : window.places) nodes.insert(place.node);
  }
  return nodes;
}

namespace {

// Whether a job on the device could not be gone when somebody else's window opens there.
class Barrier {
 public:
  Barrier(const State& state, Instant now, const Job& job, const policy::Shape& shape)
      : state_(state), now_(now), job_(job), shape_(shape) {
    end_ = job.ask.time == Duration{} ? Instant::max() : now + job.ask.time;
    if (job.ask.preemptible) end_ = std::min(end_, now + kShortestRun);
  }

  std::uint16_t bars(DeviceId id, const std::multimap<DeviceId, PassingUse>& placed) {
    static const std::vector<CalendarClaim> kNone;
    const auto& claims = state_.index.calendar->claims_on(id);
    // Preemptible work may use what is offered until somebody buys it.
    const auto& offers = job_.ask.preemptible ? kNone : without_own(id, listed_on(state_, id));
    if (shape_.profile != 0) return slots_of_others(claims, offers);
    return is_in_the_way(state_.devices.at(id), claims, offers, placed) ? kAllSlots : std::uint16_t{0};
  }

 private:
  using Claims = std::vector<CalendarClaim>;
  // Time that has come and that nobody bought goes back to its owner's own jobs.
  const Claims& without_own(DeviceId id, const Claims& offers) {
    const auto own = [&](const CalendarClaim& offer) { return is_own_unsold(state_, job_, id, offer, now_); };
    if (std::none_of(offers.begin(), offers.end(), own)) return offers;
    others_.clear();
    std::remove_copy_if(offers.begin(), offers.end(), std::back_inserter(others_), own);
    return others_;
  }

  // A partition stays where it is, so it keeps off every slot that somebody is to have while it runs.
  [[nodiscard]] std::uint16_t slots_of_others(const Claims& claims, const Claims& offers) const {
    std::uint16_t slots = 0;
    const auto keep_off = [&](const CalendarClaim& claim) {
      slots = claim.use.mode == UseMode::kPartition ? static_cast<std::uint16_t>(slots | claim.use.slots)
                                                    : kAllSlots;
    };
    for (const CalendarClaim& claim : claims)
      if (claim.from > now_ && claim.from < end_ && slots != kAllSlots) keep_off(claim);
    for (const CalendarClaim& offer : offers)
      if (offer.to > now_ && offer.from < end_ && slots != kAllSlots) keep_off(offer);
    return slots;
  }

  bool is_in_the_way(const Device& device,
                     const Claims& claims,
                     const Claims& offers,
                     const std::multimap<DeviceId, PassingUse>& placed) {
    std::optional<std::vector<PassingUse>> others;
    const auto meets_others = [&](Instant when) {
      if (!others) {
        others = running_on(state_, device, Instant::max());
        for (auto [at, last] = placed.equal_range(device.id); at != last; ++at) others->push_back(at->second);
      }
      std::vector<DeviceUse> uses{own_use(device)};
      for (const auto* list : {&claims, &offers})
        for (const CalendarClaim& claim : *list)
          if (claim.at(when)) uses.push_back(claim.use);
      for (const PassingUse& other : *others)
        if (other.to > when) uses.push_back(other.use);
      return !is_legal(uses, device.facts.vram.count);
    };
    for (const CalendarClaim& next : claims) {
      if (next.from >= end_) break;
      if (next.from > now_ && meets_others(next.from))
        return true;  // Open ones are held in the fleet itself.
    }
    for (const CalendarClaim& offer : offers) {
      if (offer.from >= end_) break;
      if (offer.to > now_ && meets_others(std::max(offer.from, now_))) return true;
    }
    return false;
  }

  [[nodiscard]] DeviceUse own_use(const Device& device) const {
    const Slice slice{.device = device.id,
                      .milli = static_cast<std::uint16_t>(shape_.milli),
                      .vram = shape_.shares() ? shape_.vram : device.facts.vram.count};
    return use_of(device, job_.ask, shape_.trust_group, slice);
  }

  const State& state_;
  Instant now_;
  const Job& job_;
  const policy::Shape& shape_;
  Instant end_{};
  Claims others_;
};

// What a quota of the tree limits by model is for those who ask for it by name, and are counted.
void bar_limited_models(const State& state, const Job& job, std::vector<Barred>& barred) {
  if (!job.ask.model.empty()) return;
  for (const Party* at = state.party(job.owner); at != nullptr; at = state.party(at->parent))
    for (const auto& [model, share] : at->quota.devices)
      for (const auto& [id, device] : state.devices)
        if (share.limit && is_model(device.facts.model, model)) barred.push_back({id, kAllSlots});
}

}  // namespace

std::vector<Barred> barred_devices(const State& state,
                                   Instant now,
                                   const Job& job,
                                   const policy::Shape& shape,
                                   const std::multimap<DeviceId, PassingUse>& placed) {
  std::vector<Barred> barred;
  if (shape.devices == 0) return barred;
  Barrier barrier(state, now, job, shape);
  const auto look_at = [&](DeviceId id) {
    const std::uint16_t slots = barrier.bars(id, placed);
    if (slots != 0) barred.push_back({id, slots});
  };
  bar_limited_models(state, job, barred);
  const auto& claims = state.index.calendar->devices();
  for (const auto& [id, list] : claims) look_at(id);
  for (const auto& [id, pieces] : state.market.pieces_of)
    if (!claims.contains(id) && state.devices.contains(id)) look_at(id);
  return barred;
}

}  // namespace tranche::engine
