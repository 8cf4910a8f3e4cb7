// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs: what somebody wants to run, whether it was admitted, and how it ended.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "engine/dependency.hpp"
#include "wire/ask.hpp"
#include "wire/job_state.hpp"
#include "wire/progress.hpp"
#include "wire/states.hpp"

namespace tranche::engine {

using wire::Admission;
using wire::Ask;
using wire::EndReason;
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
  std::string spec{};          // The job file as canonical JSON.
  std::uint32_t attempts = 0;  // Started so often.
  std::uint32_t faults = 0;    // Attempts that ended through no fault of its own since it last got further.
  bool stop_requested = false;
  Instant started{};                    // Of the last attempt.
  Instant not_before{};                 // Waits at least until then.
  std::vector<LeaseId> leases{};        // Of the last attempt, by rank.
  EndReason reason = EndReason::kNone;  // Why it waits again, or how it ended.
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
  Money charged{};  // For all attempts, less what was credited.
  Money credited{};
  std::uint32_t errors = 0;  // Attempts that ended through errors of its own.
  bool paused = false;       // By request: it is put aside as soon as what runs of it has ended.
  Instant paused_at{};
  Duration paused_for{};  // Before that, in all.

  // It holds no quota but that of its storage, and waits for a person.
  [[nodiscard]] bool is_put_aside() const { return paused && state == JobState::kPaused; }
};
BOOST_DESCRIBE_STRUCT(Job,
                      (),
                      (id,
                       owner,
                       state,
                       admission,
                       hold,
                       submitted,
                       ended,
                       version,
                       name,
                       ask,
                       spec,
                       attempts,
                       faults,
                       stop_requested,
                       started,
                       not_before,
                       leases,
                       reason,
                       exit_code,
                       exit_signal,
                       message,
                       charged,
                       credited,
                       errors,
                       paused,
                       paused_at,
                       paused_for))

struct SubmitJob {
  PartyId owner{};  // Zero: the actor.
  std::string name{};
  Ask ask{};
  std::string spec{};
  wire::WorkUnit unit = wire::WorkUnit::kNone;  // With units it becomes a group: see job_group.hpp.
  wire::UnitRange units{};
  std::uint32_t chunk = 0;
  std::uint32_t unit_tries = 1;
  std::vector<After> after{};
  std::vector<std::int64_t> milliseconds{};  // Of footage in each unit; empty: units are counted as they are.
};
struct JobSubmitted {
  JobId id{};
  PartyId owner{};
  Admission admission = Admission::kWithinQuota;
  Money hold{};
  std::string name{};
  Ask ask{};
  std::string spec{};
  std::optional<Instant> not_before{};  // The start that was planned for it.
};
BOOST_DESCRIBE_STRUCT(JobSubmitted, (), (id, owner, admission, hold, name, ask, spec, not_before))

struct StopJob {
  JobId id{};
};
struct JobEnded {
  JobId id{};
  PartyId owner{};
  JobState state = JobState::kStopped;
  EndReason reason = EndReason::kStopped;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
};
BOOST_DESCRIBE_STRUCT(JobEnded, (), (id, owner, state, reason, exit_code, exit_signal, message))

// Its attempts ended through faults of the platform as often as is tolerated: a person looks first.
struct JobHeld {
  JobId id{};
  PartyId owner{};
  EndReason reason = EndReason::kPlatformFault;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
};
BOOST_DESCRIBE_STRUCT(JobHeld, (), (id, owner, reason, exit_code, exit_signal, message))

struct ReleaseJob {  // One that is held, to be tried again as if for the first time.
  JobId id{};
};
struct HeldJobReleased {
  JobId id{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(HeldJobReleased, (), (id, owner))

struct PauseJob {
  JobId id{};
  bool from_start = false;  // Though it saves nothing, and begins again.
};
struct JobPauseRequested {  // What runs of it saves itself and ends.
  JobId id{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(JobPauseRequested, (), (id, owner))

struct JobPaused {
  JobId id{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(JobPaused, (), (id, owner))

struct ResumeJob {
  JobId id{};
};
struct JobResumed {  // Admitted again, and back in the queue.
  JobId id{};
  PartyId owner{};
  Admission admission = Admission::kWithinQuota;
  Money hold{};
  std::optional<Instant> not_before{};  // The start that was planned for it.
};
BOOST_DESCRIBE_STRUCT(JobResumed, (), (id, owner, admission, hold, not_before))

struct JobResized {  // An elastic job has, or waits for, another number of members.
  JobId id{};
  PartyId owner{};
  std::uint32_t nodes = 1;
};
BOOST_DESCRIBE_STRUCT(JobResized, (), (id, owner, nodes))

struct JobResliced {  // A job whose slice has a range holds, or waits for, a slice of another size.
  JobId id{};
  PartyId owner{};
  std::uint32_t milli = 0;
  std::int64_t vram = 0;
};
BOOST_DESCRIBE_STRUCT(JobResliced, (), (id, owner, milli, vram))

}  // namespace tranche::engine
