// SPDX-License-Identifier: Apache-2.0
#include "api/views.hpp"

namespace tranche::api {
namespace {

std::string reason_of(const engine::Job& job) {
  switch (job.state) {
    case wire::JobState::kPending:
      return "no capacity connected";
    case wire::JobState::kStopped:
      return "stopped by request";
    case wire::JobState::kRunning:
    case wire::JobState::kSucceeded:
    case wire::JobState::kFailed:
      break;
  }
  return {};
}

}  // namespace

wire::PartyView view_of(const engine::State& state, const engine::Party& party) {
  return {.id = party.id,
          .kind = party.id.kind(),
          .name = party.name,
          .path = engine::path_of(state, party.id),
          .parent = party.parent,
          .time_zone = party.time_zone,
          .disabled = party.disabled,
          .created = party.created,
          .version = party.version};
}

wire::TokenView view_of(const engine::State& state, const engine::Token& token) {
  return {.id = token.id,
          .party = token.party,
          .path = engine::path_of(state, token.party),
          .label = token.label,
          .scope = token.scope,
          .created = token.created,
          .expires = token.expires == Instant{} ? std::nullopt : std::optional(token.expires),
          .revoked = token.revoked};
}

wire::JobView view_of(const engine::Job& job, std::string owner_path) {
  return {.id = job.id,
          .name = job.name,
          .owner = std::move(owner_path),
          .state = job.state,
          .reason = reason_of(job),
          .kind = job.ask.kind,
          .gpus = job.ask.gpus,
          .priority = job.ask.priority,
          .admission = job.admission,
          .submitted = job.submitted,
          .ended = job.ended == Instant{} ? std::nullopt : std::optional(job.ended)};
}

wire::QuotaView quota_view(const engine::State& state, const engine::Party& party) {
  return {.party = party.id,
          .path = engine::path_of(state, party.id),
          .quota = party.quota,
          .usage = party.usage,
          .version = party.version};
}

wire::RulesView rules_view(const engine::State& state, const engine::Party& party) {
  return {.party = party.id,
          .path = engine::path_of(state, party.id),
          .rules = party.rules.rules,
          .version = party.version};
}

}  // namespace tranche::api
