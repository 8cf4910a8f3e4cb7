// SPDX-License-Identifier: Apache-2.0
#pragma once
// One scheduling pass while it lasts: what it has looked at, promised and taken so far. What it takes from
// the capacity is given back at its end, and taken for good by the events that it leaves.
//
// pass_order.cpp: whose turn it is. pass_start.cpp: where it goes. pass_reclaim.cpp: who makes way, or comes
// back. pass_growth.cpp: who gets more than the least that it can do with.
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "engine/admission.hpp"
#include "engine/decide.hpp"
#include "engine/lease_meter.hpp"
#include "engine/preempt.hpp"
#include "engine/preparation.hpp"
#include "engine/reservation.hpp"
#include "engine/schedule.hpp"

namespace tranche::engine {

constexpr int kDecisionsMax = 256;
constexpr Instant kFarFuture = Instant::max();

constexpr std::int32_t kBesideTier = -4;  // See pass_order.cpp.

// The place of a waiting job in the one order. Whoever something is being freed for goes first, then who has
// waited too long; then priority, who is within its guarantee before who would borrow, fair share, among a
// tenant's own jobs those whose deadline is near, and the order of submission.
struct Turn {
  std::int32_t tier = 0;
  bool borrows = false;
  std::int32_t rank = 0;
  Instant start_by = kFarFuture;
  JobId job{};
  WaitingKey key{};
  LeaseId returns{};  // Of a job that is parked and waits for its own place.
  [[nodiscard]] auto order() const { return std::tuple(tier, borrows, rank, start_by, job); }
  bool operator>(const Turn& other) const { return order() > other.order(); }
};

class Pass {
 public:
  Pass(const State& state, const Envelope& envelope)
      : state_(state),
        envelope_(envelope),
        capacity_(*state.index.capacity),
        preparation_(state, envelope.at),
        pledges_(state) {}

  Events run();

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
    std::size_t event = 0;  // Of its first grant.
    Place place{};          // Of its first member.
  };
  using Jobs = std::set<JobId>;

  // Order.
  void find_promises();
  void give_up_freed(JobId job);
  void collect();
  void push_next(const WaitingKey& key, Jobs::const_iterator from, const Jobs& jobs);
  void push_after(const Turn& turn);
  void push_parked();
  [[nodiscard]] bool may_be_tried(const WaitingKey& key, const Job& job);
  [[nodiscard]] Turn turn_of(const WaitingKey& key, const Job& job);
  [[nodiscard]] bool is_aged(const Job& job) const;
  [[nodiscard]] bool is_out_of_hours(const Job& job);
  [[nodiscard]] Instant start_by(const Job& job) const;
  // To some nodes, by its volumes or by rules: what becomes of it says nothing about others of its kind.
  [[nodiscard]] bool is_bound(const Job& job) const;
  void note_refused_stay(policy::KindIndex kind, const Job& job);
  [[nodiscard]] bool stays_too_long(policy::KindIndex kind, const Job& job) const;
  [[nodiscard]] bool keeps_failing(const WaitingKey& key, const Job& job) const;
  [[nodiscard]] bool may_reclaim(const WaitingKey& key, const Job& job) const;
  [[nodiscard]] bool is_due(PartyId tenant, const Job& job) const;
  [[nodiscard]] bool would_borrow(PartyId tenant, const Job& job) const;
  [[nodiscard]] std::pair<policy::KindIndex, PartyId> claim_of(const WaitingKey& key, const Job& job) const;
  [[nodiscard]] bool was_tried(const WaitingKey& key, const Job& job) const;
  [[nodiscard]] bool waits_for_demand(const Turn& turn, const Job& job);

  // Start.
  void offer(const Turn& turn);
  void try_to_start(const Turn& turn, const Job& job, const policy::Shape& shape);
  template <class Question>
  auto with_kept_open(Question question);
  template <class Take>
  bool with_own_kept(PartyId tenant, const policy::Shape& shape, Take take);
  bool start(const Job& job, PartyId tenant, const policy::Shape& shape);
  std::vector<Place> take_places(const Job& job, const policy::Shape& shape, std::uint32_t members);
  std::vector<Place> take_together(const Job& job, const policy::Shape& shape, std::uint32_t members);
  std::vector<Place> take_what_fits(const Job& job, const policy::Shape& shape, std::uint32_t members);
  std::vector<Place> take_all(const Job& job, const policy::Shape& shape, std::uint32_t members);
  bool start_all(const Job& job, PartyId tenant, const policy::Shape& shape);
  [[nodiscard]] std::set<NodeId> kept_for_others(const Job& job, std::set<NodeId> closed) const;
  [[nodiscard]] std::set<NodeId> closed_to(const Job& job, const policy::Shape& shape) const;
  void close_nodes(const std::set<NodeId>& nodes, bool closed);
  std::optional<Place> choose(const Job& job, const policy::Shape& shape);
  std::optional<Place> choose_beside_its_like(const Job& job, const policy::Shape& shape);
  void note_use(const Job& job, const policy::Shape& shape, const Place& place);
  void grant(const Job& job, PartyId tenant, std::uint32_t rank, const Place& place);
  [[nodiscard]] std::int64_t started_by(PartyId tenant) const;
  [[nodiscard]] std::string reason_of(const Job& job, PartyId tenant) const;
  void bar_for(const Job& job, const policy::Shape& shape);
  void unbar();

  // Reclaim.
  [[nodiscard]] const Job* waiting(JobId id) const;
  bool share_promise(const Job& job, PartyId tenant, const policy::Shape& shape);
  [[nodiscard]] bool fits_beside_promised(NodeId node, const policy::Shape& shape) const;
  [[nodiscard]] const GivenUp& asked();
  void reclaim(const Job& job, PartyId tenant, const policy::Shape& shape);
  bool foresee(RoomTrial& trial, NodeId node, policy::NodeIndex index) const;
  bool make_room_for_one(Claimant claimant, const policy::Shape& shape);
  bool make_room_for_gang(const Job& job, const Claimant& claimant, const policy::Shape& shape);
  void hold_for_gang(const Job& job, const policy::Shape& shape);
  void make_room_by_moves();
  void make_way(const Claimant& claimant, const Victims& plan);
  void keep_places_of_movers();
  void keep_place(const Job& job, NodeId node);
  [[nodiscard]] bool is_promised(NodeId node) const;
  [[nodiscard]] bool takes_free_device(const policy::Placement& placement) const;
  void let_mover_in(JobId job);
  void bring_back(const Turn& turn);
  [[nodiscard]] bool fits_back(const Job& job, const Lease& lease, const policy::Shape& shape);
  void go_on_elsewhere(const Job& job, const Lease& lease, const policy::Shape& shape);

  // Growth.
  std::uint32_t add_members(const Started& one);
  bool add_member(const Started& one, std::uint32_t rank);
  void extend(const Started& one);
  void enlarge(const Started& one);
  void grow_one();
  void grow_slices();
  [[nodiscard]] std::optional<Ask> larger(const Job& job,
                                          const policy::Shape& shape,
                                          const policy::Placement& placement);
  void take_more(const Job& job, const policy::Shape& shape, const Place& place, const Ask& more);

  void undo();

  const State& state_;
  const Envelope& envelope_;
  Capacity& capacity_;
  std::map<PartyId, std::int32_t> ranks_;
  std::map<JobId, std::set<NodeId>> promised_;
  std::set<PartyId> freeing_for_;  // Whose jobs those are.
  std::map<JobId, Taken> movers_;  // What is kept for those who go on elsewhere.
  struct Tried {
    std::uint8_t priority = 0;
    std::uint32_t nodes = 0;
  };
  // Others' room; by whom where he has a right to it.
  std::map<std::pair<policy::KindIndex, PartyId>, std::vector<Tried>> tried_;
  std::optional<GivenUp> asked_;
  std::map<policy::KindIndex, Duration> refused_stay_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  std::map<PartyId, std::int64_t> started_milli_;
  std::vector<Taken> taken_;
  std::vector<Started> started_elastic_;
  std::vector<Started> started_resizable_;
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
  std::optional<Place> own_place_;  // Of the job whose turn it is: it was kept for it until now.
  bool was_closed_ = false;
  std::vector<Barred> barred_;       // To the job whose turn it is.
  std::vector<Barred> closed_;       // Of that, what was not taken anyway.
  bool passed_over_ = false;         // By what is kept unwiped for somebody behind in the order.
  Instant look_again_ = kFarFuture;  // Somebody who is spared now may be asked then.
  int decisions_ = 0;
  bool saw_the_spared_ = false;  // All of them, which takes long in a large fleet.
  int reclaims_ = 0;
};

// As if everything that is kept for somebody were free for everybody: to ask, never to take.
template <class Question>
auto Pass::with_kept_open(Question question) {
  const policy::Shape whole{.devices = 1, .milli = policy::kDeviceMilli};
  std::set<DeviceId> opened;
  for (const DeviceId id : capacity_.kept())
    for (const DeviceId one : capacity_.open_kept(state_, state_.devices.at(id).record.kept_for, whole))
      opened.insert(one);
  const auto answer = question();
  for (const DeviceId id : opened) capacity_.bar(state_, id, false);
  return answer;
}

// On what is free for everybody, and on what the same tenant has just left.
template <class Take>
bool Pass::with_own_kept(PartyId tenant, const policy::Shape& shape, Take take) {
  std::vector<DeviceId> opened;
  if (!passed_over_) opened = capacity_.open_kept(state_, tenant, shape);
  for (const Barred& one : barred_)  // What is booked stays closed to him as to everybody.
    if (one.slots == kAllSlots) capacity_.bar(state_, one.device, true);
  const bool taken = take();
  for (const DeviceId device : opened) capacity_.bar(state_, device, false);
  return taken;
}

}  // namespace tranche::engine
