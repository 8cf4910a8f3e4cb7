// SPDX-License-Identifier: Apache-2.0
#include "engine/token.hpp"

#include <algorithm>

#include "engine/decide.hpp"

namespace tranche::engine {

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const IssueToken& command) {
  if (command.party.kind() != PartyKind::kUser && command.party.kind() != PartyKind::kService)
    return refuse(not_found());
  if (auto refusal = check_access(state, actor, Action::kIssueToken, command.party)) return refuse(*refusal);
  if (command.scope > actor.scope) {
    return refuse(Refusal{.reason = Reason::kForbidden,
                          .rule = "scope",
                          .message = "a token cannot issue one with a wider scope than its own",
                          .fix = "ask for a narrower scope, or use a wider token"});
  }
  // An administrator acts for those below him, but never gains through them what he does not have himself.
  if (command.party != actor.party) {
    for (const Party* at = state.party(command.party); at != nullptr; at = state.party(at->parent)) {
      for (const Grant& grant : at->grants) {
        for (std::size_t i = 0; grant.holder == command.party && i < kActions; ++i) {
          const auto action = static_cast<Action>(i);
          if (!role_allows(grant.role, action) || may(state, actor, action, at->id)) continue;
          return refuse(Refusal{.reason = Reason::kForbidden,
                                .rule = "role",
                                .where = path_of(state, at->id),
                                .message = path_of(state, command.party) + " may do more than you there",
                                .fix = "let the owner issue the token, or ask somebody above"});
        }
      }
    }
  }
  if (command.expires != Instant{} && command.expires <= envelope.at) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "expires",
                          .message = "the token would have run out already",
                          .fix = "give an instant in the future"});
  }
  return Events{TokenIssued{
      {state.next_token}, command.party, command.label, command.scope, command.hash, command.expires}};
}

Decision decide(const State& state, const Envelope&, const OpenSession& command) {
  for (const Party* at = state.party(command.user); at != nullptr; at = state.party(at->parent)) {
    if (at->disabled) return refuse(not_found());
    if (at->id == kPlatform) {
      return Events{TokenIssued{
          {state.next_token}, command.user, "session", Scope::kAdmin, command.hash, command.expires}};
    }
  }
  return refuse(not_found());
}

void apply(State& state, const Envelope& envelope, const TokenIssued& event) {
  state.tokens.emplace(event.id,
                       Token{.id = event.id,
                             .party = event.party,
                             .label = event.label,
                             .scope = event.scope,
                             .hash = event.hash,
                             .created = envelope.at,
                             .expires = event.expires});
  state.index.by_hash.emplace(event.hash, event.id);
  state.next_token = std::max(state.next_token, event.id.value + 1);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const RevokeToken& command) {
  const Token* token = state.token(command.id);
  if (token == nullptr || !may(state, actor, Action::kIssueToken, token->party)) return refuse(not_found());
  if (token->revoked) return Events{};
  return Events{TokenRevoked{command.id, token->party}};
}

void apply(State& state, const Envelope&, const TokenRevoked& event) {
  Token& token = state.tokens.at(event.id);
  token.revoked = true;
  state.index.by_hash.erase(token.hash);
}

}  // namespace tranche::engine
