// SPDX-License-Identifier: Apache-2.0
#pragma once
// Quotas in units: how many frames, steps, requests or tokens a party and all below it may do in a period.
//
// What a job says beforehand (the frames of a render) is promised to it when it is admitted, so it never runs
// into the limit; what it only tells as it goes (steps, requests, tokens) ends it when the limit is reached.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/event.hpp"
#include "engine/state.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

struct UnitLimit {
  PartyId party{};
  std::string unit{};
  std::int64_t limit = 0;
  std::int64_t done = 0;
  std::int64_t promised = 0;
  Instant until{};
  [[nodiscard]] std::int64_t left() const { return limit - done - promised; }
};

// Of the party itself.
[[nodiscard]] std::vector<UnitLimit> unit_limits_of(const State&, const Party&, Instant at);
// Of the party and everybody above it, the nearest first.
[[nodiscard]] std::vector<UnitLimit> unit_limits(const State&, PartyId, Instant at);
[[nodiscard]] std::int64_t promised_units(const State&, PartyId, std::string_view name);

// The first limit that the job would break; one that does not say how many it will do needs one that is left.
[[nodiscard]] std::optional<Refusal> unit_quota_problem(const State&,
                                                        PartyId owner,
                                                        const SubmitJob&,
                                                        Instant at);
[[nodiscard]] std::string used_up_text(const State&, const UnitLimit&);
// The job has done so many more: its leases end when that was the last one allowed.
void append_unit_stops(
    const State&, const Job&, std::string_view unit, std::int64_t more, Instant at, Events&);

}  // namespace tranche::engine
