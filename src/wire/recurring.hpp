// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API takes and says about jobs that run again and again.
#include <array>
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"
#include "wire/job_spec.hpp"

namespace tranche::wire {

struct RecurringSpec {
  std::string name{};
  std::string every{};
  std::string zone{};
  std::uint32_t times = 0;
  std::string until{};
  JobSpec job{};
};
BOOST_DESCRIBE_STRUCT(RecurringSpec, (), (name, every, zone, times, until, job))
template <>
struct Fields<RecurringSpec> {
  static constexpr std::array<std::string_view, 3> kRequired{"name", "every", "job"};
  static constexpr std::array kDocs{
      FieldDoc{"every", "days and a time of day: weekdays 22:00, day 03:30, mon,thu 06:00, month 00:15"},
      FieldDoc{"zone", "IANA name of the zone that the time is read in; empty: that of the owner, else UTC"},
      FieldDoc{"times", "how often in all, at most 1000; 0: until the date, else for ever"},
      FieldDoc{"until", "last date, such as 2026-12-31"}};
};

struct RecurringView {
  std::string name{};
  std::string owner{};  // Path.
  std::string every{};
  std::string zone{};
  std::optional<Instant> next{};
  std::optional<Instant> planned_to{};  // The last time worked out so far.
  bool goes_on = false;                 // More times follow those.
  std::uint64_t runs = 0;
  std::uint64_t passed_over = 0;
  std::optional<JobId> last{};
  std::string problem{};  // Why the last one did not run.
};
BOOST_DESCRIBE_STRUCT(RecurringView,
                      (),
                      (name, owner, every, zone, next, planned_to, goes_on, runs, passed_over, last, problem))

struct RecurringList {
  std::vector<RecurringView> items{};
};
BOOST_DESCRIBE_STRUCT(RecurringList, (), (items))

}  // namespace tranche::wire
