// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs: what somebody wants to run, whether it was admitted, and how it ended.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/ask.hpp"
#include "wire/job_state.hpp"

namespace tranche::engine {

using wire::Admission;
using wire::Ask;
using wire::is_over;
using wire::JobState;

struct Job {
  JobId id{};
  PartyId owner{};
  JobState state = JobState::kPending;
  Admission admission = Admission::kWithinQuota;
  Money hold{};  // Set aside for work on demand.
  Instant submitted{};
  Instant ended{};
  std::uint64_t version = 0;
  std::string name{};
  Ask ask{};
  std::string spec{};  // The job file as canonical JSON.
};
BOOST_DESCRIBE_STRUCT(Job,
                      (),
                      (id, owner, state, admission, hold, submitted, ended, version, name, ask, spec))

struct SubmitJob {
  PartyId owner{};  // Zero: the actor.
  std::string name{};
  Ask ask{};
  std::string spec{};
};
struct JobSubmitted {
  JobId id{};
  PartyId owner{};
  Admission admission = Admission::kWithinQuota;
  Money hold{};
  std::string name{};
  Ask ask{};
  std::string spec{};
};
BOOST_DESCRIBE_STRUCT(JobSubmitted, (), (id, owner, admission, hold, name, ask, spec))

struct StopJob {
  JobId id{};
};
struct JobEnded {
  JobId id{};
  PartyId owner{};
  JobState state = JobState::kStopped;
};
BOOST_DESCRIBE_STRUCT(JobEnded, (), (id, owner, state))

}  // namespace tranche::engine
