// SPDX-License-Identifier: Apache-2.0
#include "api/audit_view.hpp"

#include <algorithm>

#include "api/event_feed.hpp"

namespace tranche::api {
namespace {

using engine::Action;
using engine::Actor;
using engine::State;

PartyId about(const engine::Event& event) {
  const PartyId party = engine::party_concerned(event);
  return party == PartyId{} ? kPlatform : party;
}

bool can_audit(const State& state, const Actor& actor, const engine::Event& event) {
  return engine::may(state, actor, Action::kViewAudit, about(event));
}

void show_event(const State& state, const Actor& actor, const engine::Event& event, wire::AuditEntry& entry) {
  if (entry.events.empty()) {
    entry.about = about(event);
    if (!is_stranger(state, actor, entry.about)) entry.about_path = engine::path_of(state, entry.about);
  }
  if (const auto* denied = std::get_if<engine::Denied>(&event)) {
    entry.outcome = "refused";
    entry.action = denied->action;
  }
  entry.events.push_back({"{\"type\":\"" + engine::event_name(event) + "\",\"data\":" +
                          engine::event_json(without_counterparty(state, actor, event)) + '}'});
}

}  // namespace

bool is_stranger(const State& state, const Actor& actor, PartyId who) {
  const PartyId tenant = engine::tenant_of(state, who);
  return tenant != kPlatform && tenant != engine::tenant_of(state, actor.party) &&
         !engine::may(state, actor, Action::kViewParty, who);
}

bool can_audit(const State& state, const Actor& actor, const engine::Record& record) {
  if (engine::may(state, actor, Action::kViewAudit, record.envelope.actor)) return true;
  return std::any_of(record.events.begin(), record.events.end(), [&](const engine::Event& event) {
    return can_audit(state, actor, event);
  });
}

wire::AuditEntry audit_entry(const State& state,
                             const Actor& actor,
                             std::uint64_t sequence,
                             const engine::Record& record) {
  const Envelope& by = record.envelope;
  wire::AuditEntry entry{.sequence = sequence, .at = by.at, .action = record.command, .outcome = "done"};
  if (!is_stranger(state, actor, by.actor)) {
    entry.actor = by.actor;
    entry.actor_path = engine::path_of(state, by.actor);
    entry.origin = by.origin;
    entry.request_id = by.request_id;
  }
  const bool did_it = engine::may(state, actor, Action::kViewAudit, by.actor);  // Or somebody below him.
  for (const engine::Event& event : record.events)
    if (can_audit(state, actor, event) || (did_it && !is_stranger(state, actor, about(event))))
      show_event(state, actor, event, entry);
  return entry;
}

}  // namespace tranche::api
