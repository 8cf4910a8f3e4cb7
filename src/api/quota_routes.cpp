// SPDX-License-Identifier: Apache-2.0
// What the tree allows: quotas, rules, SKUs and the platform's settings.
#include "api/api.hpp"
#include "api/problem.hpp"
#include "api/views.hpp"
#include "api/zones.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

void show_quota(Api& api, Call call) {
  const std::string name = call.parameters.front();
  api.view(std::move(call),
           [name](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const engine::Party* party = state.party(engine::find_path(state, name));
             if (party == nullptr || !engine::can_see(state, actor, party->id))
               return refuse(engine::not_found());
             return versioned(json(quota_view(state, *party)), party->version);
           });
}

void set_quota(Api& api, Call call) {
  const auto body = parse<wire::Quota>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string name = call.parameters.front();
  api.with_party(std::move(call), name, [&api, quota = *body](Call next, PartyId party) {
    const std::uint64_t version = if_version(next);
    api.run(
        std::move(next), engine::SetQuota{party, quota, version}, [party](const server::Outcome& outcome) {
          const engine::Party& changed = outcome.state->parties.at(party);
          return versioned(json(quota_view(*outcome.state, changed)), changed.version);
        });
  });
}

void show_rules(Api& api, Call call) {
  const std::string name = call.parameters.front();
  api.view(std::move(call),
           [name](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const engine::Party* party = state.party(engine::find_path(state, name));
             if (party == nullptr || !engine::can_see(state, actor, party->id))
               return refuse(engine::not_found());
             return versioned(json(rules_view(state, *party)), party->version);
           });
}

void set_rules(Api& api, Call call) {
  const auto body = parse<wire::RulesBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string name = call.parameters.front();
  api.with_party(std::move(call), name, [&api, rules = resolve_zones(body->rules)](Call next, PartyId party) {
    const std::uint64_t version = if_version(next);
    api.run(
        std::move(next), engine::SetRules{party, rules, version}, [party](const server::Outcome& outcome) {
          const engine::Party& changed = outcome.state->parties.at(party);
          return versioned(json(rules_view(*outcome.state, changed)), changed.version);
        });
  });
}

void list_skus(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor&) -> Result<net::Response, wire::Refusal> {
    wire::SkuList out;
    for (const auto& [name, sku] : state.skus) out.items.push_back(sku);
    return json(out);
  });
}

void set_sku(Api& api, Call call) {
  auto body = parse<wire::Sku>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  if (!body->name.empty() && body->name != call.parameters.front()) {
    return call.reply.send(
        problem(wire::Problem{"name", "the name in the body is not that of the path", "leave it out"},
                call.envelope.request_id));
  }
  body->name = call.parameters.front();
  api.run(
      std::move(call), engine::SetSku{*body}, [sku = *body](const server::Outcome&) { return json(sku); });
}

void show_settings(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor&) -> Result<net::Response, wire::Refusal> {
    return json(state.settings);
  });
}

void change_settings(Api& api, Call call) {
  const auto body = parse<wire::Settings>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.run(std::move(call), engine::ChangeSettings{*body}, [settings = *body](const server::Outcome&) {
    return json(settings);
  });
}

}  // namespace

std::vector<Route> quota_routes() {
  return {
      {.method = "GET",
       .path = "/v1/quotas/{party}",
       .id = "show_quota",
       .tag = "quotas",
       .summary = "Quota and use of a party",
       .gives = body<wire::QuotaView>(),
       .handle = show_quota},
      {.method = "PUT",
       .path = "/v1/quotas/{party}",
       .id = "set_quota",
       .tag = "quotas",
       .summary = "Set the quota of a party",
       .takes = body<wire::Quota>(),
       .gives = body<wire::QuotaView>(),
       .handle = set_quota},
      {.method = "GET",
       .path = "/v1/rules/{party}",
       .id = "show_rules",
       .tag = "quotas",
       .summary = "Rules of a party",
       .gives = body<wire::RulesView>(),
       .handle = show_rules},
      {.method = "PUT",
       .path = "/v1/rules/{party}",
       .id = "set_rules",
       .tag = "quotas",
       .summary = "Set the rules of a party",
       .takes = body<wire::RulesBody>(),
       .gives = body<wire::RulesView>(),
       .handle = set_rules},
      {.method = "GET",
       .path = "/v1/skus",
       .id = "list_skus",
       .tag = "platform",
       .summary = "SKUs",
       .gives = body<wire::SkuList>(),
       .handle = list_skus},
      {.method = "PUT",
       .path = "/v1/skus/{name}",
       .id = "set_sku",
       .tag = "platform",
       .summary = "Define a SKU",
       .takes = body<wire::Sku>(),
       .gives = body<wire::Sku>(),
       .handle = set_sku},
      {.method = "GET",
       .path = "/v1/settings",
       .id = "show_settings",
       .tag = "platform",
       .summary = "Settings of the platform",
       .gives = body<wire::Settings>(),
       .handle = show_settings},
      {.method = "PUT",
       .path = "/v1/settings",
       .id = "change_settings",
       .tag = "platform",
       .summary = "Change the settings of the platform",
       .takes = body<wire::Settings>(),
       .gives = body<wire::Settings>(),
       .handle = change_settings},
  };
}

}  // namespace tranche::api
