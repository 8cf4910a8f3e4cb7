// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is said to whom a limit or a rule stands in the way of: the limit, its use, and what would fit.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/state.hpp"
#include "wire/ask.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

// Of what is held at once, or used in a period.
[[nodiscard]] Refusal over_limit(std::string_view rule,
                                 const std::string& where,
                                 std::int64_t limit,
                                 std::int64_t used,
                                 std::int64_t asked);

// Of what one job may have.
[[nodiscard]] Refusal over_job_limit(std::string_view rule,
                                     const std::string& where,
                                     std::int64_t limit,
                                     std::int64_t asked);

// Whether a rule that binds the job stands in its way; `time` is the time limit in force.
[[nodiscard]] std::optional<Refusal> rule_refusal(
    const State&, const Party&, const wire::Rule&, const wire::Ask&, Duration time);

[[nodiscard]] bool allows(const std::vector<wire::Isolation>& classes, wire::Isolation wanted);

// Whole seconds, no fewer than asked for.
[[nodiscard]] std::int64_t whole_seconds(Duration);

}  // namespace tranche::engine
