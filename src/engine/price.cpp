// SPDX-License-Identifier: Apache-2.0
#include "engine/price.hpp"

#include <algorithm>

#include "engine/decide.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::engine {
namespace {

constexpr std::uint32_t kDay = 1440;  // Minutes.
constexpr std::size_t kListsKept = 64;

bool fits(const PriceRule& rule, const PriceQuery& query, std::uint32_t minute) {
  const auto same = [](const std::string& wanted, const std::string& is) {
    return wanted.empty() || wanted == is;
  };
  const bool hour = rule.minute_from < rule.minute_to
                        ? minute >= rule.minute_from && minute < rule.minute_to
                        : minute >= rule.minute_from || minute < rule.minute_to;  // Over midnight.
  const bool party = rule.party == PartyId{} ||
                     std::find(query.parties.begin(), query.parties.end(), rule.party) != query.parties.end();
  if (rule.storage_gib_hour.has_value() != query.storage) return false;
  return hour && party && (rule.model.empty() || is_model(query.model, rule.model)) &&
         same(rule.shape, query.shape) && same(rule.region, query.region) &&
         rule.isolation.value_or(query.isolation) == query.isolation && query.priority >= rule.priority_min &&
         query.priority <= rule.priority_max && rule.on_demand.value_or(query.on_demand) == query.on_demand;
}

// The next full minute at which a rule of the list begins or ends to hold.
Instant next_change(const PriceList& list, Instant at) {
  const auto midnight = std::chrono::floor<std::chrono::days>(at);
  Instant next = midnight + std::chrono::days(1);
  for (const PriceRule& rule : list.rules) {
    for (const std::uint32_t minute : {rule.minute_from, rule.minute_to}) {
      const Instant change = midnight + std::chrono::minutes(minute);
      if (change > at) next = std::min(next, change);
    }
  }
  return next;
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
  for (const PriceRule& rule : list->rules) {
    if (fits(rule, query, minute)) return PriceInForce{rule, std::min(until, next_change(*list, at))};
  }
  return PriceInForce{{}, std::min(until, next_change(*list, at))};
}

std::string price_problem(const PriceList& list) {
  if (list.name.empty() || list.name.size() > 63) return "a price list has a name of 1 to 63 letters";
  if (list.rules.empty() || list.rules.size() > 1000) return "a price list has 1 to 1000 rules";
  for (const PriceRule& rule : list.rules) {
    const bool sane = rule.gpu_hour >= Money{} && rule.gpu_hour <= units(1'000'000) &&
                      rule.used_percent <= 100 && rule.minute_from <= kDay && rule.minute_to <= kDay &&
                      rule.minute_from != rule.minute_to && rule.priority_min <= rule.priority_max;
    const bool units_sane =
        std::all_of(rule.per_million.begin(), rule.per_million.end(), [](const auto& one) {
          return one.second >= Money{} && one.second <= units(1'000'000);
        });
    const bool storage_sane = !rule.storage_gib_hour || (*rule.storage_gib_hour >= Money{} &&
                                                         *rule.storage_gib_hour <= units(1'000'000));
    if (!sane || !units_sane || !storage_sane) return "rule '" + rule.name + "' has a number out of bounds";
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
  std::string problem = price_problem(list);
  if (problem.empty() && list.valid_from < envelope.at) problem = "prices do not change in the past";
  if (!problem.empty()) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "price",
                          .message = std::move(problem),
                          .fix = "for example: tranche price set h100 --model H100 --gpu-hour 2.40"});
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
}

}  // namespace tranche::engine
