// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs that run again and again at times that were worked out from a calendar when they were set. One run at
// a time: a time that comes while the run before goes on is passed over, and said so.
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
  std::string problem{};  // Why the last one did not run; empty: it did.
};
BOOST_DESCRIBE_STRUCT(RecurringJob,
                      (),
                      (key, owner, job, every, zone, times, last, runs, passed_over, problem))

struct SetRecurring {
  PartyId owner{};  // Zero: the actor.
  std::string name{};
  JobTemplate job{};
  std::string every{};
  std::string zone{};
  std::vector<Instant> times{};
};
struct RecurringSet {
  RecurringKey key{};
  PartyId owner{};
  JobTemplate job{};
  std::string every{};
  std::string zone{};
  std::vector<Instant> times{};
};
BOOST_DESCRIBE_STRUCT(RecurringSet, (), (key, owner, job, every, zone, times))

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
