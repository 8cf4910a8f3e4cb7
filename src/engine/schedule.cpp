// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule.hpp"

#include <algorithm>
#include <queue>

#include "engine/admission.hpp"
#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "engine/elastic.hpp"
#include "engine/fabric.hpp"
#include "engine/gang_network.hpp"
#include "engine/handover.hpp"
#include "engine/lease_meter.hpp"
#include "engine/market_claims.hpp"
#include "engine/moves.hpp"
#include "engine/place_rules.hpp"
#include "engine/preempt.hpp"
#include "engine/preparation.hpp"
#include "engine/reservation.hpp"
#include "engine/slots.hpp"
#include "engine/start_window.hpp"
#include "engine/unit_forecast.hpp"

namespace tranche::engine {
namespace {

constexpr int kDecisionsMax = 256;
static_assert(kEpochsOfRecord == 2 * kDecisionsMax);
constexpr int kReclaimsMax = 8;
constexpr int kLookAhead = 256;      // So many of a kind are looked at for one that would stay less long.
constexpr int kUnfundedMax = 16;     // Jobs of a kind that a pass looks at in vain for want of money.
constexpr int kKeptWaitingMax = 16;  // Likewise, for the sake of demand to come.
constexpr Duration kAgedAfter = std::chrono::hours(48);
constexpr Instant kFarFuture = Instant::max();
constexpr Duration kHurryWithin = std::chrono::hours(2);  // Of the latest start that keeps a deadline.

// The place of a waiting job in the one order. Whoever something is being freed for goes first, then who has
// waited too long; then priority, fair share, among a tenant's own jobs those whose deadline is near, and the
// order of submission.
struct Turn {
  std::int32_t tier = 0;
  std::int32_t rank = 0;
  Instant start_by = kFarFuture;
  JobId job{};
  WaitingKey key{};
  [[nodiscard]] auto order() const { return std::tuple(tier, rank, start_by, job); }
  bool operator>(const Turn& other) const { return order() > other.order(); }
};
constexpr std::int32_t kPromisedTier = -3;
constexpr std::int32_t kResizedTier = -2;  // It only makes way for a part of what it had.
constexpr std::int32_t kAgedTier = -1;

class Pass {
 public:
  Pass(const State& state, const Envelope& envelope)
      : state_(state),
        envelope_(envelope),
        capacity_(*state.index.capacity),
        preparation_(state, envelope.at),
        pledges_(state) {}

  Events run() {
    find_promises();
    collect();
    while (!turns_.empty() && decisions_ < kDecisionsMax) {
      const Turn turn = turns_.top();
      turns_.pop();
      offer(turn);
    }
    for (const Started& one : started_elastic_) extend(one);
    if (blocked_) make_room_by_moves();
    grow_one();
    const bool more = decisions_ >= kDecisionsMax;
    undo();
    capacity_.passed(envelope_.at);
    if (more) capacity_.changed();
    if (look_again_ < kFarFuture) capacity_.look_again(look_again_);
    if (!kept_waiting_.empty()) capacity_.look_again(preparation_.look_again());
    return std::move(events_);
  }

 private:
  struct Taken {
    policy::Shape shape{};
    Place place{};
  };

  struct Started {
    const Job* job = nullptr;
    PartyId tenant{};
    policy::Shape shape{};
    std::uint32_t members = 0;
  };

  // Leases that are ending for somebody: their nodes are kept for him.
  void find_promises() {
    for (const LeaseId id : capacity_.promising()) {
      const Lease* lease = state_.lease(id);
      const Job* job = lease == nullptr ? nullptr : state_.job(lease->promised_to);
      if (job == nullptr || (job->state != JobState::kPending && job->id != lease->job)) continue;
      promised_[lease->promised_to].insert(lease->node);
    }
  }

  // As if everything that is kept for somebody were free for everybody: to ask, never to take.
  template <class Question>
  auto with_kept_open(Question question) {
    const policy::Shape whole{.devices = 1, .milli = policy::kDeviceMilli};
    std::set<DeviceId> opened;
    for (const DeviceId id : capacity_.kept())
      for (const DeviceId one : capacity_.open_kept(state_, state_.devices.at(id).record.kept_for, whole))
        opened.insert(one);
    const auto answer = question();
    for (const DeviceId id : opened) capacity_.bar(state_, id, false);
    return answer;
  }

  void collect() {
    with_kept_open([&] { return capacity_.waiting_kinds().revive(capacity_.fleet()); });
    ranks_ = capacity_.ranks(envelope_.at);
    for (const auto& [key, jobs] : capacity_.waiting()) push_next(key, jobs.begin(), jobs);
  }

  using Jobs = std::set<JobId>;
  void push_next(const WaitingKey& key, Jobs::const_iterator from, const Jobs& jobs) {
    for (int looked = 0; from != jobs.end(); ++from) {
      const Job& job = state_.jobs.at(*from);
      if (job.not_before > envelope_.at || waits_for_window(state_, job) || is_out_of_hours(job)) continue;
      if (const Instant until = waits_for_wipes_until(state_, job, envelope_.at); until > envelope_.at) {
        look_again_ = std::min(look_again_, until);
        continue;
      }
      if (stays_too_long(key.kind, job)) {
        if (++looked == kLookAhead) return;
        continue;
      }
      if (key.kind == kNoKind || !capacity_.waiting_kinds().may_fit(key.kind)) {
        if (!may_reclaim(key, job)) return;  // Hopeless for all of this kind.
      }
      Turn turn{
          .tier = key.tier, .rank = ranks_[key.tenant], .start_by = start_by(job), .job = *from, .key = key};
      if (promised_.contains(*from)) turn.tier = kPromisedTier;
      if (turn.tier >= 0 && job.reason == EndReason::kResized) turn.tier = kResizedTier;
      // In the order of submission alone, so that its wait is bounded by the work of those who came before
      // it.
      if (turn.tier >= 0 && is_aged(job)) turn = {.tier = kAgedTier, .job = *from, .key = key};
      turns_.push(turn);
      // The nearest deadline is anywhere in its queue, so all of it takes part.
      if (!key.has_deadline || ++looked == kLookAhead) return;
    }
  }
  [[nodiscard]] bool is_aged(const Job& job) const { return envelope_.at - job.submitted >= kAgedAfter; }
  bool is_out_of_hours(const Job& job) {
    if (!job.ask.window) return false;
    const Instant opens = open_span(*job.ask.window, envelope_.at).from;
    if (opens > envelope_.at) capacity_.wake(opens, job.id);
    return opens > envelope_.at;
  }
  [[nodiscard]] Instant start_by(const Job& job) const {
    const auto latest = latest_start(state_, job);
    return latest && *latest - envelope_.at <= kHurryWithin ? *latest : kFarFuture;
  }
  void push_after(const Turn& turn) {
    if (turn.key.has_deadline) return;
    const auto queue = capacity_.waiting().find(turn.key);
    if (queue != capacity_.waiting().end())
      push_next(turn.key, queue->second.upper_bound(turn.job), queue->second);
  }

  // To some nodes, by its volumes or by rules: what becomes of it says nothing about others of its kind.
  [[nodiscard]] bool is_bound(const Job& job) const {
    return !job.ask.volumes.empty() || has_place_rules(state_, job.owner);
  }

  // What keeps one away from a reservation, a booking or an offer keeps away all that would stay as long.
  static Duration stay(const Job& job) { return job.ask.time == Duration{} ? Duration::max() : job.ask.time; }
  void note_refused_stay(policy::KindIndex kind, const Job& job) {
    // It may use what is only offered, or is bound to one place: its refusal says nothing about others.
    if (job.ask.preemptible || is_bound(job)) return;
    Duration& shortest = refused_stay_.emplace(kind, Duration::max()).first->second;
    shortest = std::min(shortest, stay(job));
  }
  [[nodiscard]] bool stays_too_long(policy::KindIndex kind, const Job& job) const {
    const auto refused = refused_stay_.find(kind);
    return refused != refused_stay_.end() && !job.ask.preemptible && !promised_.contains(job.id) &&
           stay(job) >= refused->second;
  }

  [[nodiscard]] bool may_reclaim(const WaitingKey& key, const Job& job) const {
    return key.kind != kNoKind && reclaims_ < kReclaimsMax && !promised_.contains(job.id) &&
           !tried_.contains(key.kind) && job.ask.instances > 0 && job.ask.volumes.empty();
  }

  // Capacity that work of higher priority is expected to want is not given to what would still be there then.
  // What is due by right, or has waited too long, is.
  [[nodiscard]] bool waits_for_demand(const Turn& turn, const Job& job) {
    if (!preparation_.on() || turn.tier < 0) return false;
    const auto started = started_milli_.find(turn.key.tenant);
    const std::int64_t already = started == started_milli_.end() ? 0 : started->second;
    return !within_guarantee(state_, turn.key.tenant, already + job.ask.gpu_milli()) &&
           !preparation_.leaves_room(job);
  }

  void offer(const Turn& turn) {
    const Job& job = state_.jobs.at(turn.job);
    if (waits_for_demand(turn, job)) {
      if (++kept_waiting_[turn.key] < kKeptWaitingMax) push_after(turn);
      return;
    }
    const auto shape = capacity_.shape_of(job.ask, trust_group(state_, turn.key.tenant));
    if (!shape) return push_after(turn);
    barred_ = barred_devices(state_, envelope_.at, job, *shape, placed_);
    for (Barred& one : barred_) capacity_.bar(state_, one);
    unfunded_ = false;
    try_to_start(turn, job, *shape);
    for (const Barred& one : barred_) capacity_.unbar(state_, one);
    if (!unfunded_ || ++unfunded_by_key_[turn.key] < kUnfundedMax) push_after(turn);
  }

  void try_to_start(const Turn& turn, const Job& job, const policy::Shape& shape) {
    const PartyId tenant = turn.key.tenant;
    if (capacity_.waiting_kinds().may_fit(turn.key.kind)) {
      if (start(job, tenant, shape) || unfunded_) return;
      // Whoever is first would have what is kept for another: then it is wiped for him.
      if (!passed_over_ && !capacity_.kept().empty())
        passed_over_ = with_kept_open([&] { return capacity_.choose(shape).has_value(); });
      // Refused by a promise to somebody else, it may fit as soon as that is kept. That there is no room for
      // all of a gang says nothing about one job of its members' shape.
      if (job.ask.nodes <= 1) {
        if (was_closed_) {
          note_refused_stay(turn.key.kind, job);
        } else {
          capacity_.waiting_kinds().refused(turn.key.kind);
        }
      }
    }
    if (may_reclaim(turn.key, job)) {
      tried_.insert(turn.key.kind);
      reclaim(job, tenant, shape);
    }
    if (!reserved_) reserved_ = reservation_for(state_, capacity_, envelope_.at, job, shape);
    if (!blocked_ && job.ask.nodes <= 1 && !is_bound(job) && !promised_.contains(job.id))
      blocked_ = turn;
  }

  // On what is free for everybody, and on what the same tenant has just left.
  template <class Take>
  bool with_own_kept(PartyId tenant, const policy::Shape& shape, Take take) {
    std::vector<DeviceId> opened;
    if (!passed_over_) opened = capacity_.open_kept(state_, tenant, shape);
    for (const Barred& one : barred_)  // What is booked stays closed to him as to everybody.
      if (one.slots == kAllSlots) capacity_.bar(state_, one.device, true);
    const bool taken = take();
    for (const DeviceId device : opened) capacity_.bar(state_, device, false);
    return taken;
  }
  bool start(const Job& job, PartyId tenant, const policy::Shape& shape) {
    return with_own_kept(tenant, shape, [&] { return start_all(job, tenant, shape); });
  }

  // A gang stays on one fabric where one has room for all of it.
  std::vector<Place> take_places(const Job& job, const policy::Shape& shape, std::uint32_t members) {
    std::vector<Place> anywhere = take_all(job, shape, members);
    if (anywhere.empty() || members == 1) return anywhere;
    for (const Place& place : anywhere) capacity_.release(shape, place);
    for (auto& outside : outside_of_fabrics(state_)) {
      outside_ = std::move(outside);
      auto together = take_all(job, shape, members);
      outside_.clear();
      if (!together.empty()) return together;
    }
    return take_all(job, shape, members);
  }

  std::vector<Place> take_all(const Job& job, const policy::Shape& shape, std::uint32_t members) {
    std::vector<Place> places;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      auto place = choose(job, shape);
      if (!place) break;
      capacity_.take(shape, *place);
      places.push_back(std::move(*place));
    }
    if (places.size() == members) return places;
    for (const Place& place : places) capacity_.release(shape, place);
    return {};
  }

  // All members of the gang, or none.
  bool start_all(const Job& job, PartyId tenant, const policy::Shape& shape) {
    const std::uint32_t members = std::max(job.ask.nodes, 1U);
    std::vector<Place> places = take_places(job, shape, members);
    if (places.empty()) return false;
    const std::size_t before = events_.size();
    const std::uint64_t leases_before = leases_;
    for (std::uint32_t rank = 0; rank < members; ++rank) grant(job, tenant, rank, places[rank]);
    if (!append_meters(state_, job, envelope_.at, before, pledges_, events_)) {
      events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(before), events_.end());
      leases_ = leases_before;
      unfunded_ = true;
      for (const Place& place : places) capacity_.release(shape, place);
      return false;
    }
    for (Place& place : places) {
      append_taken_back(state_, envelope_.at, job, place.slices, events_);
      note_use(job, shape, place);
      taken_.push_back({shape, std::move(place)});
    }
    started_milli_[tenant] += shape.gpu_milli() * members;
    preparation_.started(job);
    decisions_ += static_cast<int>(members);
    if (job.ask.is_elastic()) started_elastic_.push_back({&job, tenant, shape, members});
    return true;
  }

  // What nobody else could use when all had their turn goes to whom it helps. How many members it has then.
  std::uint32_t add_members(const Started& one) {
    const Job& job = *one.job;
    std::uint32_t members = one.members;
    barred_ = barred_devices(state_, envelope_.at, job, one.shape, placed_);
    for (Barred& barred : barred_) capacity_.bar(state_, barred);
    with_own_kept(one.tenant, one.shape, [&] {
      while (members < job.ask.nodes_max && decisions_ < kDecisionsMax && add_member(one, members)) ++members;
      return true;
    });
    for (const Barred& barred : barred_) capacity_.unbar(state_, barred);
    if (members > one.members) {
      Ask more = job.ask.resized(members);
      more.instances -= job.ask.instances;
      grown_.push_back({job.owner, std::move(more)});
    }
    return members;
  }

  bool add_member(const Started& one, std::uint32_t rank) {
    const Job& job = *one.job;
    if (job.admission != Admission::kWithinQuota ||
        !may_grow(state_, job.owner, job.ask, job.ask.resized(rank + 1), grown_, envelope_.at))
      return false;
    auto place = choose(job, one.shape);
    if (!place) return false;
    capacity_.take(one.shape, *place);
    const std::size_t before = events_.size();
    grant(job, one.tenant, rank, *place);
    if (!append_meters(state_, job, envelope_.at, before, pledges_, events_)) {
      events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(before), events_.end());
      --leases_;
      capacity_.release(one.shape, *place);
      return false;
    }
    append_taken_back(state_, envelope_.at, job, place->slices, events_);
    note_use(job, one.shape, *place);
    taken_.push_back({one.shape, std::move(*place)});
    started_milli_[one.tenant] += one.shape.gpu_milli();
    ++decisions_;
    return true;
  }

  void extend(const Started& one) {
    const std::uint32_t members = add_members(one);
    if (members > one.members) events_.push_back(JobResized{one.job->id, one.job->owner, members});
  }

  // Who runs with fewer than it could use is started again with more, one in a pass: it saves its work, and
  // finds what is idle now when its turn comes.
  void grow_one() {
    for (const LeaseId id : capacity_.elastic()) {
      const Lease& first = state_.leases.at(id);
      const Job& job = state_.jobs.at(first.job);
      if (job.ask.nodes >= job.ask.nodes_max || !may_be_restarted(state_, job)) continue;
      const Instant from = first.granted + state_.settings.minimum_run;
      if (from > envelope_.at) {
        look_again_ = std::min(look_again_, from);
        continue;
      }
      const auto shape = capacity_.shape_of(job.ask, trust_group(state_, first.tenant));
      if (!shape) continue;
      const std::size_t before = events_.size();
      const std::uint64_t leases_before = leases_;
      const std::uint32_t members = add_members({&job, first.tenant, *shape, job.ask.nodes});
      events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(before), events_.end());
      leases_ = leases_before;
      if (members == job.ask.nodes) continue;
      for (const LeaseId member : job.leases)
        events_.push_back(revocation(
            state_,
            state_.leases.at(member),
            EndReason::kResized,
            "there is room for " + std::to_string(members) + " workers; it goes on from its checkpoint",
            job.id));
      return;
    }
  }

  // Nodes kept for others are closed to this job while it looks.
  std::optional<Place> choose(const Job& job, const policy::Shape& shape) {
    std::set<NodeId> closed = outside_;
    for (const auto& [owner, nodes] : promised_)
      if (owner != job.id) closed.insert(nodes.begin(), nodes.end());
    if (const auto own = promised_.find(job.id); own != promised_.end())
      for (const NodeId node : own->second) closed.erase(node);  // What is freed there is for both.
    const bool ends_in_time =
        job.ask.time > Duration{} && reserved_ && envelope_.at + job.ask.time <= reserved_->at;
    if (reserved_ && reserved_->job != job.id && !ends_in_time)
      closed.insert(reserved_->nodes.begin(), reserved_->nodes.end());
    if (shape.devices == 0) {
      const Instant end = job.ask.time == Duration{} ? kFarFuture : envelope_.at + job.ask.time;
      closed.merge(kept_free(state_, envelope_.at, end));
    }
    close_elsewhere(state_, job, closed);
    close_unreachable(state_, job, closed);
    close_forbidden(state_, job, envelope_.at, closed);
    std::vector<DeviceId> blocked;
    capacity_.block_restricted(job.ask.preemptible, shape.shares(), blocked);
    capacity_.block_owed(tenant_of(state_, job.owner), blocked);
    was_closed_ = !closed.empty() || !barred_.empty() || !blocked.empty() || !capacity_.kept().empty();
    for (const NodeId node : closed)
      if (takes_work(state_.nodes.at(node))) capacity_.close(node, true);
    auto place = capacity_.choose(shape);
    for (const NodeId node : closed)
      if (takes_work(state_.nodes.at(node))) capacity_.close(node, false);
    capacity_.unblock(blocked);
    return place;
  }

  // What later jobs of this pass must leave room for beside what is booked or offered.
  void note_use(const Job& job, const policy::Shape& shape, const Place& place) {
    if (job.ask.preemptible || (state_.index.calendar->empty() && state_.market.pieces_of.empty())) return;
    const Instant end = job.ask.time == Duration{} ? kFarFuture : envelope_.at + job.ask.time;
    for (const Slice& slice : place.slices)
      placed_.emplace(
          slice.device,
          PassingUse{use_of(state_.devices.at(slice.device), job.ask, shape.trust_group, slice), end});
  }

  void grant(const Job& job, PartyId tenant, std::uint32_t rank, const Place& place) {
    ++leases_;
    events_.push_back(LeaseGranted{.id = {state_.next_lease + leases_ - 1},
                                   .job = job.id,
                                   .attempt = job.attempts + 1,
                                   .rank = rank,
                                   .node = place.node,
                                   .epoch = (state_.sequence + 1) * kEpochsOfRecord + leases_,
                                   .owner = job.owner,
                                   .tenant = tenant,
                                   .isolation = job.ask.isolation,
                                   .trust_group = trust_group(state_, tenant),
                                   .slices = place.slices,
                                   .why = reason_of(job, tenant)});
  }

  [[nodiscard]] std::string reason_of(const Job& job, PartyId tenant) const {
    if (promised_.contains(job.id)) return "what it waited for was freed";
    const auto started = started_milli_.find(tenant);
    const std::int64_t already = started == started_milli_.end() ? 0 : started->second;
    if (within_guarantee(state_, tenant, already + job.ask.gpu_milli())) return "within its guarantee";
    return "idle capacity";
  }

  // The job's own right, or its rank above work that may be stopped, brings capacity back.
  void reclaim(const Job& job, PartyId tenant, const policy::Shape& shape) {
    if (job.ask.nodes > 1) return;
    const auto started = started_milli_.find(tenant);
    const std::int64_t already = started == started_milli_.end() ? 0 : started->second;
    const Claimant claimant{.job = job.id,
                            .tenant = tenant,
                            .priority = job.ask.priority,
                            .entitled = within_guarantee(state_, tenant, already + job.ask.gpu_milli())};
    if (const auto plan = cheapest_victims(state_, envelope_.at, claimant, shape)) {
      ++reclaims_;
      make_way(claimant, *plan);
    } else if (look_again_ == kFarFuture) {
      look_again_ = next_interruptible(state_, envelope_.at);
    }
  }

  // The first that must wait gets its place from work that can go on elsewhere. After all others had their
  // turn, so that a move takes only what nobody else could use.
  void make_room_by_moves() {
    const Job& job = state_.jobs.at(blocked_->job);
    const auto shape = capacity_.shape_of(job.ask, trust_group(state_, blocked_->key.tenant));
    if (!shape || shape->devices == 0 || promised_.contains(job.id)) return;
    barred_ = barred_devices(state_, envelope_.at, job, *shape, placed_);
    for (Barred& one : barred_) capacity_.bar(state_, one);
    const Claimant claimant{.job = job.id, .tenant = blocked_->key.tenant, .priority = job.ask.priority};
    if (const auto plan = cheapest_moves(state_, capacity_, envelope_.at, claimant, *shape))
      make_way(claimant, *plan);
    for (const Barred& one : barred_) capacity_.unbar(state_, one);
  }

  void make_way(const Claimant& claimant, const Victims& plan) {
    append(events_, ways_made(state_, claimant, plan));
    promised_[claimant.job].insert(plan.node);
    decisions_ += static_cast<int>(plan.victims.size());
  }

  void undo() {
    for (auto taken = taken_.rbegin(); taken != taken_.rend(); ++taken)
      capacity_.release(taken->shape, taken->place);
  }

  const State& state_;
  const Envelope& envelope_;
  Capacity& capacity_;
  std::map<PartyId, std::int32_t> ranks_;
  std::map<JobId, std::set<NodeId>> promised_;
  std::set<policy::KindIndex> tried_;
  std::map<policy::KindIndex, Duration> refused_stay_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  std::map<PartyId, std::int64_t> started_milli_;
  std::vector<Taken> taken_;
  std::vector<Started> started_elastic_;
  std::vector<Grown> grown_;  // Beyond what is held in the state.
  std::multimap<DeviceId, PassingUse> placed_;
  std::optional<Reservation> reserved_;
  std::set<NodeId> outside_;     // Of the fabric that a gang is tried on.
  std::optional<Turn> blocked_;  // The first that found no room.
  Preparation preparation_;
  std::map<WaitingKey, int> kept_waiting_;
  Events events_;
  Pledges pledges_;
  std::map<WaitingKey, int> unfunded_by_key_;
  std::uint64_t leases_ = 0;
  bool unfunded_ = false;
  bool was_closed_ = false;
  std::vector<Barred> barred_;       // To the job whose turn it is.
  bool passed_over_ = false;         // By what is kept unwiped for somebody behind in the order.
  Instant look_again_ = kFarFuture;  // Somebody who is spared now may be asked then.
  int decisions_ = 0;
  int reclaims_ = 0;
};

}  // namespace

bool schedule_due(const State& state, Instant now) {
  return state.index.calendar->due(now) || state.index.capacity->due(now) || work_due(state, now);
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
  return std::max(lease.started == Instant{} ? lease.granted : lease.started, lease.granted) + job->ask.time;
}

Decision decide(const State& state, const Envelope& envelope, const Schedule&) {
  if (Events events = advance_workloads(state, envelope); !events.empty()) return events;
  // What windows need goes first, alone: the pass after it sees what that led to.
  Events events = keep_windows(state, envelope);
  if (events.empty()) events = start_in_windows(state, envelope, kDecisionsMax);
  if (events.empty()) {
    events = Pass(state, envelope).run();
    append_unclaimed(state, events);
    append_settlements(state, events);
    return events;
  }
  state.index.capacity->changed();
  return events;
}

}  // namespace tranche::engine
