// SPDX-License-Identifier: Apache-2.0
#include "engine/access.hpp"

#include <algorithm>
#include <array>

namespace tranche::engine {
namespace {

constexpr std::uint32_t bit(Action action) {
  return 1U << static_cast<unsigned>(action);
}

template <class... Actions>
constexpr std::uint32_t set(Actions... actions) {
  return (bit(actions) | ...);
}

constexpr std::uint32_t kAdminSet = set(Action::kViewParty,
                                        Action::kViewJob,
                                        Action::kViewAudit,
                                        Action::kViewBilling,
                                        Action::kSubmitJob,
                                        Action::kStopJob,
                                        Action::kManageParty,
                                        Action::kGrantRole,
                                        Action::kSetQuota,
                                        Action::kSetRules,
                                        Action::kIssueToken,
                                        Action::kManageCapacity,
                                        Action::kCorrectInvoices);

constexpr std::uint32_t actions_of(Role role) {
  switch (role) {
    case Role::kPlatformOwner:
      return ~0U;
    case Role::kTenantAdmin:
    case Role::kSubscriberAdmin:
      return kAdminSet;
    case Role::kMember:
      return set(Action::kSubmitJob);
    case Role::kViewer:
      return set(Action::kViewParty, Action::kViewJob);
    case Role::kAuditor:
      return set(Action::kViewParty, Action::kViewJob, Action::kViewAudit);
    case Role::kBilling:
      return set(Action::kViewParty, Action::kViewBilling, Action::kCorrectInvoices);
    case Role::kCapacityOwner:
      return set(Action::kViewParty, Action::kManageCapacity);
  }
  return 0;
}

constexpr bool scope_allows(Scope scope, Action action) {
  switch (action) {
    case Action::kViewParty:
    case Action::kViewJob:
    case Action::kViewAudit:
    case Action::kViewBilling:
      return true;
    case Action::kSubmitJob:
    case Action::kStopJob:
      return scope >= Scope::kJobs;
    case Action::kManageParty:
    case Action::kGrantRole:
    case Action::kSetQuota:
    case Action::kSetRules:
    case Action::kIssueToken:
    case Action::kManageCapacity:
    case Action::kManagePlatform:
    case Action::kCorrectInvoices:
      return scope >= Scope::kAdmin;
  }
  return false;
}

// What everyone may do with himself, whatever his roles.
constexpr bool own_right(Action action) {
  return action == Action::kViewParty || action == Action::kViewJob || action == Action::kStopJob ||
         action == Action::kIssueToken;
}

bool holds_role_for(const Party& at, PartyId holder, Action action) {
  for (const Grant& grant : at.grants) {
    if (grant.holder == holder && role_allows(grant.role, action)) return true;
  }
  return false;
}

// The one that allows the least beside it.
Role least_role_for(Action action) {
  constexpr std::array kLeastFirst{
      Role::kMember, Role::kViewer, Role::kAuditor, Role::kCapacityOwner, Role::kBilling, Role::kTenantAdmin};
  const auto found = std::find_if(
      kLeastFirst.begin(), kLeastFirst.end(), [&](Role role) { return role_allows(role, action); });
  return found == kLeastFirst.end() ? Role::kPlatformOwner : *found;
}

}  // namespace

bool role_allows(Role role, Action action) {
  return (actions_of(role) & bit(action)) != 0;
}

std::optional<Actor> actor_of(const State& state, const Envelope& envelope) {
  const Token* token = state.token(envelope.token);
  if (token == nullptr || token->revoked || token->party != envelope.actor) return std::nullopt;
  if (token->expires != Instant{} && token->expires <= envelope.at) return std::nullopt;
  for (const Party* at = state.party(token->party); at != nullptr; at = state.party(at->parent)) {
    if (at->disabled) return std::nullopt;
  }
  return Actor{.party = token->party, .scope = token->scope};
}

bool may(const State& state, const Actor& actor, Action action, PartyId where) {
  if (!scope_allows(actor.scope, action)) return false;
  if (where == actor.party && own_right(action)) return true;
  for (const Party* at = state.party(where); at != nullptr; at = state.party(at->parent)) {
    if (holds_role_for(*at, actor.party, action)) return true;
  }
  return false;
}

bool can_see(const State& state, const Actor& actor, PartyId id) {
  return is_at_or_below(state, actor.party, id) || may(state, actor, Action::kViewParty, id);
}

bool can_see(const State& state, const Actor& actor, const Job& job) {
  return may(state, actor, Action::kViewJob, job.owner);
}

// Whoever may use a booking sees it; maintenance concerns everyone who sees the node.
bool can_see(const State& state, const Actor& actor, const Booking& booking) {
  if (booking.kind == ClaimKind::kMaintenance) return can_see(state, actor, booking.owner);
  return is_at_or_below(state, actor.party, booking.owner) ||
         may(state, actor, Action::kViewJob, booking.owner);
}

Refusal not_found() {
  return {.reason = Reason::kNotFound,
          .rule = "not_found",
          .message = "there is no such object, or you may not see it",
          .fix = "check the id; `tranche whoami` shows what you can see"};
}

std::optional<Refusal> job_change_problem(const State& state,
                                          const Actor& actor,
                                          const Job* job,
                                          const std::string& verb) {
  if (job == nullptr || !can_see(state, actor, *job)) return not_found();
  if (may(state, actor, Action::kStopJob, job->owner)) return std::nullopt;
  return Refusal{.reason = Reason::kForbidden,
                 .rule = "role",
                 .where = path_of(state, job->owner),
                 .message = "you may see this job, but not " + verb + " it",
                 .fix = "ask its owner or an administrator"};
}

std::optional<Refusal> check_access(const State& state, const Actor& actor, Action action, PartyId at) {
  if (may(state, actor, action, at)) return std::nullopt;
  if (state.party(at) == nullptr || !can_see(state, actor, at)) return not_found();
  return Refusal{.reason = Reason::kForbidden,
                 .rule = "role",
                 .where = path_of(state, at),
                 .message = "no role of yours allows this here",
                 .fix = "ask an administrator of " + path_of(state, at) + " for the role " +
                        std::string(wire::name_of(least_role_for(action))) + ", or use another token"};
}

}  // namespace tranche::engine
