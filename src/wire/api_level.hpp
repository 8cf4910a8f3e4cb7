// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API takes and says about service levels.
#include <array>
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"
#include "wire/workload.hpp"

namespace tranche::wire {

struct LevelSpec {
  std::string name{};
  std::string party{};
  std::vector<WorkloadKind> kinds{};
  std::optional<Duration> start_within{};
  bool keep_deadlines = false;
  std::uint32_t target_permille = 990;
  std::uint32_t credit_percent = 0;
  std::uint32_t delivered_permille = 0;
  bool keep_objectives = false;
  std::uint32_t guarantee_permille = 0;
};
BOOST_DESCRIBE_STRUCT(LevelSpec,
                      (),
                      (name,
                       party,
                       kinds,
                       start_within,
                       keep_deadlines,
                       target_permille,
                       credit_percent,
                       delivered_permille,
                       keep_objectives,
                       guarantee_permille))
template <>
struct Fields<LevelSpec> {
  static constexpr std::array<std::string_view, 2> kRequired{"name", "party"};
  static constexpr std::array kDocs{
      FieldDoc{"party", "to whom it is promised, and everyone below"},
      FieldDoc{"kinds", "workloads it holds for; empty: all"},
      FieldDoc{"start_within", "of the submission"},
      FieldDoc{"keep_deadlines", "jobs with a deadline end by it"},
      FieldDoc{"target_permille", "so many of a thousand jobs keep it"},
      FieldDoc{"credit_percent", "of what a job cost, given back when it was not kept for it"},
      FieldDoc{"delivered_permille", "of what is booked, so much is really there; zero: not promised"},
      FieldDoc{"keep_objectives", "services answer within their latency objectives"},
      FieldDoc{
          "guarantee_permille",
          "of its guarantee, as far as it asks for it, so much is delivered each day; zero: not promised"}};
};

struct LevelMissView {
  JobId job{};
  Instant at{};
  Duration late{};
  std::string what{};  // start, deadline, delivery, objective, guarantee
  std::optional<ClaimId> booking{};
  std::optional<std::uint32_t> delivered_permille{};  // Of that booking's window, or on that day.
  std::string service{};
  std::optional<std::uint32_t> in_time_permille{};  // Of that service's requests in the hour before.
  std::optional<Instant> day{};
};
BOOST_DESCRIBE_STRUCT(LevelMissView,
                      (),
                      (job, at, late, what, booking, delivered_permille, service, in_time_permille, day))

struct LevelRiskView {
  JobId job{};
  Duration left{};  // Until it is broken; negative: it is.
  std::optional<ClaimId> booking{};
  std::string service{};                            // Whose running hour is below the target; it ends then.
  std::optional<std::int64_t> missing_gpu_milli{};  // Of the guarantee.
  std::string message{};
};
BOOST_DESCRIBE_STRUCT(LevelRiskView, (), (job, left, booking, service, missing_gpu_milli, message))

struct LevelMonthView {
  Instant month{};  // Its beginning.
  std::uint64_t kept = 0;
  std::uint64_t missed = 0;
  std::optional<std::uint32_t> attained_permille{};
  Money credited{};
  std::optional<std::uint32_t> was_delivered_permille{};
  std::optional<std::uint32_t> was_guaranteed_permille{};
};
BOOST_DESCRIBE_STRUCT(
    LevelMonthView,
    (),
    (month, kept, missed, attained_permille, credited, was_delivered_permille, was_guaranteed_permille))

struct LevelView {
  std::string name{};
  std::string party{};  // Path.
  std::vector<WorkloadKind> kinds{};
  std::optional<Duration> start_within{};
  bool keep_deadlines = false;
  std::uint32_t target_permille = 0;
  std::uint32_t credit_percent = 0;
  std::uint64_t kept = 0;  // This month.
  std::uint64_t missed = 0;
  std::optional<std::uint32_t> attained_permille{};  // Absent: nothing was judged yet.
  Money credited{};
  std::vector<LevelMissView> misses{};
  std::vector<LevelRiskView> at_risk{};
  std::uint32_t delivered_permille = 0;                   // Promised; zero: it is not.
  std::optional<std::uint32_t> was_delivered_permille{};  // Over all windows of this month.
  bool keep_objectives = false;
  std::uint32_t guarantee_permille = 0;                    // Promised; zero: it is not.
  std::optional<std::uint32_t> was_guaranteed_permille{};  // Over the days of this month, today included.
  std::optional<LevelMonthView> before{};                  // The last month before this one that counted.
};
BOOST_DESCRIBE_STRUCT(LevelView,
                      (),
                      (name,
                       party,
                       kinds,
                       start_within,
                       keep_deadlines,
                       target_permille,
                       credit_percent,
                       kept,
                       missed,
                       attained_permille,
                       credited,
                       misses,
                       at_risk,
                       delivered_permille,
                       was_delivered_permille,
                       keep_objectives,
                       guarantee_permille,
                       was_guaranteed_permille,
                       before))

struct LevelList {
  std::vector<LevelView> items{};
};
BOOST_DESCRIBE_STRUCT(LevelList, (), (items))

}  // namespace tranche::wire
