// SPDX-License-Identifier: Apache-2.0
// Tenants, subscribers, users and service accounts: one set of routes for each kind of party.
#include <array>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "api/views.hpp"
#include "api/zones.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

struct KindRoutes {
  PartyKind kind;
  std::string_view list, one, list_id, create_id, show_id, change_id, many, single;
};
constexpr std::array kKinds{KindRoutes{PartyKind::kTenant,
                                       "/v1/tenants",
                                       "/v1/tenants/{party}",
                                       "list_tenants",
                                       "create_tenant",
                                       "show_tenant",
                                       "change_tenant",
                                       "List tenants",
                                       "One tenant"},
                            KindRoutes{PartyKind::kSubscriber,
                                       "/v1/subscribers",
                                       "/v1/subscribers/{party}",
                                       "list_subscribers",
                                       "create_subscriber",
                                       "show_subscriber",
                                       "change_subscriber",
                                       "List subscribers",
                                       "One subscriber"},
                            KindRoutes{PartyKind::kUser,
                                       "/v1/users",
                                       "/v1/users/{party}",
                                       "list_users",
                                       "create_user",
                                       "show_user",
                                       "change_user",
                                       "List users",
                                       "One user"},
                            KindRoutes{PartyKind::kService,
                                       "/v1/service-accounts",
                                       "/v1/service-accounts/{party}",
                                       "list_service_accounts",
                                       "create_service_account",
                                       "show_service_account",
                                       "change_service_account",
                                       "List service accounts",
                                       "One service account"}};

net::Response one_party(const State& state, PartyId id, int status) {
  const engine::Party& party = state.parties.at(id);
  return versioned(json(view_of(state, party), status), party.version);
}

void list(Api& api, Call call, PartyKind kind) {
  const auto page = page_of(call);
  if (!page) return call.reply.send(problem(page.error(), call.envelope.request_id));
  const std::string under(call.query_value("under"));
  api.view(std::move(call),
           [=, page = *page](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const PartyId top = under.empty() ? kPlatform : engine::find_path(state, under);
             if (top == PartyId{} || !engine::can_see(state, actor, top)) return refuse(engine::not_found());
             wire::PartyList out;
             for (auto at = state.parties.upper_bound({page.after}); at != state.parties.end(); ++at) {
               const auto& [id, party] = *at;
               if (id.kind() != kind || !engine::can_see(state, actor, id) ||
                   !engine::is_at_or_below(state, id, top))
                 continue;
               if (out.items.size() == page.limit) {
                 out.next = std::to_string(out.items.back().id.value);
                 break;
               }
               out.items.push_back(view_of(state, party));
             }
             return json(out);
           });
}

void create(Api& api, Call call, PartyKind kind) {
  const auto body = parse<wire::NewParty>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  if (!body->time_zone.empty() && !zone_offsets(body->time_zone)) {
    return call.reply.send(problem(
        wire::Problem{
            "time_zone", "there is no time zone '" + body->time_zone + "'", "for example Europe/Madrid"},
        call.envelope.request_id));
  }
  const bool acts = kind == PartyKind::kUser || kind == PartyKind::kService;
  engine::CreateParty command{.kind = kind,
                              .parent = kPlatform,
                              .name = body->name,
                              .time_zone = body->time_zone,
                              .roles = body->roles};
  if (acts && command.roles.empty()) command.roles = {wire::Role::kMember};
  if (!acts) command.roles.clear();
  const std::string parent = kind == PartyKind::kTenant ? "platform" : body->parent;
  api.with_party(std::move(call), parent, [&api, command](Call next, PartyId id) mutable {
    command.parent = id;
    api.run(std::move(next), command, [](const server::Outcome& outcome) {
      const PartyId made = std::get<engine::PartyCreated>(outcome.events->front()).id;
      net::Response response = one_party(*outcome.state, made, 201);
      return response;
    });
  });
}

void show(Api& api, Call call, PartyKind kind) {
  const std::string name = call.parameters.front();
  api.view(std::move(call),
           [=](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const PartyId id = engine::find_path(state, name);
             if (id == PartyId{} || id.kind() != kind || !engine::can_see(state, actor, id))
               return refuse(engine::not_found());
             return one_party(state, id, 200);
           });
}

// What the patch leaves out is read from the state; the version read makes sure that nothing came between.
void change(Api& api, Call call, PartyKind kind) {
  const auto body = parse<wire::PartyPatch>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  if (body->time_zone && !body->time_zone->empty() && !zone_offsets(*body->time_zone)) {
    return call.reply.send(
        problem(wire::Problem{"time_zone", "there is no such time zone", "for example Europe/Madrid"},
                call.envelope.request_id));
  }
  const std::string name = call.parameters.front();
  api.loop().read([&api, patch = *body, name, kind, call = std::move(call)](const State& state) mutable {
    const PartyId id = engine::find_path(state, name);
    const engine::Party* party = id.kind() == kind ? state.party(id) : nullptr;
    engine::ChangeParty command{.id = party == nullptr ? PartyId{} : id};
    if (party != nullptr) {
      const std::uint64_t wanted = if_version(call);
      command.name = patch.name.value_or(party->name);
      command.time_zone = patch.time_zone.value_or(party->time_zone);
      command.disabled = patch.disabled.value_or(party->disabled);
      command.if_version = wanted == 0 ? party->version : wanted;
    }
    api.run(std::move(call), command, [id](const server::Outcome& outcome) {
      return one_party(*outcome.state, id, 200);
    });
  });
}

}  // namespace

std::vector<Route> party_routes() {
  std::vector<Route> routes;
  for (const KindRoutes& one : kKinds) {
    const PartyKind kind = one.kind;
    routes.push_back({.method = "GET",
                      .path = one.list,
                      .id = one.list_id,
                      .tag = "parties",
                      .summary = one.many,
                      .gives = body<wire::PartyList>(),
                      .query = {"under", "limit", "cursor"},
                      .handle = [kind](Api& api, Call call) { list(api, std::move(call), kind); }});
    routes.push_back({.method = "POST",
                      .path = one.list,
                      .id = one.create_id,
                      .tag = "parties",
                      .summary = "Create one",
                      .takes = body<wire::NewParty>(),
                      .gives = body<wire::PartyView>(),
                      .status = 201,
                      .handle = [kind](Api& api, Call call) { create(api, std::move(call), kind); }});
    routes.push_back({.method = "GET",
                      .path = one.one,
                      .id = one.show_id,
                      .tag = "parties",
                      .summary = one.single,
                      .gives = body<wire::PartyView>(),
                      .handle = [kind](Api& api, Call call) { show(api, std::move(call), kind); }});
    routes.push_back({.method = "PATCH",
                      .path = one.one,
                      .id = one.change_id,
                      .tag = "parties",
                      .summary = "Rename, disable, enable",
                      .takes = body<wire::PartyPatch>(),
                      .gives = body<wire::PartyView>(),
                      .handle = [kind](Api& api, Call call) { change(api, std::move(call), kind); }});
  }
  return routes;
}

}  // namespace tranche::api
