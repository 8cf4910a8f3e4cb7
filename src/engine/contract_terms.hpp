// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the ends of a contract share: what is due by an instant, and what takes its place.
#include "engine/access.hpp"
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

[[nodiscard]] bool is_over(ContractState);
[[nodiscard]] std::int64_t share(Money value, Duration part, Duration whole);
// Who may speak for the capacity behind a contract, and whether it exists for him.
[[nodiscard]] std::optional<Refusal> delivery_problem(const State&, const Actor&, const Contract*);
[[nodiscard]] Duration lost_by(const Contract&, Instant at);  // Not delivered so far.
// What is due now. With `closing`, everything after `now` counts as not delivered, and the contract is over.
[[nodiscard]] ContractSettled settle(const State&, const Contract&, Instant now, bool closing);
// Another contract for the time from `at` on, paid from what is given back and what the buyer has; nothing
// when there is none, or it is not covered. `end` is what becomes of the first.
[[nodiscard]] Events bought_instead(const State&, const Contract&, Instant at, Money back, Events end);
// The end of a contract and another in its place; nothing when there is none.
[[nodiscard]] Events substitute(const State&, const Contract&, Instant at);
void note_refund(State&, const Contract&, Money refunded, Instant at);

}  // namespace tranche::engine
