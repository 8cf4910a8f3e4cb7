// SPDX-License-Identifier: Apache-2.0
// Services: set, look at, remove.
#include "api/api.hpp"
#include "api/named.hpp"
#include "api/problem.hpp"
#include "api/submission.hpp"
#include "api/views.hpp"
#include "engine/plan_price.hpp"
#include "wire/api_plan.hpp"
#include "wire/fields.hpp"
#include "wire/resolve_ask.hpp"
#include "wire/service.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

Result<wire::ServiceSpec, wire::Problem> read_spec(const Call& call) {
  const bool yaml = call.request.header("Content-Type").find("yaml") != std::string_view::npos;
  if (yaml) return wire::parse_service_file(call.request.body);
  auto spec = wire::from_json<wire::ServiceSpec>(call.request.body);
  if (spec) wire::unfold(*spec);
  return spec;
}

wire::ServiceView view_of(const Api& api, const State& state, const engine::Service& service) {
  wire::ServiceView view{.name = service.key.name,
                         .owner = engine::path_of(state, service.owner),
                         .replicas = static_cast<std::uint32_t>(service.replicas.size()),
                         .requests = service.use.requests,
                         .failed = service.use.failed,
                         .tokens_in = service.use.tokens_in,
                         .tokens_out = service.use.tokens_out,
                         .version = service.revision};
  if (api.options().live_service) api.options().live_service(service.key, view);
  return view;
}

wire::PricePlan service_plan(const State& state,
                             const engine::SetService& asked,
                             PartyId payer,
                             const engine::Decision& decision,
                             Instant at) {
  wire::PricePlan plan{.what = "service " + asked.name + ", at most " + std::to_string(asked.replicas_max) +
                               (asked.replicas_max == 1 ? " replica" : " replicas"),
                       .admitted = decision.has_value(),
                       .price = engine::service_price(state, payer, asked, at),
                       .note = "replicas are charged while they run; a service scaled to zero is free"};
  if (!decision) plan.refusal = decision.error();
  return plan;
}

void set_checked(Api& api, Call call, wire::ServiceSpec& spec) {
  const auto catalogue = api.catalogue();
  engine::SetService command{.name = spec.name, .replicas_max = spec.replicas.max};
  for (wire::ServiceVersion& version : spec.versions) {
    if (const auto wrong = unhonoured(version.job))
      return call.reply.send(problem(*wrong, call.envelope.request_id));
    const auto ask =
        wire::resolve_ask(version.job, catalogue->skus, catalogue->settings, catalogue->smallest_vram);
    if (!ask) return call.reply.send(problem(ask.error(), call.envelope.request_id));
    const wire::TextMap secrets = version.job.secrets;
    for (const auto& [name, secret] : secrets) version.job.secrets.set(name, api.sealer().seal(secret));
    command.versions.push_back({.name = version.name, .ask = *ask, .spec = wire::to_json(version.job)});
  }
  command.spec = wire::to_json(spec);
  const std::string owner(call.query_value("owner"));
  const auto render = [&api](const server::Outcome& outcome) {
    const auto& event = std::get<engine::ServiceSet>(outcome.events->front());
    const auto found = outcome.state->work.services.find(event.key);
    if (found == outcome.state->work.services.end()) return no_content();
    return versioned(json(view_of(api, *outcome.state, found->second)), outcome.sequence);
  };
  const bool dry = call.query_value("dry_run") == "true";
  const auto go = [&api, dry, render](Call next, engine::SetService asked, PartyId payer) {
    if (!dry) return api.run(std::move(next), std::move(asked), render);
    api.rehearse(
        std::move(next), asked, [asked, payer](const State& state, const auto& decision, Instant at) {
          return json(service_plan(state, asked, payer, decision, at));
        });
  };
  const PartyId caller = call.envelope.actor;
  if (owner.empty()) return go(std::move(call), std::move(command), caller);
  api.with_party(std::move(call), owner, [command, go](Call next, PartyId party) mutable {
    command.owner = party == PartyId{} ? PartyId::make(PartyKind::kUser, 0) : party;
    go(std::move(next), std::move(command), party);
  });
}

void set(Api& api, Call call) {
  auto spec = read_spec(call);
  if (!spec) return call.reply.send(problem(spec.error(), call.envelope.request_id));
  const std::string owner(call.query_value("owner"));
  api.loop().read([&api, call = std::move(call), spec = std::move(*spec), owner](const State& state) mutable {
    const PartyId party = owner.empty() ? call.envelope.actor : engine::find_path(state, owner);
    for (const wire::ServiceVersion& version : spec.versions)
      if (const std::string& folder = version.job.workdir; !folder.empty())
        if (const auto wrong = workdir_problem(api, state, party, folder))
          return call.reply.send(problem(*wrong, call.envelope.request_id));
    for (const std::string& caller : spec.callers)
      if (engine::find_path(state, caller).kind() != PartyKind::kTenant)
        return call.reply.send(problem(
            wire::Problem{"callers", "there is no tenant '" + caller + "'", "name tenants, such as acme"},
            call.envelope.request_id));
    set_checked(api, std::move(call), spec);
  });
}

void list(Api& api, Call call) {
  api.view(std::move(call),
           [&api](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             wire::ServiceList out;
             for (const auto& [key, service] : state.work.services)
               if (engine::may(state, actor, engine::Action::kViewJob, service.owner))
                 out.items.push_back(view_of(api, state, service));
             return json(out);
           });
}

void show(Api& api, Call call) {
  const std::string name = call.parameters.front();
  api.view(std::move(call),
           [&api, name](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const engine::Service* service = find_named(state, actor, state.work.services, name);
             if (service == nullptr) return refuse(engine::not_found());
             return versioned(json(view_of(api, state, *service)), service->revision);
           });
}

void remove(Api& api, Call call) {
  remove_named<engine::RemoveService>(api, std::move(call), &engine::Workloads::services);
}

}  // namespace

std::vector<Route> service_routes() {
  return {{.method = "PUT",
           .path = "/v1/services",
           .id = "set_service",
           .tag = "services",
           .summary = "Set up a service, or change it without dropping a request",
           .takes = body<wire::ServiceSpec>(),
           .gives = body<wire::ServiceView>(),
           .query = {"owner", "dry_run"},
           .handle = set},
          {.method = "GET",
           .path = "/v1/services",
           .id = "list_services",
           .tag = "services",
           .summary = "Services that you may see",
           .gives = body<wire::ServiceList>(),
           .handle = list},
          {.method = "GET",
           .path = "/v1/services/{service}",
           .id = "show_service",
           .tag = "services",
           .summary = "One service and its replicas",
           .gives = body<wire::ServiceView>(),
           .handle = show},
          {.method = "DELETE",
           .path = "/v1/services/{service}",
           .id = "remove_service",
           .tag = "services",
           .summary = "End a service and its replicas",
           .status = 204,
           .handle = remove}};
}

}  // namespace tranche::api
