// SPDX-License-Identifier: Apache-2.0
#include "engine/capacity_cost.hpp"

#include <algorithm>

#include "engine/decide.hpp"
#include "engine/model_names.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kCostsKept = 4096;
constexpr Money kMost = units(1'000'000);

bool is_about(const State& state, const CapacityCost& cost, const Device& device) {
  return (cost.node.empty() || cost.node == state.nodes.at(device.node).name) &&
         (cost.model.empty() || is_model(device.facts.model, cost.model));
}

// What is said of a node counts more than what is said of a model, and either more than what is said of all.
int precision(const CapacityCost& cost) {
  return (cost.node.empty() ? 0 : 2) + (cost.model.empty() ? 0 : 1);
}

// The newest of the most precise that hold then.
const CapacityCost* cost_in_force(const State& state, const Device& device, Instant at) {
  const CapacityCost* best = nullptr;
  for (const CapacityCost& one : state.capacity_costs) {  // By the time from which they hold.
    if (one.valid_from > at) break;
    if (!is_about(state, one, device)) continue;
    if (best == nullptr || precision(one) >= precision(*best)) best = &one;
  }
  return best;
}

bool is_sane(const CapacityCost& cost) {
  const auto sane = [](Money part) { return part >= Money{} && part <= kMost; };
  return sane(cost.purchase) && sane(cost.lease) && sane(cost.commitment) && sane(cost.energy);
}

}  // namespace

Money capacity_cost(const State& state, const Device& device, Instant from, Instant to) {
  constexpr Duration kHour = std::chrono::hours(1);
  Int128 sum = 0;  // Micro-units times microseconds.
  while (from < to) {
    Instant until = to;
    for (const CapacityCost& one : state.capacity_costs)
      if (one.valid_from > from) until = std::min(until, one.valid_from);
    if (const CapacityCost* cost = cost_in_force(state, device, from))
      sum += Int128{cost->hourly().micros} * (until - from).count();
    from = until;
  }
  return {static_cast<std::int64_t>(sum / kHour.count())};
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const SetCapacityCost& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  CapacityCost cost = command.cost;
  if (cost.valid_from == Instant{}) cost.valid_from = envelope.at;
  if (cost.valid_from < envelope.at)
    return refuse(invalid("valid_from", "costs do not change in the past", "leave it out: from now on"));
  if (!is_sane(cost))
    return refuse(invalid("cost", "a part of the cost is out of bounds", "between 0 and 1000000 an hour"));
  if (!cost.node.empty() && !state.index.nodes_by_name.contains(cost.node))
    return refuse(invalid("node", "there is no node '" + cost.node + "'", "tranche node list"));
  if (!cost.model.empty())
    if (const auto unknown = unknown_model(state, cost.model))
      return refuse(invalid("model", unknown->message, unknown->fix));
  return Events{CapacityCostSet{std::move(cost)}};
}

void apply(State& state, const Envelope&, const CapacityCostSet& event) {
  auto& costs = state.capacity_costs;
  std::erase_if(costs, [&](const CapacityCost& one) {
    return one.valid_from == event.cost.valid_from && one.node == event.cost.node &&
           one.model == event.cost.model;
  });
  costs.insert(std::upper_bound(
                   costs.begin(),
                   costs.end(),
                   event.cost,
                   [](const CapacityCost& a, const CapacityCost& b) { return a.valid_from < b.valid_from; }),
               event.cost);
  if (costs.size() > kCostsKept) costs.erase(costs.begin());
}

}  // namespace tranche::engine
