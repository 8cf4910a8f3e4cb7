// SPDX-License-Identifier: Apache-2.0
#include "engine/place_rules.hpp"

#include <algorithm>

#include "engine/rules.hpp"

namespace tranche::engine {
namespace {

bool is_at(const wire::Place& place, const Node& node) {
  if (!place.sites.empty() &&
      std::find(place.sites.begin(), place.sites.end(), node.site) == place.sites.end())
    return false;
  return std::all_of(place.labels.begin(), place.labels.end(), [&](const auto& label) {
    const std::string* has = node.labels.find(label.first);
    return has != nullptr && *has == label.second;
  });
}

bool is_of_places(const Rule& rule) {
  return rule.when.at.has_value() || rule.then.only_at.has_value();
}

// What a rule that binds the job on this node asks of it there.
bool is_broken_at(const Then& then, const Ask& ask, const Node& node) {
  if (then.deny || (then.only_at && !is_at(*then.only_at, node))) return true;
  const auto allowed = [&] {
    return std::find(then.isolation->begin(), then.isolation->end(), ask.isolation) != then.isolation->end();
  };
  if (then.isolation && ask.instances > 0 && !allowed()) return true;
  if (then.gpu_milli_max && ask.gpu_milli() > *then.gpu_milli_max) return true;
  if (then.priority_max && ask.priority > *then.priority_max) return true;
  return then.time_max && (ask.time == Duration{} || ask.time > *then.time_max);
}

bool could_be_meant(const Node& node, const Ask& ask) {
  return node.state != NodeState::kRetired && node.simulated == ask.simulated && !node.boot_id.empty();
}

std::string where_text(const State& state, PartyId party) {
  return party == kPlatform ? "the platform" : path_of(state, party);
}

// The rule, and where such work may go instead.
std::string rule_text(const State& state, const KeptOff& off) {
  std::string out = "rule '" + off.rule->name + "' of " + where_text(state, off.where);
  if (off.rule->then.only_at)
    return out + " lets such a job run only at " + place_text(*off.rule->then.only_at);
  return out + " keeps such a job off " + place_text(*off.rule->when.at);
}

}  // namespace

std::string place_text(const wire::Place& place) {
  std::string out;
  for (const std::string& site : place.sites) out += (out.empty() ? "site " : " or ") + site;
  for (const auto& [name, value] : place.labels) out += (out.empty() ? "" : ", ") + name + "=" + value;
  return out;
}

bool has_place_rules(const State& state, PartyId party) {
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent))
    if (std::any_of(at->rules.rules.begin(), at->rules.rules.end(), is_of_places)) return true;
  return false;
}

std::optional<KeptOff> kept_off(
    const State& state, PartyId owner, const Ask& ask, const Node& node, Instant at) {
  for (const Party* up = state.party(owner); up != nullptr; up = state.party(up->parent)) {
    for (const Rule& rule : up->rules.rules) {
      if (!is_of_places(rule) || (rule.when.at && !is_at(*rule.when.at, node))) continue;
      if (fits(rule.when, up->rules, ask, at) && is_broken_at(rule.then, ask, node))
        return KeptOff{&rule, up->id};
    }
  }
  return std::nullopt;
}

void close_forbidden(const State& state, const Job& job, Instant at, std::set<NodeId>& closed) {
  if (!has_place_rules(state, job.owner)) return;
  for (const auto& [id, node] : state.nodes)
    if (kept_off(state, job.owner, job.ask, node, at)) closed.insert(id);
}

std::optional<Refusal> place_problem(const State& state, PartyId owner, const Ask& ask, Instant at) {
  if (!has_place_rules(state, owner)) return std::nullopt;
  std::optional<KeptOff> first;
  std::set<std::string> sites;
  for (const auto& [id, node] : state.nodes) {
    if (!could_be_meant(node, ask)) continue;
    const auto off = kept_off(state, owner, ask, node, at);
    if (!off) return std::nullopt;
    if (!first) first = off;
    sites.insert(node.site.empty() ? "(none)" : node.site);
  }
  if (!first) return std::nullopt;  // Nothing is connected: it waits for that.
  std::string there;
  for (const std::string& site : sites) there += (there.empty() ? "" : ", ") + site;
  return Refusal{.reason = Reason::kPolicy,
                 .rule = "rule '" + first->rule->name + "'",
                 .where = where_text(state, first->where),
                 .message = rule_text(state, *first) + ", and every node there is stands at: " + there,
                 .fix =
                     "add a node where it may run (tranche node add NAME --site …), or ask the "
                     "administrator of " +
                     where_text(state, first->where)};
}

std::string places_text(const State& state, const Job& job, Instant at) {
  if (!has_place_rules(state, job.owner)) return {};
  std::optional<KeptOff> first;
  std::size_t count = 0;
  for (const auto& [id, node] : state.nodes) {
    if (!could_be_meant(node, job.ask)) continue;
    const auto off = kept_off(state, job.owner, job.ask, node, at);
    if (!off) continue;
    if (!first) first = off;
    ++count;
  }
  if (!first) return {};
  return rule_text(state, *first) + "; that leaves out " + std::to_string(count) +
         (count == 1 ? " node" : " nodes");
}

}  // namespace tranche::engine
