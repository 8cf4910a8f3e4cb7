// SPDX-License-Identifier: Apache-2.0
#pragma once
// What waiting jobs were told about their start, and how it came: the error of past predictions.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace tranche::engine {

struct Told {  // The first answer, before it was stretched by past errors.
  JobId job{};
  Instant at{};
  Duration p50{};  // From then.
  Duration p90{};
};
BOOST_DESCRIBE_STRUCT(Told, (), (job, at, p50, p90))

struct ToldOutcome {
  JobId job{};
  PartyId tenant{};
  Instant at{};  // When it started.
  Duration p50{};
  Duration p90{};
  Duration really{};
};
BOOST_DESCRIBE_STRUCT(ToldOutcome, (), (job, tenant, at, p50, p90, really))

struct Foretold {
  std::map<JobId, Told> open{};         // About jobs that still wait.
  std::vector<ToldOutcome> outcomes{};  // The last ones, oldest first.
};

struct NoteForecast {
  JobId job{};
  Duration p50{};
  Duration p90{};
};
struct StartForetold {
  JobId job{};
  PartyId owner{};
  Duration p50{};
  Duration p90{};
};
BOOST_DESCRIBE_STRUCT(StartForetold, (), (job, owner, p50, p90))

struct State;
void note_foretold_start(State&, JobId, Instant at);  // It starts now.
void drop_foretold(State&, JobId);                    // It never will.

}  // namespace tranche::engine
