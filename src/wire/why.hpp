// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a job waits: one main reason, who is ahead, when it will start, what would start it sooner, and what is
// not the cause. CLI, API and console show this very structure.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/refusal.hpp"

namespace tranche::wire {

enum class WaitReason : std::uint8_t {
  kNotWaiting,
  kNoCapacityConnected,
  kNoSuchDevice,  // Nothing connected could ever run it.
  kCapacity,      // Everything that fits is taken.
  kQuota,
  kBudget,
  kPolicy,
  kWindow,
  kDependency,
  kBooking,
  kHealth,
  kTopology,
  kPriority,
  kPreempted,
  kBackoff,  // Between two attempts.
  kPaused,   // By request.
};
BOOST_DESCRIBE_ENUM(WaitReason,
                    kNotWaiting,
                    kNoCapacityConnected,
                    kNoSuchDevice,
                    kCapacity,
                    kQuota,
                    kBudget,
                    kPolicy,
                    kWindow,
                    kDependency,
                    kBooking,
                    kHealth,
                    kTopology,
                    kPriority,
                    kPreempted,
                    kBackoff,
                    kPaused)

struct WhyAhead {
  JobId job{};
  std::string name{};  // As far as the reader may see it; empty: somebody else's.
  std::string party{};
  std::int64_t gpu_milli = 0;
  bool operator==(const WhyAhead&) const = default;
};
BOOST_DESCRIBE_STRUCT(WhyAhead, (), (job, name, party, gpu_milli))

struct WhyStarts {
  Instant p50{};
  Instant p90{};
  std::optional<Duration> error_median{};  // Of the last predictions for jobs like it.
  std::uint32_t predictions = 0;           // How many of them.
  bool operator==(const WhyStarts&) const = default;
};
BOOST_DESCRIBE_STRUCT(WhyStarts, (), (p50, p90, error_median, predictions))

struct WhySooner {
  std::string change{};  // "--gpus 10GB instead of 24GB", as one would type it.
  Duration starts_in{};
  std::optional<Money> extra_cost{};
  bool operator==(const WhySooner&) const = default;
};
BOOST_DESCRIBE_STRUCT(WhySooner, (), (change, starts_in, extra_cost))

struct Why {
  JobId job{};
  std::string state{};
  WaitReason reason = WaitReason::kNotWaiting;
  std::string message{};  // The reason as a sentence with its numbers.
  Instant since{};
  std::vector<WhyAhead> ahead{};
  std::uint32_t ahead_count = 0;  // All of them; `ahead` lists the first few.
  std::optional<WhyStarts> starts{};
  std::vector<WhySooner> sooner{};
  std::vector<WaitReason> not_the_cause{};
  std::optional<Refusal> refusal{};  // The rule that keeps it waiting, where there is one.
  bool operator==(const Why&) const = default;
};
BOOST_DESCRIBE_STRUCT(
    Why, (), (job, state, reason, message, since, ahead, ahead_count, starts, sooner, not_the_cause, refusal))

}  // namespace tranche::wire
