// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole platform in a few lines: the engine with a clock that the caller turns. For tests and benchmarks.
#include <map>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "engine/engine.hpp"

namespace tranche::engine {

struct World {
  State state{};
  Instant clock{std::chrono::hours(24 * 365 * 50)};
  std::map<PartyId, TokenId> tokens{};
  PartyId root{};  // The operator.

  World() {
    TokenHash hash{};
    hash[0] = 1;
    TRANCHE_CHECK(run(Found{.operator_name = "root", .token_hash = hash}).has_value());
    root = state.child(kPlatform, "root");
    tokens[root] = {1};
  }

  Envelope envelope(PartyId actor) const {
    const auto token = tokens.find(actor);
    return {.at = clock,
            .seed = state.sequence,
            .actor = actor,
            .token = token == tokens.end() ? TokenId{} : token->second};
  }

  // Decides, and folds in what was decided; a refusal leaves the state as it was.
  Decision run(const Command& command, PartyId actor = {}) { return run(envelope(actor), command); }
  Decision run(const Envelope& stamped, const Command& command) {
    Decision decision = decide(state, stamped, command);
    if (decision) apply_record(state, state.sequence + 1, stamped, *decision);
    return decision;
  }

  PartyId create(PartyKind kind, PartyId parent, const std::string& name, std::vector<Role> roles = {}) {
    const auto made =
        run(CreateParty{.kind = kind, .parent = parent, .name = name, .roles = std::move(roles)}, root);
    TRANCHE_CHECK(made.has_value());
    return state.child(parent, name);
  }

  // A user with a token, so that it can act.
  PartyId user(PartyId parent, const std::string& name, std::vector<Role> roles = {Role::kMember}) {
    const PartyId id = create(PartyKind::kUser, parent, name, std::move(roles));
    TokenHash hash{};
    for (std::size_t i = 0; i < sizeof id.value; ++i)
      hash[i] = static_cast<std::uint8_t>(id.value >> (8 * i));
    hash[31] = 7;
    const TokenId token{state.next_token};
    TRANCHE_CHECK(run(IssueToken{.party = id, .hash = hash}, root).has_value());
    tokens[id] = token;
    return id;
  }

  Decision limit(PartyId party, Quota quota) {
    return run(SetQuota{.party = party, .quota = std::move(quota)}, root);
  }
};

inline Ask gpus(std::uint32_t instances, std::uint32_t milli = 1000) {
  return {.instances = instances, .milli_each = milli, .vram_each = 1'000'000'000};
}

inline QuotaShare at_most(std::int64_t limit) {
  return {.guaranteed = {}, .limit = limit};
}

}  // namespace tranche::engine
