// SPDX-License-Identifier: Apache-2.0
#pragma once
// The meter of a lease through its life: money set aside when it is granted, charged as it runs, the rest
// given back at its end. And what a job would cost, before it has one.
#include <map>
#include <optional>

#include "engine/event.hpp"
#include "engine/state.hpp"
#include "wire/api_job.hpp"

namespace tranche::engine {

// A lease is told to end while its hold still covers this much time, so that it can save its work.
constexpr Duration kSpendGrace = std::chrono::seconds(30);

// What one decision has promised already, before any of it is folded in: no money is promised twice.
class Pledges {
 public:
  explicit Pledges(const State& state) : state_(&state) {}
  // The most that could still be set aside or spent for a job of this party. Never negative.
  [[nodiscard]] Money room(AccountId account, PartyId party, JobId job) const;
  // What the job's own spend limit leaves; without one, more than anything costs.
  [[nodiscard]] Money job_room(JobId job) const;
  // Whether other chunks under the same limit have money that may come back.
  [[nodiscard]] bool is_beside_others(JobId job) const;
  // Which rule an amount would break.
  [[nodiscard]] std::optional<Refusal> problem(AccountId account,
                                               PartyId party,
                                               JobId job,
                                               Money amount) const;
  void take(AccountId account, PartyId party, JobId job, Money amount);

 private:
  [[nodiscard]] Money pledged_by(PartyId party) const;

  const State* state_;
  std::map<AccountId, Money> accounts_;
  std::map<PartyId, Money> parties_;
  std::map<JobId, Money> jobs_;
};

// What a job's own spend limit leaves beside what is charged and set aside; nothing: it has none. All chunks
// of a job of many units are under one limit.
[[nodiscard]] std::optional<Money> own_limit_left(const State&, const Job&);
[[nodiscard]] Money own_limit_left(const JobGroup&);
// Whether that is too little for anything of it to start, wherever it would land.
[[nodiscard]] bool is_own_limit_used_up(const State&, const JobGroup&, Instant at);

// What pays for a party: the nearest credit above it; without one, its tenant by invoice.
[[nodiscard]] AccountId paying_account(const State&, PartyId payer);

[[nodiscard]] PriceQuery price_query(const State&, const MeterPlan&);
// The price list's word; work over quota has the platform's rate unless the list has one for it.
[[nodiscard]] std::optional<PriceInForce> price_in_force(const State&, const PriceQuery&, Instant at);
// What a span costs at most: as if the device were busy all the time.
[[nodiscard]] Money most_for(const State&, const MeterPlan&, Instant from, Duration ahead);
// How far ahead money is set aside: never beyond the end of the job. A chunk under a spend limit of all
// chunks takes no more than its units probably need, so that others may start beside it.
[[nodiscard]] Duration ahead_of(const State&, const MeterPlan&, Instant at);

[[nodiscard]] MeterPlan meter_plan(const State&, const Job&, const LeaseGranted&);
[[nodiscard]] Result<MeterOpened, Refusal> meter_for(
    const State&, const MeterPlan&, Instant at, const Pledges&, bool may_begin_short = true);

// Opens a meter for every grant among `events` from `from` on: money for all of them is set aside, or nothing
// is said.
[[nodiscard]] bool append_meters(
    const State&, const Job&, Instant at, std::size_t from, Pledges&, Events& events);

void append_charge(const State&, Instant now, const wire::MeterRecord&, Pledges&, Events&);
// The records of a report, each lease's as one; a lease that nothing covers any more is told to end.
void append_charges(const State&, Instant now, const std::vector<wire::MeterRecord>&, Events&);
// The last seconds of a lease that ended, and its meter's end. Faults of the platform are not charged.
void append_meter_end(const State&, Instant now, const Lease&, const wire::LeaseReport&, Events&);
[[nodiscard]] MeterClosed meter_closed(const State&, const Meter&, Instant fault);

// What was set aside for work over quota at admission pays first; what is taken of it.
Money draw_admission_hold(State&, JobId job, Money amount);

// What is known of a job's work before it starts.
struct WorkAhead {
  std::string unit{};  // frames; empty: it is one run.
  std::int64_t count = 0;
  std::int64_t pieces = 1;  // Units, or pieces of footage: a chunk has one of them at least.
  std::int64_t tries = 1;   // Of each.
};
[[nodiscard]] WorkAhead work_ahead(const SubmitJob&);
// The price of a job before it starts, over every device it could land on.
[[nodiscard]] wire::JobPrice job_price(
    const State&, PartyId owner, const Ask&, Admission, Instant at, const WorkAhead& = {});
// Taxes come on top, on the invoice: named beside every price that is told before.
void add_tax(const State&, PartyId party, Instant at, wire::JobPrice&);
// The same by when it starts, for a job with a time limit.
class StartPrices {
 public:
  StartPrices(const State&, PartyId owner, const Ask&, Admission);
  [[nodiscard]] Money most(Instant start) const;
  // When, after `from` and until `to`, another price may hold; in order, at most so many for each device.
  [[nodiscard]] std::vector<Instant> changes(Instant from, Instant to, std::size_t count_max) const;

 private:
  const State* state_;
  Duration time_;
  std::vector<MeterPlan> plans_;
};
// Whether an hour of a device costs more than the job would pay for it.
[[nodiscard]] std::optional<Refusal> price_problem(const State&,
                                                   const MeterPlan&,
                                                   Money most_per_hour,
                                                   Instant at);
// Why no device it could land on is affordable now. `over_quota`: what admission would set aside.
[[nodiscard]] std::optional<Refusal> funding_problem(
    const State&, PartyId owner, JobId job, const Ask&, Admission, Money over_quota, Instant at);

}  // namespace tranche::engine
