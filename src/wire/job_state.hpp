// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a job stands, and on what terms it was taken in.
#include <boost/describe/enum.hpp>
#include <cstdint>

namespace tranche::wire {

enum class JobState : std::uint8_t {
  kPending,
  kRunning,
  kSucceeded,
  kFailed,
  kStopped,
  kStarting,  // Has its place; its sandbox is being made.
  kStopping,
  kPaused,
  kHeld,  // The platform failed it too often; it waits until somebody releases or stops it.
};
BOOST_DESCRIBE_ENUM(
    JobState, kPending, kRunning, kSucceeded, kFailed, kStopped, kStarting, kStopping, kPaused, kHeld)

enum class Admission : std::uint8_t { kWithinQuota, kOnDemand };
BOOST_DESCRIBE_ENUM(Admission, kWithinQuota, kOnDemand)

constexpr bool is_over(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kStopped;
}

}  // namespace tranche::wire
