// SPDX-License-Identifier: Apache-2.0
#pragma once
// The engine: decide() answers a command with events or one refusal; apply() folds an event into the state.
//
// decide() reads the state and the envelope and nothing else. apply() cannot fail and never decides: an event
// that breaks a newer rule is still a fact. Replay is apply() alone.
#include "base/envelope.hpp"
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

[[nodiscard]] Decision decide(const State&, const Envelope&, const Command&);
void apply(State&, const Envelope&, const Event&);

// Closes a record: its sequence and time become the state's, and its idempotency key is remembered.
void apply_record(State&, std::uint64_t sequence, const Envelope&, const Events&);

// The event that stands in the journal for a refusal.
[[nodiscard]] Denied denial(const Envelope&, const Command&, const Refusal&);

// What an idempotency key led to, when the envelope's key was seen before.
[[nodiscard]] const Remembered* remembered(const State&, const Envelope&);

}  // namespace tranche::engine
