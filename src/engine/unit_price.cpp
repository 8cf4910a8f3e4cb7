// SPDX-License-Identifier: Apache-2.0
#include "engine/unit_price.hpp"

#include <algorithm>

#include "engine/lease_meter.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

struct UnitsLeft {
  std::string name{};
  std::int64_t count = 0;
};

// Units of the chunk that have no verdict yet, as they are counted and priced.
UnitsLeft units_left_of(const State& state, JobId id) {
  const auto found = state.index.work->group_of.find(id);
  if (found == state.index.work->group_of.end()) return {};
  const JobGroup& group = state.work.groups.at(found->second);
  const Chunk* chunk = group.chunk_of(id);
  if (chunk == nullptr) return {};
  UnitsLeft left{units_name(group.counted_in()), 0};
  if (group.milliseconds.empty()) {
    left.count = wire::count_of(chunk->left);
    return left;
  }
  std::int64_t milliseconds = 0;
  for (const UnitRange& range : chunk->left)
    for (std::int64_t unit = range.first; unit <= range.last; ++unit)
      milliseconds += group.milliseconds[static_cast<std::size_t>(unit - group.range.first)];
  left.count = (milliseconds + 999) / 1000;
  return left;
}

}  // namespace

Money per_million(const PriceRule& rule, const std::string& unit) {
  const auto exact = rule.per_million.find(unit);
  if (exact != rule.per_million.end()) return exact->second;
  const auto wider = std::find_if(rule.per_million.begin(), rule.per_million.end(), [&](const auto& one) {
    return is_counted_as(unit, one.first);
  });
  return wider == rule.per_million.end() ? Money{} : wider->second;
}

std::map<std::string, Money> unit_prices(const State& state,
                                         const MeterPlan& plan,
                                         Instant from,
                                         Duration ahead) {
  std::map<std::string, Money> dearest;
  if (plan.contract != ContractId{}) return dearest;
  const PriceQuery query = price_query(state, plan);
  const Instant to = from + std::max(ahead, Duration(1));
  for (Instant at = from; at < to;) {
    const auto price = price_in_force(state, query, at);
    if (!price) {  // Nothing costs anything yet.
      at = std::min(first_list_after(state.prices, at), to);
      continue;
    }
    for (const auto& [unit, one] : price->rule.per_million)
      if (one > Money{}) dearest[unit] = std::max(dearest[unit], one);
    at = price->until;
  }
  return dearest;
}

Money price_of_units(Money per_million, std::int64_t count) {
  const Int128 sum = Int128{per_million.micros} * std::max<std::int64_t>(count, 0);
  return {static_cast<std::int64_t>((sum + kMillion - 1) / kMillion)};
}

Money most_for_units(const State& state, const MeterPlan& plan, Instant from, Duration ahead) {
  if (state.prices.empty() || plan.contract != ContractId{}) return {};
  const UnitsLeft left = units_left_of(state, plan.job);
  if (left.count == 0) return {};
  const auto prices = unit_prices(state, plan, from, ahead);
  const auto price = prices.find(left.name);
  return price == prices.end() ? Money{} : price_of_units(price->second, left.count);
}

}  // namespace tranche::engine
