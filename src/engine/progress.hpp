// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far jobs are, in the units of their work.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/progress.hpp"

namespace tranche::engine {

using wire::UnitRange;
using wire::UnitSet;
using wire::WorkUnit;

// Two points in the past give the rate: the older one is left behind when it is too old to tell of now.
struct ProgressPoint {
  Instant at{};
  std::int64_t done = 0;
};
BOOST_DESCRIBE_STRUCT(ProgressPoint, (), (at, done))

struct JobProgress {
  JobId job{};
  LeaseId lease{};  // A new one counts its rate anew.
  WorkUnit unit = WorkUnit::kNone;
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::string metrics{};
  ProgressPoint from{};
  ProgressPoint next{};
  Instant at{};
  std::int64_t best =
      0;  // The furthest it ever was: what is done again after a preemption is not charged again.

  // Thousandths of a unit a second; zero: not known yet.
  [[nodiscard]] std::int64_t rate_milli() const;
};
BOOST_DESCRIBE_STRUCT(JobProgress, (), (job, lease, unit, done, total, metrics, from, next, at, best))

// How long `left` units take at this rate; nothing when nobody can say.
[[nodiscard]] std::optional<Duration> time_for(std::int64_t left, std::int64_t rate_milli);
[[nodiscard]] std::int64_t rate_milli_of(std::int64_t done, Duration took);

struct NoteProgress {
  NodeId node{};
  std::uint64_t sequence = 0;
  wire::ProgressReport report{};
};
struct ProgressNoted {
  NodeId node{};
  std::uint64_t sequence = 0;
  wire::ProgressReport report{};
  JobId job{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(ProgressNoted, (), (node, sequence, report, job, owner))

}  // namespace tranche::engine
