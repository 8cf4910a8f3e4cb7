// SPDX-License-Identifier: Apache-2.0
#include "engine/party.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "engine/decide.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kNameMax = 63;
constexpr int kDepthMax = 12;  // Admission walks the tree for every job.

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > kNameMax || name == "platform") return false;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (!plain(name.front())) return false;
  return std::all_of(
      name.begin(), name.end(), [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

std::optional<Refusal> name_problem(const State& state, PartyId parent, std::string_view name) {
  if (!is_name(name)) {
    return invalid("name",
                   "'" + std::string(name) + "' is no name for a party",
                   "use 1 to 63 of a-z 0-9 - _ . and begin with a letter or digit");
  }
  if (parse_party_id(name)) return invalid("name", "a name must not look like an id", "choose another name");
  if (state.child(parent, name) != PartyId{}) {
    return Refusal{.reason = Reason::kConflict,
                   .rule = "name",
                   .where = path_of(state, parent),
                   .message = "'" + std::string(name) + "' exists there already",
                   .fix = "choose another name, or use the one that exists"};
  }
  return std::nullopt;
}

bool may_hang_below(PartyKind kind, PartyKind parent) {
  switch (kind) {
    case PartyKind::kPlatform:
      return false;
    case PartyKind::kTenant:
      return parent == PartyKind::kPlatform;
    case PartyKind::kSubscriber:
      return parent == PartyKind::kTenant || parent == PartyKind::kSubscriber;
    case PartyKind::kUser:
    case PartyKind::kService:
      return parent == PartyKind::kPlatform || parent == PartyKind::kTenant ||
             parent == PartyKind::kSubscriber;
  }
  return false;
}

int depth_of(const State& state, PartyId id) {
  int depth = 0;
  for (const Party* at = state.party(id); at != nullptr; at = state.party(at->parent)) ++depth;
  return depth;
}

// Roles that reach above the node they are bound to would make nonsense of the tree.
bool role_fits(Role role, PartyKind at) {
  switch (role) {
    case Role::kPlatformOwner:
      return at == PartyKind::kPlatform;
    case Role::kTenantAdmin:
      return at == PartyKind::kTenant;
    case Role::kSubscriberAdmin:
      return at == PartyKind::kSubscriber;
    case Role::kMember:
    case Role::kViewer:
    case Role::kAuditor:
    case Role::kBilling:
    case Role::kCapacityOwner:
      return at != PartyKind::kUser && at != PartyKind::kService;
  }
  return false;
}

// Nobody hands out what he does not hold: a granter must be able to do all that the role allows.
bool may_hand_out(const State& state, const Actor& actor, Role role, PartyId at) {
  for (std::size_t i = 0; i < kActions; ++i) {
    const auto action = static_cast<Action>(i);
    if (role_allows(role, action) && !may(state, actor, action, at)) return false;
  }
  return true;
}

std::optional<Refusal> grant_problem(const State& state, const Actor& actor, Role role, PartyId at) {
  if (!role_fits(role, at.kind())) {
    return invalid("role",
                   "that role cannot be held at " + path_of(state, at),
                   "platform_owner belongs to the platform, tenant_admin to a tenant, subscriber_admin to a "
                   "subscriber; the others to any of these");
  }
  if (may_hand_out(state, actor, role, at)) return std::nullopt;
  return Refusal{.reason = Reason::kForbidden,
                 .rule = "role",
                 .where = path_of(state, at),
                 .message = "you cannot grant a role that allows more than you may do yourself",
                 .fix = "ask an administrator above " + path_of(state, at)};
}

Refusal stale(const Party& party) {
  return {.reason = Reason::kStale,
          .rule = "if_match",
          .message = party.name + " was changed since you read it",
          .fix = "read it again and repeat the change"};
}

}  // namespace

Decision decide(const State& state, const Envelope&, const Actor& actor, const CreateParty& command) {
  if (auto refusal = check_access(state, actor, Action::kManageParty, command.parent))
    return refuse(*refusal);
  if (!may_hang_below(command.kind, command.parent.kind())) {
    return refuse(invalid("parent",
                          "nothing of this kind can be created below " + path_of(state, command.parent),
                          "tenants belong to the platform; subscribers to a tenant or subscriber; users and "
                          "service accounts to any of these"));
  }
  if (auto refusal = name_problem(state, command.parent, command.name)) return refuse(*refusal);
  if (depth_of(state, command.parent) >= kDepthMax) {
    return refuse(invalid("depth", "the tree would be deeper than 12 levels", "hang it higher in the tree"));
  }
  const PartyId id = PartyId::make(command.kind, state.next_party);
  Events events{PartyCreated{id, command.parent, command.name, command.time_zone}};
  for (const Role role : command.roles) {
    if (auto refusal = grant_problem(state, actor, role, command.parent)) return refuse(*refusal);
    events.emplace_back(RoleGranted{command.parent, id, role});
  }
  return events;
}

void apply(State& state, const Envelope& envelope, const PartyCreated& event) {
  state.add_party({.id = event.id,
                   .parent = event.parent,
                   .name = event.name,
                   .time_zone = event.time_zone,
                   .created = envelope.at,
                   .version = state.sequence});
  state.index.by_name.emplace(std::pair{event.parent, event.name}, event.id);
  state.next_party = std::max(state.next_party, number_of(event.id) + 1);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const ChangeParty& command) {
  const Party* party = state.party(command.id);
  if (party == nullptr) return refuse(not_found());
  if (command.id == kPlatform)
    return refuse(invalid("party", "the platform itself cannot be changed", "change a tenant"));
  if (auto refusal = check_access(state, actor, Action::kManageParty, command.id)) return refuse(*refusal);
  if (command.if_version != 0 && command.if_version != party->version) return refuse(stale(*party));
  if (command.name != party->name) {
    if (auto refusal = name_problem(state, party->parent, command.name)) return refuse(*refusal);
  }
  if (command.disabled && is_at_or_below(state, actor.party, command.id)) {
    return refuse(invalid("self", "you would lock yourself out", "ask somebody above to disable it"));
  }
  return Events{PartyChanged{command.id,
                             party->name,
                             command.name,
                             party->time_zone,
                             command.time_zone,
                             party->disabled,
                             command.disabled}};
}

void apply(State& state, const Envelope& envelope, const PartyChanged& event) {
  Party& party = state.parties.at(event.id);
  state.index.by_name.erase({party.parent, party.name});
  party.name = event.name;
  party.time_zone = event.time_zone;
  if (event.time_zone != event.time_zone_before) recount_calendars(state, envelope.at);
  party.disabled = event.disabled;
  party.version = state.sequence;
  state.index.by_name.emplace(std::pair{party.parent, party.name}, party.id);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const GrantRole& command) {
  if (auto refusal = check_access(state, actor, Action::kGrantRole, command.at)) return refuse(*refusal);
  const Party* holder = state.party(command.holder);
  if (holder == nullptr || !can_see(state, actor, command.holder)) return refuse(not_found());
  if (command.holder.kind() != PartyKind::kUser && command.holder.kind() != PartyKind::kService) {
    return refuse(invalid("holder", "only users and service accounts hold roles", "name a user"));
  }
  if (auto refusal = grant_problem(state, actor, command.role, command.at)) return refuse(*refusal);
  const auto& grants = state.parties.at(command.at).grants;
  if (std::find(grants.begin(), grants.end(), Grant{command.holder, command.role}) != grants.end())
    return Events{};
  return Events{RoleGranted{command.at, command.holder, command.role}};
}

void apply(State& state, const Envelope&, const RoleGranted& event) {
  Party& party = state.parties.at(event.at);
  party.grants.push_back({event.holder, event.role});
  std::sort(party.grants.begin(), party.grants.end());
  party.version = state.sequence;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const RevokeRole& command) {
  if (auto refusal = check_access(state, actor, Action::kGrantRole, command.at)) return refuse(*refusal);
  const auto& grants = state.parties.at(command.at).grants;
  if (std::find(grants.begin(), grants.end(), Grant{command.holder, command.role}) == grants.end()) {
    return refuse(not_found());
  }
  const auto owners = std::count_if(
      grants.begin(), grants.end(), [](const Grant& grant) { return grant.role == Role::kPlatformOwner; });
  if (command.role == Role::kPlatformOwner && owners == 1) {
    return refuse(
        invalid("last_owner", "the platform would be left without an owner", "grant the role first"));
  }
  return Events{RoleRevoked{command.at, command.holder, command.role}};
}

void apply(State& state, const Envelope&, const RoleRevoked& event) {
  Party& party = state.parties.at(event.at);
  std::erase(party.grants, Grant{event.holder, event.role});
  party.version = state.sequence;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetPassword& command) {
  if (state.party(command.user) == nullptr || command.user.kind() != PartyKind::kUser)
    return refuse(not_found());
  if (command.user != actor.party) {
    if (auto refusal = check_access(state, actor, Action::kManageParty, command.user))
      return refuse(*refusal);
  }
  return Events{PasswordSet{command.user, command.password_hash}};
}

void apply(State& state, const Envelope&, const PasswordSet& event) {
  Party& party = state.parties.at(event.user);
  party.password_hash = event.password_hash;
  party.version = state.sequence;
}

}  // namespace tranche::engine
