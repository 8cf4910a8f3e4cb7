// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include <concepts>

#include "base/check.hpp"
#include "engine/decide.hpp"

namespace tranche::engine {
namespace {

Refusal bad_token() {
  return {.reason = Reason::kForbidden,
          .rule = "token",
          .message = "the token has run out or was revoked",
          .fix = "log in again: tranche login"};
}

template <class T>
concept NeedsNoActor =
    std::same_as<T, Found> || std::same_as<T, OpenSession> || std::same_as<T, NoteDenial> ||
    std::same_as<T, Tick> || std::same_as<T, JoinNode> || std::same_as<T, ReportNode> ||
    std::same_as<T, LoseNode> || std::same_as<T, ReportLease> || std::same_as<T, ReportMeters> ||
    std::same_as<T, KeepReceipts> || std::same_as<T, NoteHealth> || std::same_as<T, Schedule> ||
    std::same_as<T, OpenMeter> || std::same_as<T, RecordUsage> || std::same_as<T, CloseMeter> ||
    std::same_as<T, KeepVolumeReceipt> || std::same_as<T, NoteProgress> || std::same_as<T, AddReplica> ||
    std::same_as<T, RetireReplica> || std::same_as<T, CountRequests> || std::same_as<T, PlanRecurring> ||
    std::same_as<T, ResolveZone> || std::same_as<T, NoteForecast>;

PartyId party_of(const Command& command) {
  return std::visit(
      [](const auto& value) -> PartyId {
        if constexpr (requires { value.party; }) return value.party;
        if constexpr (requires { value.parent; }) return value.parent;
        if constexpr (requires { value.at; }) return value.at;
        if constexpr (requires { value.owner; }) return value.owner;
        return {};
      },
      command);
}

}  // namespace

Decision decide(const State& state, const Envelope& envelope, const Command& command) {
  return std::visit(
      [&](const auto& value) -> Decision {
        if constexpr (NeedsNoActor<std::decay_t<decltype(value)>>) {
          return decide(state, envelope, value);
        } else {
          const auto actor = actor_of(state, envelope);
          if (!actor) return refuse(bad_token());
          return decide(state, envelope, *actor, value);
        }
      },
      command);
}

void apply(State& state, const Envelope& envelope, const Event& event) {
  std::visit([&](const auto& value) { apply(state, envelope, value); }, event);
}

void apply_record(State& state, std::uint64_t sequence, const Envelope& envelope, const Events& events) {
  TRANCHE_CHECK(sequence == state.sequence + 1);
  TRANCHE_CHECK(envelope.at >= state.now);
  state.sequence = sequence;
  state.now = envelope.at;
  for (const Event& event : events) apply(state, envelope, event);
  if (envelope.idempotency != RequestKey{}) {
    state.remembered.emplace(envelope.idempotency, Remembered{sequence, envelope.body_hash, envelope.at});
  }
}

Denied denial(const Envelope& envelope, const Command& command, const Refusal& refusal) {
  const PartyId about = party_of(command);
  return {.action = std::string(command_name(command)),
          .about = about == PartyId{} ? envelope.actor : about,
          .refusal = refusal};
}

const Remembered* remembered(const State& state, const Envelope& envelope) {
  if (envelope.idempotency == RequestKey{}) return nullptr;
  const auto found = state.remembered.find(envelope.idempotency);
  return found == state.remembered.end() ? nullptr : &found->second;
}

}  // namespace tranche::engine
