// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is known of work beyond the single job: progress, groups of units, dependencies, services.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/contract.hpp"
#include "engine/dependency.hpp"
#include "engine/job_group.hpp"
#include "engine/progress.hpp"
#include "engine/recurring.hpp"
#include "engine/service.hpp"
#include "engine/service_level.hpp"
#include "engine/unit_book.hpp"
#include "wire/meter.hpp"

namespace tranche::engine {

// What a job has done and was not charged for yet: tokens, steps, frames, requests.
struct UnsettledUnits {
  JobId job{};
  UnitCounts counts{};
};
BOOST_DESCRIBE_STRUCT(UnsettledUnits, (), (job, counts))

// Where a replica is reached on its node.
struct OpenDoor {
  std::uint16_t port = 0;
  bool sealed = false;  // By TLS.
};

struct JobCheckpoints {
  JobId job{};
  std::vector<wire::CheckpointNote> notes{};  // That the job said are whole, the newest last.
  // Leases of the last attempt that ran: what they saved is on their nodes. By rank.
  std::vector<LeaseId> saved_by{};
};
BOOST_DESCRIBE_STRUCT(JobCheckpoints, (), (job, notes, saved_by))

struct Workloads {
  std::map<JobId, JobProgress> progress{};
  std::map<JobId, JobGroup> groups{};  // By their parents.
  std::map<JobId, Dependencies> waits{};
  std::map<ServiceKey, Service> services{};
  std::map<LeaseId, OpenDoor> doors{};
  std::map<JobId, UnsettledUnits> unsettled{};
  std::map<RecurringKey, RecurringJob> recurring{};
  std::map<LevelKey, ServiceLevel> levels{};
  std::map<UnitDayKey, UnitDay> unit_days{};
  std::map<JobId, JobCheckpoints> checkpoints{};
};

// Derived from the workloads: who belongs to whom, and who may have something to decide.
struct WorkIndex {
  std::map<JobId, JobId> group_of{};         // Chunks that have not ended.
  std::multimap<JobId, JobId> waiters{};     // By what they wait for.
  std::map<JobId, ServiceKey> service_of{};  // Replicas.
  // Used up by decide(), put back by apply().
  std::set<JobId> groups_due{}, waiters_due{}, judged_next{};
  std::set<std::pair<Instant, JobId>> looks{};        // When to see whether a group has stragglers. Likewise.
  std::set<std::pair<Instant, RecurringKey>> runs{};  // The next one of each.
  std::set<std::pair<Instant, ListingId>> listings{};  // Likewise.
  std::set<std::pair<Instant, JobId>> closings{};  // When running jobs must stop for their hours. Likewise.
};

struct State;

// Whether a pending job is not for the scheduler: a parent of chunks, or one that waits for others.
[[nodiscard]] bool is_held(const State&, JobId);
// The units that the job's next lease must work through; empty: it has none.
[[nodiscard]] UnitSet units_left(const State&, JobId);

void rebuild_work_index(State&);
void rebuild_recurring_index(State&);
void rebuild_listing_index(State&);
void forget_work(State&);  // Of jobs that were forgotten.

[[nodiscard]] bool work_due(const State&, Instant now);

[[nodiscard]] std::string units_name(WorkUnit unit);  // "frames"
// What one job did, or several together: it is charged with the first, and shown with it.
void count_units(State&, const CountedUnits&);
// With what the job's first lease reports by itself; others report what they measured alone.
[[nodiscard]] UnitCounts unsettled_units(const State&, const wire::MeterRecord&);
void settle_units(State&, JobId, const UnitCounts& charged);
// The same with every unit that the job counts in, those too of which there are none in this interval.
[[nodiscard]] UnitCounts charged_units(const State&, JobId, const UnitCounts& charged);

// What a chunk was charged, and how much more or less is set aside for it, with the sums of its group.
void note_group_money(State&, JobId chunk, Money charged, Money held);
// Money or quota was given: groups that could have no further chunk are tried again.
void look_at_waiting_groups(State&);
// What a replica was charged, with the hour of its service.
void charge_service(State&, JobId replica, Money amount);
// A lease that had begun to work is over: where its job finds what it saved.
void note_saved(State&, const Lease&);

// Called where a job or a lease changes.
void note_job_ended(State&, const Job&, Instant at);
void note_job_running(State&, const Job&, Instant at);

}  // namespace tranche::engine
