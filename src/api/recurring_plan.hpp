// SPDX-License-Identifier: Apache-2.0
#pragma once
// The times of jobs that run again and again: the first of them, and those that follow as they are used up.
#include <optional>

#include "api/recurrence.hpp"
#include "engine/recurring.hpp"
#include "wire/codec.hpp"
#include "wire/recurring.hpp"

namespace tranche::server {
class Loop;
}

namespace tranche::api {

struct FirstTimes {
  std::vector<Instant> times{};
  std::string rule{};  // By which more follow; empty: these are all.
  std::int64_t planned_to = 0;
};
[[nodiscard]] Result<FirstTimes, wire::Problem> first_times(const wire::RecurringSpec&,
                                                            const std::string& zone,
                                                            Instant now);

// What is to be planned for a job that has few times left; nothing while it has enough, or none can follow.
[[nodiscard]] std::optional<engine::PlanRecurring> times_to_follow(const engine::RecurringJob&, Instant now);

// For every job that needs it, on the loop's own thread.
void plan_recurring(server::Loop& loop);

}  // namespace tranche::api
