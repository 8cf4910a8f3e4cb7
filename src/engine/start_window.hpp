// SPDX-License-Identifier: Apache-2.0
#pragma once
// When a job may start: inside the hours it names, and with --cheapest when the price list is lowest.
#include <optional>
#include <string>

#include "engine/job.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

struct State;
using wire::StartWindow;

struct OpenSpan {
  Instant from{};
  Instant to{};
};
// The span that `at` lies in, cut to begin there; outside: the next one. Clocks that change do not move its
// local hours: an hour that is skipped opens when the clocks have passed it, one shown twice counts once.
[[nodiscard]] OpenSpan open_span(const StartWindow&, Instant at);
[[nodiscard]] bool is_open(const StartWindow&, Instant at);

// The start that its wishes lead to: nothing where it may start as soon as there is room, or why they cannot
// all be kept and what could be. The ask has the time limit in force.
[[nodiscard]] Result<std::optional<Instant>, wire::Refusal> planned_start(
    const State&, PartyId owner, const Ask&, Admission, Instant now);

// Why it waits for its time, as a sentence; nothing when it does not.
[[nodiscard]] std::optional<std::string> waits_for_its_time(const State&, const Job&);

}  // namespace tranche::engine
