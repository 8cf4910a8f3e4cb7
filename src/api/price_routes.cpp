// SPDX-License-Identifier: Apache-2.0
// Price lists: parties by their path and hours by the clock become ids and offsets here, and back.
#include "api/api.hpp"
#include "api/problem.hpp"
#include "api/zones.hpp"
#include "wire/api_price.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

wire::PriceRuleBody body_of(const State& state, const wire::PriceRule& rule) {
  return {.name = rule.name,
          .model = rule.model,
          .shape = rule.shape,
          .region = rule.region,
          .isolation = rule.isolation,
          .priority_min = rule.priority_min,
          .priority_max = rule.priority_max,
          .party = rule.party == PartyId{} ? "" : engine::path_of(state, rule.party),
          .on_demand = rule.on_demand,
          .minute_from = rule.minute_from,
          .minute_to = rule.minute_to,
          .hours = rule.hours,
          .gpu_hour = rule.gpu_hour,
          .dimension = rule.dimension,
          .basis = rule.basis,
          .used_percent = rule.used_percent,
          .per_million = rule.per_million,
          .storage_gib_hour = rule.storage_gib_hour};
}

wire::PriceListBody body_of(const State& state, const wire::PriceList& list) {
  wire::PriceListBody out{.name = list.name, .valid_from = list.valid_from};
  for (const wire::PriceRule& rule : list.rules) out.rules.push_back(body_of(state, rule));
  return out;
}

wire::PriceRule rule_of(const wire::PriceRuleBody& body) {
  return {.name = body.name,
          .model = body.model,
          .shape = body.shape,
          .region = body.region,
          .isolation = body.isolation,
          .priority_min = body.priority_min,
          .priority_max = body.priority_max,
          .on_demand = body.on_demand,
          .minute_from = body.minute_from,
          .minute_to = body.minute_to,
          .gpu_hour = body.gpu_hour,
          .basis = body.basis,
          .used_percent = body.used_percent,
          .per_million = body.per_million,
          .storage_gib_hour = body.storage_gib_hour,
          .dimension = body.dimension,
          .hours = body.hours};
}

Result<wire::PriceList, wire::Problem> list_of(const State& state, const wire::PriceListBody& body) {
  wire::PriceList list{.name = body.name, .valid_from = body.valid_from.value_or(Instant{})};
  for (std::size_t i = 0; i < body.rules.size(); ++i) {
    const wire::PriceRuleBody& one = body.rules[i];
    wire::PriceRule rule = rule_of(one);
    if (!one.party.empty()) {
      rule.party = engine::find_path(state, one.party);
      if (rule.party == PartyId{})
        return refuse(wire::Problem{"rules." + std::to_string(i) + ".party",
                                    "rule '" + one.name + "': there is no party '" + one.party + "'",
                                    "tranche tenant list shows tenants"});
    }
    if (rule.hours) resolve_zone(rule.hours->zone, list.zones);
    list.rules.push_back(std::move(rule));
  }
  return list;
}

void list_prices(Api& api, Call call) {
  const std::string name(call.query_value("name"));
  api.view(std::move(call), [name](const State& state, const Actor& actor) -> Shown {
    wire::PriceListBook out;
    for (wire::PriceList list : state.prices) {
      if (!name.empty() && list.name != name) continue;
      // Prices for others are nobody's business: only rules for everybody and for one's own tree are shown.
      std::erase_if(list.rules, [&](const wire::PriceRule& rule) {
        return rule.party != PartyId{} && !engine::can_see(state, actor, rule.party);
      });
      out.items.push_back(body_of(state, list));
    }
    return json(out);
  });
}

void set_prices(Api& api, Call call) {
  const auto body = parse<wire::PriceListBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.loop().read([&api, call = std::move(call), body = *body](const State& state) mutable {
    auto list = list_of(state, body);
    if (!list) return call.reply.send(problem(list.error(), call.envelope.request_id));
    api.run(std::move(call), engine::SetPriceList{std::move(*list)}, [](const server::Outcome& outcome) {
      return json(body_of(*outcome.state, std::get<engine::PriceListSet>(outcome.events->front()).list));
    });
  });
}

}  // namespace

std::vector<Route> price_routes() {
  return {{.method = "GET",
           .path = "/v1/prices",
           .id = "list_prices",
           .tag = "money",
           .summary = "Price lists, those to come included",
           .gives = body<wire::PriceListBook>(),
           .query = {"name"},
           .handle = list_prices},
          {.method = "PUT",
           .path = "/v1/prices",
           .id = "set_prices",
           .tag = "money",
           .summary = "Set a price list, valid from now or later",
           .takes = body<wire::PriceListBody>(),
           .gives = body<wire::PriceListBody>(),
           .handle = set_prices}};
}

}  // namespace tranche::api
