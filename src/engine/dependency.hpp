// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs that wait for others. A job can only name jobs that exist already, so nobody waits for himself.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace tranche::engine {

struct After {
  JobId job{};
  bool any = false;  // However it ends; else only when it ends well.
};
BOOST_DESCRIBE_STRUCT(After, (), (job, any))

struct Dependencies {  // Of a job that waits.
  JobId job{};
  PartyId owner{};
  std::vector<After> after{};  // Not fulfilled yet.
};
BOOST_DESCRIBE_STRUCT(Dependencies, (), (job, owner, after))

struct JobWaits {
  JobId id{};
  PartyId owner{};
  std::vector<After> after{};
};
BOOST_DESCRIBE_STRUCT(JobWaits, (), (id, owner, after))

struct JobReleased {  // All that it waited for has ended as it should.
  JobId id{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(JobReleased, (), (id, owner))

}  // namespace tranche::engine
