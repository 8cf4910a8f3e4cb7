// SPDX-License-Identifier: Apache-2.0
#include "engine/slots.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/attempt.hpp"
#include "engine/booking_limits.hpp"
#include "engine/decide.hpp"
#include "engine/maintenance.hpp"
#include "engine/schedule.hpp"

namespace tranche::engine {
namespace {

// Windows are looked at this long before they open: nobody is given more time to save his work.
constexpr Duration kHorizon = std::chrono::hours(1);
// From the end of a process to slices that are wiped and free.
constexpr Duration kWipe = std::chrono::seconds(20);
constexpr Duration kRetryMove = std::chrono::minutes(1);

class Keeper {
 public:
  Keeper(const State& state, const Envelope& envelope)
      : state_(state), now_(envelope.at), calendar_(*state.index.calendar) {}

  Events run() {
    for (const Edge& edge : calendar_.edges()) {
      if (edge.at > now_ + kHorizon) {
        wake(edge.at - kHorizon);
        break;
      }
      visit(state_.bookings.at(edge.claim), edge.window);
    }
    // An open window is looked after for all of its length, however far its end.
    for (const auto& [claim, window] : calendar_.open()) {
      const Booking& booking = state_.bookings.at(claim);
      if (booking.windows[window].to > now_ + kHorizon) visit(booking, window);
    }
    calendar_.wake_at(events_.empty() ? wake_ : Instant{});
    return std::move(events_);
  }

 private:
  void wake(Instant at) { wake_ = std::min(wake_, std::max(at, now_ + std::chrono::milliseconds(1))); }

  void visit(const Booking& booking, std::uint32_t number) {
    const BookedWindow& window = booking.windows[number];
    if (now_ >= window.to) return close(booking, number);
    wake(window.to);
    if (window.state == WindowState::kOpen) {
      note_missing(booking, number);
      if (!move_away(booking, number)) hand_over(booking, window);
      if (booking.kind == ClaimKind::kMaintenance) maintain(booking, number);
      return;
    }
    if (now_ >= window.from) {
      events_.push_back(WindowOpened{booking.id, number, booking.owner});
    } else {
      wake(window.from);
      if (move_away(booking, number)) return;
    }
    make_room(booking, window);
  }

  void maintain(const Booking& booking, std::uint32_t number) {
    const BookedWindow& window = booking.windows[number];
    const Instant tests = work_ends(booking, window);
    if (now_ < tests) {
      wake(tests);
      append_maintenance_begins(state_, booking, window, events_);
    } else if (is_tested_after(state_, window)) {
      close(booking, number);  // Nobody has to wait for time that the tests did not need.
    } else {
      append_maintenance_ends(state_, window, "maintenance is over: " + booking.name, events_);
    }
  }

  void make_room(const Booking& booking, const BookedWindow& window) {
    for (const BookedPlace& place : window.places) {
      for (const Slice& slice : place.slices) make_room(booking, window, state_.devices.at(slice.device));
      if (booking.kind == ClaimKind::kMaintenance) clear_host(booking, window, place.node);
    }
  }

  // In the words of whoever has to go.
  [[nodiscard]] static std::string why_it_leaves(const Booking& booking, const BookedWindow& window) {
    if (booking.kind != ClaimKind::kMaintenance) return "its place was booked from now on";
    return "its node is kept free until " + text(window.to) + ": " + booking.name;
  }

  // Work without devices is not in the calendar, but maintenance is of the whole node.
  void clear_host(const Booking& booking, const BookedWindow& window, NodeId node) {
    for (const LeaseId id : state_.index.capacity->leases_on(node)) {
      const Lease& lease = state_.leases.at(id);
      const Job* job = state_.job(lease.job);
      if (!lease.live() || lease.revoked || !lease.slices.empty() || job == nullptr) continue;
      if (window.from > now_ && expected_end(state_, lease) <= window.from) continue;
      leave(lease, window.from, *job, why_it_leaves(booking, window));
    }
  }

  void leave(const Lease& lease, Instant before, const Job& job, const std::string& why) {
    const Instant when = before - grace_of(job) - kWipe;
    if (now_ >= when) {
      revoke(lease, why);
    } else {
      wake(when);
    }
  }

  // What was booked and is not there: its device cannot be used, or somebody lingers on it.
  void note_missing(const Booking& booking, std::uint32_t number) {
    if (booking.kind == ClaimKind::kMaintenance) return;
    const BookedWindow& window = booking.windows[number];
    std::int64_t missing = 0;
    for (const BookedPlace& place : window.places)
      for (const Slice& slice : place.slices) missing += missing_of(booking, slice);
    if (missing != window.missing_milli)
      events_.push_back(WindowShort{booking.id, number, missing, booking.owner});
  }
  [[nodiscard]] std::int64_t missing_of(const Booking& booking, const Slice& slice) const {
    const Device& device = state_.devices.at(slice.device);
    if (!takes_work(device.state) || !takes_work(state_.nodes.at(device.node))) return slice.milli;
    const Capacity& capacity = *state_.index.capacity;
    if (capacity.hold(booking.id, device.id) != nullptr) return 0;
    std::int64_t used = 0;
    for (const LeaseId id : capacity.leases_on(device.node)) {
      const Lease& lease = state_.leases.at(id);
      if (lease.booking != booking.id) continue;
      for (const Slice& own : lease.slices)
        if (own.device == device.id) used += own.milli;
    }
    return std::max<std::int64_t>(slice.milli - used, 0);
  }

  void close(const Booking& booking, std::uint32_t number) {
    for (Event& judged : judge_levels(state_, booking, booking.windows[number], now_))
      events_.push_back(std::move(judged));
    if (booking.windows[number].state == WindowState::kOpen) revoke_in(booking, "its window has closed");
    if (booking.kind == ClaimKind::kMaintenance)
      append_maintenance_ends(
          state_, booking.windows[number], "maintenance is over: " + booking.name, events_);
    events_.push_back(WindowClosed{booking.id, number, booking.owner});
  }

  void revoke_in(const Booking& booking, const std::string& why) {
    for (const LeaseId id : leases_in(state_, booking)) revoke(state_.leases.at(id), why);
  }

  // The job is told in time to save itself: it is gone when the window closes.
  void hand_over(const Booking& booking, const BookedWindow& window) {
    for (const LeaseId id : leases_in(state_, booking)) {
      const Lease& lease = state_.leases.at(id);
      if (!lease.live() || lease.revoked) continue;
      const Instant when = window.to - grace_of(state_.jobs.at(lease.job));
      if (now_ >= when) {
        revoke(lease, "its window closes; it goes on in the next one, or when there is room");
      } else {
        wake(when);
      }
    }
    make_room(booking, window);  // Somebody who should have left by himself, and did not.
  }

  void revoke(const Lease& lease, const std::string& why) {
    const Job* job = state_.job(lease.job);
    if (job == nullptr) return;
    for (const LeaseId member : job->leases) {
      const Lease& other = state_.leases.at(member);
      if (other.live() && !other.revoked && revoked_.insert(member).second)
        events_.push_back(revocation(state_, other, EndReason::kWindowClosed, why, JobId{}));
    }
  }

  struct InTheWay {
    bool stays_by_right = false;  // Preemptible work goes first.
    Instant granted{};
    LeaseId id{};
    DeviceUse use{};
  };

  // Whoever cannot be beside what is booked when the window opens; the last to come are the first to go.
  void make_room(const Booking& booking, const BookedWindow& window, const Device& device) {
    const Instant when = std::max(window.from, now_);
    std::vector<InTheWay> others;
    for (const LeaseId id : state_.index.capacity->leases_on(device.node)) {
      const Lease& lease = state_.leases.at(id);
      const Job* job = state_.job(lease.job);
      if (!lease.live() || !lease.holds_slices() || lease.revoked) continue;
      if (lease.booking != ClaimId{} || job == nullptr) continue;
      if (window.from > now_ && expected_end(state_, lease) <= window.from) continue;
      for (const Slice& slice : lease.slices)
        if (slice.device == device.id)
          others.push_back(
              {!job->ask.preemptible, lease.granted, id, use_of(device, job->ask, lease.trust_group, slice)});
    }
    std::sort(others.begin(), others.end(), [](const InTheWay& a, const InTheWay& b) {
      return std::tuple(!a.stays_by_right, a.granted, a.id) < std::tuple(!b.stays_by_right, b.granted, b.id);
    });
    std::vector<DeviceUse> uses;
    for (const CalendarClaim& claim : calendar_.claims_on(device.id))
      if (claim.at(when)) uses.push_back(claim.use);
    for (const InTheWay& other : others) {
      uses.push_back(other.use);
      if (is_legal(uses, device.facts.vram.count)) continue;
      uses.pop_back();
      const Lease& lease = state_.leases.at(other.id);
      leave(lease, window.from, state_.jobs.at(lease.job), why_it_leaves(booking, window));
    }
  }

  // A window whose devices cannot be used is moved to others while there is time.
  bool move_away(const Booking& booking, std::uint32_t number) {
    const BookedWindow& window = booking.windows[number];
    if (booking.kind != ClaimKind::kBooking) return false;  // What was bought is of that device.
    const auto usable = [&](const BookedPlace& place) {
      const Node* node = state_.node(place.node);
      return node != nullptr && takes_work(*node) &&
             std::all_of(place.slices.begin(), place.slices.end(), [&](const Slice& slice) {
               return is_in_service(state_.devices.at(slice.device).state);
             });
    };
    if (std::all_of(window.places.begin(), window.places.end(), usable)) return false;
    // One move a pass: the next one must see where this one went.
    if (!events_.empty()) {
      wake(now_);
      return false;
    }
    auto places = find_places(state_,
                              now_,
                              {booking.ask,
                               booking.trust_group,
                               booking.environment,
                               {std::max(window.from, now_), window.to},
                               booking.id});
    if (!places) {
      wake(now_ + kRetryMove);
      return false;
    }
    events_.push_back(WindowMoved{booking.id,
                                  number,
                                  std::move(*places),
                                  "what was booked cannot be used at the moment",
                                  booking.owner});
    return true;
  }

  const State& state_;
  Instant now_;
  Calendar& calendar_;
  Events events_;
  std::set<LeaseId> revoked_;
  Instant wake_ = Instant::max();
};

}  // namespace

Events keep_windows(const State& state, const Envelope& envelope) {
  if (!state.index.calendar->due(envelope.at)) return {};
  return Keeper(state, envelope).run();
}

}  // namespace tranche::engine
