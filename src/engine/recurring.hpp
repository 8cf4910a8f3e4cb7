// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs that run again and again. Their times are worked out from a calendar at the edge, where zones and
// rules are known, a number of them ahead; as they are used up the edge adds the next, so that a job without
// an end goes on for ever. One run at a time: a time that comes while the run before goes on is passed over,
// and said so.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "engine/job_group.hpp"
#include "wire/ask.hpp"

namespace tranche::engine {

struct RecurringKey {
  PartyId tenant{};
  std::string name{};
  auto operator<=>(const RecurringKey&) const = default;
};
BOOST_DESCRIBE_STRUCT(RecurringKey, (), (tenant, name))

struct JobTemplate {  // What each run submits.
  Ask ask{};
  std::string spec{};  // The job as canonical JSON.
  WorkUnit unit = WorkUnit::kNone;
  UnitRange units{};
  std::uint32_t chunk = 0;
  std::uint32_t unit_tries = 1;
};
BOOST_DESCRIBE_STRUCT(JobTemplate, (), (ask, spec, unit, units, chunk, unit_tries))

struct RecurringJob {
  RecurringKey key{};
  PartyId owner{};
  JobTemplate job{};
  std::string every{};  // As a person wrote it.
  std::string zone{};
  std::vector<Instant> times{};  // Still to come, in order.
  JobId last{};
  std::uint64_t runs = 0;
  std::uint64_t passed_over = 0;
  std::string problem{};        // Why the last one did not run; empty: it did.
  std::string rule{};           // RFC 5545, by which more times follow; empty: none do.
  std::int64_t planned_to = 0;  // Local seconds of the last time worked out: the rule goes on from there.
};
BOOST_DESCRIBE_STRUCT(
    RecurringJob,
    (),
    (key, owner, job, every, zone, times, last, runs, passed_over, problem, rule, planned_to))

constexpr std::size_t kTimesAhead = 64;      // Worked out at once.
constexpr std::size_t kTimesLeftLeast = 32;  // With fewer left, the next are.

struct SetRecurring {
  PartyId owner{};  // Zero: the actor.
  std::string name{};
  JobTemplate job{};
  std::string every{};
  std::string zone{};
  std::vector<Instant> times{};
  std::string rule{};
  std::int64_t planned_to = 0;
};
struct RecurringSet {
  RecurringKey key{};
  PartyId owner{};
  JobTemplate job{};
  std::string every{};
  std::string zone{};
  std::vector<Instant> times{};
  std::string rule{};
  std::int64_t planned_to = 0;
};
BOOST_DESCRIBE_STRUCT(RecurringSet, (), (key, owner, job, every, zone, times, rule, planned_to))

struct PlanRecurring {  // The times after those that are known.
  RecurringKey key{};
  std::int64_t planned_from = 0;  // What it goes on from: set anew meanwhile, it does not fit any more.
  std::vector<Instant> times{};   // Empty: the rule has come to its end.
  std::int64_t planned_to = 0;
};
struct RecurringPlanned {
  RecurringKey key{};
  PartyId owner{};
  std::vector<Instant> times{};
  std::int64_t planned_to = 0;
};
BOOST_DESCRIBE_STRUCT(RecurringPlanned, (), (key, owner, times, planned_to))

struct RemoveRecurring {
  RecurringKey key{};
};
struct RecurringRemoved {
  RecurringKey key{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(RecurringRemoved, (), (key, owner))

struct RecurringRan {  // Its time came. All times until then are over.
  RecurringKey key{};
  PartyId owner{};
  Instant until{};
  JobId job{};            // Zero: it did not run.
  std::string problem{};  // Why not.
};
BOOST_DESCRIBE_STRUCT(RecurringRan, (), (key, owner, until, job, problem))

}  // namespace tranche::engine
