// SPDX-License-Identifier: Apache-2.0
#include "engine/price.hpp"

#include <algorithm>

#include "engine/decide.hpp"
#include "engine/hours.hpp"
#include "engine/model_names.hpp"
#include "engine/unit_book.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::engine {
namespace {

constexpr std::uint32_t kDay = 1440;  // Minutes.
constexpr std::size_t kListsKept = 64;

bool in_hours(const PriceRule& rule, const Zones& zones, Instant at, std::uint32_t minute) {
  if (rule.hours) return within(*rule.hours, zones, at);
  return rule.minute_from < rule.minute_to
             ? minute >= rule.minute_from && minute < rule.minute_to
             : minute >= rule.minute_from || minute < rule.minute_to;  // Over midnight.
}

bool fits(const PriceRule& rule, const PriceQuery& query) {
  const auto same = [](const std::string& wanted, const std::string& is) {
    return wanted.empty() || wanted == is;
  };
  const bool party = rule.party == PartyId{} ||
                     std::find(query.parties.begin(), query.parties.end(), rule.party) != query.parties.end();
  if (rule.storage_gib_hour.has_value() != query.storage) return false;
  return party && (rule.model.empty() || is_model(query.model, rule.model)) &&
         same(rule.shape, query.shape) && same(rule.region, query.region) &&
         rule.isolation.value_or(query.isolation) == query.isolation && query.priority >= rule.priority_min &&
         query.priority <= rule.priority_max && rule.on_demand.value_or(query.on_demand) == query.on_demand;
}

// The next instant at which a rule of the list may begin or end to hold.
Instant next_list_change(const PriceList& list, Instant at) {
  const auto midnight = std::chrono::floor<std::chrono::days>(at);
  Instant next = midnight + std::chrono::days(1);
  for (const PriceRule& rule : list.rules) {
    if (rule.hours) {
      next = std::min(next, next_change(*rule.hours, list.zones, at));
      continue;
    }
    for (const std::uint32_t minute : {rule.minute_from, rule.minute_to}) {
      const Instant change = midnight + std::chrono::minutes(minute);
      if (change > at) next = std::min(next, change);
    }
  }
  return next;
}

bool is_price(const Money& price) {
  return price >= Money{} && price <= units(1'000'000);
}

// What is wrong with a rule; empty: nothing.
std::string rule_problem(const State& state, const PriceList& list, const PriceRule& rule) {
  if (!is_price(rule.gpu_hour)) return "gpu_hour is 0 to 1000000";
  if (rule.storage_gib_hour && !is_price(*rule.storage_gib_hour)) return "storage_gib_hour is 0 to 1000000";
  if (rule.storage_gib_hour && (rule.gpu_hour != Money{} || !rule.per_million.empty()))
    return "a price of storage is one of nothing else: write another rule for devices";
  for (const auto& [unit, price] : rule.per_million) {
    if (!is_unit_name(unit))
      return "it prices '" + unit +
             "'; units are frames, seconds, steps, requests, tokens, tokens_in, tokens_out and units";
    if (price < Money{} || price > units(1'000'000'000)) return "per_million." + unit + " is 0 to 1000000000";
  }
  if (rule.used_percent > 100) return "used_percent is 0 to 100";
  if (rule.used_percent > 0 && rule.basis != ChargeBasis::kMixed)
    return "used_percent goes with basis: mixed";
  if (rule.used_percent == 0 && rule.basis == ChargeBasis::kMixed)
    return "a mixed price says which part of it is by use: used_percent, 1 to 100";
  if (rule.dimension != wire::ChargeDimension::kCompute && rule.basis != ChargeBasis::kAllocated)
    return "a price by memory is of what was allocated: how busy a device was is counted in compute";
  if (rule.minute_from > kDay || rule.minute_to > kDay || rule.minute_from == rule.minute_to)
    return "minutes of the day are 0 to 1440, and two different ones";
  if (rule.hours && (rule.minute_from != 0 || rule.minute_to != kDay))
    return "write hours or minutes, not both";
  if (rule.hours)
    if (auto problem = hours_problem(*rule.hours, list.zones); !problem.empty()) return problem;
  if (rule.priority_min > rule.priority_max || rule.priority_max > 100)
    return "priorities are 0 to 100, the least first";
  if (rule.party != PartyId{} && state.party(rule.party) == nullptr) return "there is no such party";
  if (!rule.model.empty())
    if (const auto unknown = unknown_model(state, rule.model)) return unknown->message + "; " + unknown->fix;
  return {};
}

}  // namespace

bool is_model(const std::string& device_model, const std::string& asked) {
  if (wire::equal_ignoring_case(device_model, asked)) return true;
  const wire::GpuModel* device = wire::find_gpu_model(device_model);
  return device != nullptr && wire::is_meant_by(*device, asked, wire::MemoryMatch::kSame);
}

std::optional<PriceInForce> price_at(const std::vector<PriceList>& lists,
                                     const PriceQuery& query,
                                     Instant at) {
  const PriceList* list = nullptr;
  Instant until = Instant::max();
  for (const PriceList& one : lists) {  // Sorted by the time from which they hold.
    if (one.valid_from <= at) {
      list = &one;
    } else {
      until = std::min(until, one.valid_from);
    }
  }
  if (list == nullptr) return std::nullopt;
  const auto midnight = std::chrono::floor<std::chrono::days>(at);
  const auto minute =
      static_cast<std::uint32_t>(std::chrono::floor<std::chrono::minutes>(at - midnight).count());
  until = std::min(until, next_list_change(*list, at));
  for (const PriceRule& rule : list->rules)
    if (fits(rule, query) && in_hours(rule, list->zones, at, minute)) return PriceInForce{rule, until};
  return PriceInForce{{}, until};
}

Instant first_list_after(const std::vector<PriceList>& lists, Instant at) {
  for (const PriceList& list : lists)  // By the time from which they hold.
    if (list.valid_from > at) return list.valid_from;
  return Instant::max();
}

std::string price_problem(const State& state, const PriceList& list) {
  if (list.name.empty() || list.name.size() > 63) return "a price list has a name of 1 to 63 letters";
  if (list.rules.empty() || list.rules.size() > 1000) return "a price list has 1 to 1000 rules";
  std::size_t number = 0;
  for (const PriceRule& rule : list.rules) {
    ++number;
    if (auto problem = rule_problem(state, list, rule); !problem.empty())
      return "rule " + std::to_string(number) + " ('" + rule.name + "'): " + problem;
  }
  return {};
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const SetPriceList& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  PriceList list = command.list;
  if (list.valid_from == Instant{}) list.valid_from = envelope.at;
  std::string problem = price_problem(state, list);
  if (problem.empty() && list.valid_from < envelope.at) problem = "prices do not change in the past";
  if (!problem.empty()) {
    return refuse(
        Refusal{.reason = Reason::kInvalid,
                .rule = "price",
                .message = std::move(problem),
                .fix = "mend it and send the list again; tranche price show writes one that holds"});
  }
  return Events{PriceListSet{std::move(list)}};
}

// What ended before the list that held at the start of last month is of no use to any charge.
void apply(State& state, const Envelope&, const PriceListSet& event) {
  auto& lists = state.prices;
  std::erase_if(lists, [&](const PriceList& one) { return one.valid_from == event.list.valid_from; });
  lists.push_back(event.list);
  std::sort(lists.begin(), lists.end(), [](const PriceList& a, const PriceList& b) {
    return a.valid_from < b.valid_from;
  });
  if (lists.size() > kListsKept) lists.erase(lists.begin());
  state.index.capacity->changed();
  look_at_waiting_groups(state);
}

}  // namespace tranche::engine
