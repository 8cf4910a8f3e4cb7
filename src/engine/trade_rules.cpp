// SPDX-License-Identifier: Apache-2.0
#include "engine/trade_rules.hpp"

#include <algorithm>

#include "engine/access.hpp"
#include "engine/rules.hpp"

namespace tranche::engine {
namespace {

// Every rule above the party that binds the workload now, until one is not met; its name and place.
template <class Met>
std::optional<std::pair<const Rule*, PartyId>> first_unmet(const State& state,
                                                           PartyId party,
                                                           WorkloadKind kind,
                                                           Met met) {
  const Ask ask{.kind = kind};
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent))
    for (const Rule& rule : at->rules.rules)
      if (fits(rule.when, at->rules, ask, state.now) && !met(rule.then)) return std::pair(&rule, at->id);
  return std::nullopt;
}

}  // namespace

bool has_trade_rules(const State& state, PartyId party) {
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent))
    for (const Rule& rule : at->rules.rules)
      if (rule.then.trade_with) return true;
  return false;
}

void restrict_resting(State& state, PartyId party) {
  if (!has_trade_rules(state, party)) return;
  for (const std::uint64_t id : state.market.books.ids())
    if (is_at_or_below(state, state.market.books.order(id)->party, party)) state.market.books.restrict(id);
}

bool may_trade_with(const State& state, PartyId party, PartyId other, WorkloadKind kind) {
  return !first_unmet(state, party, kind, [&](const Then& then) {
    return !then.trade_with ||
           std::any_of(then.trade_with->begin(), then.trade_with->end(), [&](const std::string& name) {
             const PartyId named = find_path(state, name);
             return named != PartyId{} && is_at_or_below(state, other, named);
           });
  });
}

std::optional<Refusal> region_problem(const State& state,
                                      PartyId party,
                                      WorkloadKind kind,
                                      const std::string& region) {
  const auto unmet = first_unmet(state, party, kind, [&](const Then& then) {
    return !then.buy_regions ||
           std::find(then.buy_regions->begin(), then.buy_regions->end(), region) != then.buy_regions->end();
  });
  if (!unmet) return std::nullopt;
  const auto& [rule, where] = *unmet;
  std::string allowed;
  for (const std::string& one : *rule->then.buy_regions) allowed += (allowed.empty() ? "" : ", ") + one;
  const std::string place = path_of(state, where);
  return Refusal{.reason = Reason::kPolicy,
                 .rule = rule->name,
                 .where = place,
                 .message = "rule '" + rule->name + "' of " + (place.empty() ? "the platform" : place) +
                            " lets capacity be bought in these regions only: " + allowed,
                 .fix = "name one of them: --region " + rule->then.buy_regions->front()};
}

}  // namespace tranche::engine
