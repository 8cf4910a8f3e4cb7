// SPDX-License-Identifier: Apache-2.0
// Jobs inside the windows that their owners booked.
#include <algorithm>

#include "engine/attempt.hpp"
#include "engine/booking_limits.hpp"
#include "engine/lease_meter.hpp"
#include "engine/place_rules.hpp"
#include "engine/schedule.hpp"
#include "engine/slots.hpp"
#include "engine/start_window.hpp"

namespace tranche::engine {
namespace {

// Nothing is started that would be told to leave before it had begun.
constexpr Duration kWorthStarting = std::chrono::minutes(1);
constexpr std::int64_t kMib = 1 << 20;

class Starter {
 public:
  Starter(const State& state, const Envelope& envelope, int decisions_max)
      : state_(state),
        now_(envelope.at),
        left_(decisions_max),
        capacity_(*state.index.capacity),
        pledges_(state) {}

  Events run() {
    for (const auto& [claim, number] : state_.index.calendar->open()) {
      const Booking& booking = state_.bookings.at(claim);
      if (booking.kind != ClaimKind::kMaintenance) offer(booking, booking.windows[number]);
    }
    return std::move(events_);
  }

 private:
  void offer(const Booking& booking, const BookedWindow& window) {
    for (const auto& [key, jobs] : capacity_.waiting()) {
      if (key.kind == kNoKind || key.tenant != booking.tenant) continue;
      for (const JobId id : jobs) {
        if (left_ <= 0) return;
        const Job& job = state_.jobs.at(id);
        if (!may_use(booking, job) || started_.contains(id)) continue;
        if (now_ + grace_of(job) + kWorthStarting > window.to) continue;
        const bool bound = !job.ask.volumes.empty() || has_place_rules(state_, job.owner);
        if (!start(booking, window, job) && !bound) break;  // Nor would the next of the same shape.
      }
    }
  }

  [[nodiscard]] bool may_use(const Booking& booking, const Job& job) const {
    if (job.not_before > now_ || job.ask.instances == 0) return false;
    if (job.ask.window && !is_open(*job.ask.window, now_)) return false;
    if (!is_at_or_below(state_, job.owner, booking.owner)) return false;
    const Booking* named = booking_named(state_, job);
    return named == nullptr || named->id == booking.id;
  }

  struct Used {  // By what this pass has started.
    std::int64_t milli = 0;
    std::int64_t vram = 0;
  };

  bool start(const Booking& booking, const BookedWindow& window, const Job& job) {
    const std::uint32_t group = trust_group(state_, booking.tenant);
    const auto shape = capacity_.shape_of(job.ask, group);
    if (!shape) return false;
    const std::uint32_t members = std::max(job.ask.nodes, 1U);
    const auto used_before = used_;
    const auto host_before = host_;
    closed_.clear();
    close_elsewhere(state_, job, closed_);
    close_forbidden(state_, job, now_, closed_);
    std::vector<BookedPlace> places;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      auto place = find(booking, window, *shape, group);
      if (!place) {
        used_ = used_before;
        host_ = host_before;
        return false;
      }
      places.push_back(std::move(*place));
    }
    const std::size_t before = events_.size();
    const std::uint64_t leases_before = leases_;
    for (std::uint32_t rank = 0; rank < members; ++rank) grant(booking, job, group, rank, places[rank]);
    if (!append_meters(state_, job, now_, before, pledges_, events_)) {
      events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(before), events_.end());
      leases_ = leases_before;
      used_ = used_before;
      host_ = host_before;
      return false;
    }
    started_.insert(job.id);
    left_ -= static_cast<int>(members);
    return true;
  }

  std::optional<BookedPlace> find(const Booking& booking,
                                  const BookedWindow& window,
                                  const policy::Shape& shape,
                                  std::uint32_t group) {
    for (const BookedPlace& booked : window.places) {
      if (!takes_work(state_.nodes.at(booked.node)) || booked.slices.empty()) continue;
      if (closed_.contains(booked.node)) continue;
      const policy::NodeIndex index = capacity_.group_of(booked.slices.front().device);
      const policy::NodeState& node = capacity_.fleet().node(index);
      Host& host = host_[index];
      if (!capacity_.fleet().type_allows(capacity_.fleet().spec(index), shape) ||
          node.cpu_left - host.cpu_milli < shape.cpu_milli ||
          node.memory_left - host.memory_mib < shape.memory_mib)
        continue;
      BookedPlace place{.node = booked.node};
      for (const Slice& slice : booked.slices) {
        if (place.slices.size() == static_cast<std::size_t>(shape.devices)) break;
        if (auto own = inside(booking, slice, shape, group)) place.slices.push_back(*own);
      }
      if (place.slices.size() < static_cast<std::size_t>(shape.devices)) continue;
      for (const Slice& slice : place.slices) {
        used_[{booking.id, slice.device}].milli += slice.milli;
        used_[{booking.id, slice.device}].vram += slice.vram;
      }
      host.cpu_milli += shape.cpu_milli;
      host.memory_mib += shape.memory_mib;
      return place;
    }
    return std::nullopt;
  }

  // The part of a booked slice that the job would take, if that is still there.
  std::optional<Slice> inside(const Booking& booking,
                              const Slice& booked,
                              const policy::Shape& shape,
                              std::uint32_t group) const {
    const Capacity::Hold* hold = capacity_.hold(booking.id, booked.device);
    const Device& device = state_.devices.at(booked.device);
    if (hold == nullptr || !takes_work(device.state)) return std::nullopt;
    const PartyId kept_for = device.record.kept_for;  // Not wiped: for its own tenant, and whole.
    if (kept_for != PartyId{} && (kept_for != booking.tenant || !shape.whole())) return std::nullopt;
    const auto owed = capacity_.owed().find(booked.device);
    if (owed != capacity_.owed().end() && owed->second != booking.tenant) return std::nullopt;
    const auto before = used_.find({booking.id, booked.device});
    const Used used = before == used_.end() ? Used{} : before->second;
    if (shape.profile != 0) {
      if (hold->shape.profile != shape.profile || used.milli > 0) return std::nullopt;
      return booked;
    }
    if (hold->shape.profile != 0) return std::nullopt;
    if (shape.milli >= policy::kDeviceMilli) {
      if (!hold->shape.whole() || used.milli > 0) return std::nullopt;
      return Slice{.device = device.id, .milli = booked.milli, .vram = device.facts.vram.count};
    }
    // Who shares with whom may have changed since it was booked; a whole device is shared with nobody else.
    if (!hold->shape.whole() && group != booking.trust_group) return std::nullopt;
    const bool whole = hold->shape.whole();
    const std::int64_t milli = whole ? booked.milli : hold->shape.milli;
    const std::int64_t vram = whole ? booked.vram : hold->shape.vram;
    const std::int64_t left = vram - used.vram;
    Slice slice{.device = device.id, .milli = static_cast<std::uint16_t>(shape.milli), .vram = shape.vram};
    // What was sold is a share of the device that is there, what is asked for one of the model in the
    // catalogue, and older bookings were cut in whole MiB: the last one may be a part only.
    if (slice.vram > left && slice.vram - left <= kMib) slice.vram = left;
    if (milli - used.milli < slice.milli || left < slice.vram) return std::nullopt;
    return slice;
  }

  void grant(const Booking& booking,
             const Job& job,
             std::uint32_t group,
             std::uint32_t rank,
             const BookedPlace& place) {
    ++leases_;
    LeaseGranted granted = grant_for(state_, job, rank, leases_);
    granted.node = place.node;
    granted.tenant = booking.tenant;
    granted.trust_group = group;
    granted.slices = place.slices;
    granted.why = "in the window of " + text(booking.id);
    granted.booking = booking.id;
    events_.push_back(std::move(granted));
  }

  struct Host {
    std::int64_t cpu_milli = 0;
    std::int64_t memory_mib = 0;
  };

  const State& state_;
  Instant now_;
  int left_;
  const Capacity& capacity_;
  std::map<std::pair<ClaimId, DeviceId>, Used> used_;
  std::map<policy::NodeIndex, Host> host_;
  std::set<JobId> started_;
  std::set<NodeId> closed_;  // To the job that is looked at.
  Pledges pledges_;
  std::uint64_t leases_ = 0;
  Events events_;
};

}  // namespace

Events start_in_windows(const State& state, const Envelope& envelope, int decisions_max) {
  if (state.index.calendar->open().empty()) return {};
  return Starter(state, envelope, decisions_max).run();
}

bool waits_for_window(const State& state, const Job& job) {
  return !state.index.calendar->empty() && booking_named(state, job) != nullptr;
}

}  // namespace tranche::engine
