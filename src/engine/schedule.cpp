// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule.hpp"

#include <algorithm>

#include "engine/attempt.hpp"
#include "engine/guarantee.hpp"
#include "engine/handover.hpp"
#include "engine/pass.hpp"
#include "engine/slice_change.hpp"
#include "engine/slots.hpp"

namespace tranche::engine {

static_assert(kEpochsOfRecord == 2 * kDecisionsMax);

Events Pass::run() {
  find_promises();
  keep_places_of_movers();
  collect();
  while (!turns_.empty() && decisions_ < kDecisionsMax) {
    const Turn turn = turns_.top();
    turns_.pop();
    offer(turn);
  }
  for (const Started& one : started_elastic_) extend(one);
  // The last first: what it inserts moves only what comes after it.
  for (auto one = started_resizable_.rbegin(); one != started_resizable_.rend(); ++one) enlarge(*one);
  if (blocked_) make_room_by_moves();
  grow_one();
  grow_slices();
  append(events_, overdue_changes(state_, envelope_.at, look_again_));
  const bool more = decisions_ >= kDecisionsMax;
  undo();
  capacity_.passed(envelope_.at);
  if (more || reclaims_ > 0) capacity_.changed();  // The next of the same kind may ask, too.
  if (look_again_ < kFarFuture) capacity_.look_again(look_again_);
  if (!kept_waiting_.empty() || preparation_.has_kept()) capacity_.look_again(preparation_.look_again());
  return std::move(events_);
}

void Pass::undo() {
  for (const auto& [job, kept] : movers_) capacity_.release(kept.shape, kept.place);
  for (auto taken = taken_.rbegin(); taken != taken_.rend(); ++taken)
    capacity_.release(taken->shape, taken->place);
}

bool schedule_due(const State& state, Instant now) {
  return state.index.calendar->due(now) || state.index.capacity->due(now) || work_due(state, now) ||
         guarantees_due(state, now);
}

bool within_guarantee(const State& state, PartyId tenant, std::int64_t gpu_milli) {
  const Party* party = state.party(tenant);
  if (party == nullptr || !party->quota.gpu_milli.guaranteed) return false;
  return state.index.capacity->running_milli(tenant) + gpu_milli <= *party->quota.gpu_milli.guaranteed;
}

Instant expected_end(const State& state, const Lease& lease) {
  if (!lease.live()) return state.now;  // Being wiped.
  const Job* job = state.job(lease.job);
  if (job == nullptr || job->ask.time == Duration{}) return kFarFuture;
  // Its clock stands still while it is off its devices.
  const bool off = lease.parking == Parking::kParked || lease.parking == Parking::kReturning;
  const Duration off_for = lease.parked_for + (off ? state.now - lease.parked : Duration{});
  const Instant began = std::max(lease.started == Instant{} ? lease.granted : lease.started, lease.granted);
  return began + off_for + job->ask.time;
}

Decision decide(const State& state, const Envelope& envelope, const Schedule&) {
  if (Events events = advance_workloads(state, envelope); !events.empty()) return events;
  // What windows need goes first, alone: the pass after it sees what that led to.
  Events events = keep_windows(state, envelope);
  if (events.empty()) events = start_in_windows(state, envelope, kDecisionsMax);
  if (!events.empty()) {
    state.index.capacity->changed();
    return events;
  }
  // What came of a pass is known when the next one has nothing more to decide.
  if (!state.index.capacity->due(envelope.at)) return note_guarantees(state, envelope);
  events = Pass(state, envelope).run();
  append_unclaimed(state, events);
  append_settlements(state, events);
  return events;
}

}  // namespace tranche::engine
