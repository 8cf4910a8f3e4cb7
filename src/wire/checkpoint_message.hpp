// SPDX-License-Identifier: Apache-2.0
#pragma once
// What agents and server tell each other about what jobs saved on their nodes.
#include <boost/describe.hpp>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace tranche::wire {

struct CheckpointSource {
  LeaseId lease{};       // Under which it was saved.
  bool is_here = false;  // On the node that the grant is for.
  std::string node{};    // For people.
  bool operator==(const CheckpointSource&) const = default;
};
BOOST_DESCRIBE_STRUCT(CheckpointSource, (), (lease, is_here, node))

struct CheckpointWish {  // Another node goes on with the job: send what was saved here to the server.
  JobId job{};
  LeaseId lease{};
  bool operator==(const CheckpointWish&) const = default;
};
BOOST_DESCRIBE_STRUCT(CheckpointWish, (), (job, lease))

// Only the server knows whether a job goes on, here or elsewhere: the node asks about the jobs whose
// checkpoints it keeps while no lease of theirs is here, and lets go of what the answer names.
struct SavedJobs {
  std::vector<JobId> jobs{};
  bool operator==(const SavedJobs&) const = default;
};
BOOST_DESCRIBE_STRUCT(SavedJobs, (), (jobs))
inline constexpr std::size_t kSavedJobsAsked = 4096;  // At once, at most.

struct SavedInVain {
  std::vector<JobId> jobs{};
  bool operator==(const SavedInVain&) const = default;
};
BOOST_DESCRIBE_STRUCT(SavedInVain, (), (jobs))

}  // namespace tranche::wire
