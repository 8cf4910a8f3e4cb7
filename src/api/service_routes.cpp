// SPDX-License-Identifier: Apache-2.0
// Services: set, look at, remove.
#include "api/api.hpp"
#include "api/named.hpp"
#include "api/problem.hpp"
#include "api/submission.hpp"
#include "api/views.hpp"
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

void set_checked(Api& api, Call call, wire::ServiceSpec& spec) {
  const auto catalogue = api.catalogue();
  engine::SetService command{.name = spec.name, .replicas_max = spec.replicas.max};
  for (wire::ServiceVersion& version : spec.versions) {
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
  if (owner.empty()) return api.run(std::move(call), std::move(command), render);
  api.with_party(std::move(call), owner, [&api, command, render](Call next, PartyId party) mutable {
    command.owner = party == PartyId{} ? PartyId::make(PartyKind::kUser, 0) : party;
    api.run(std::move(next), std::move(command), render);
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
           .query = {"owner"},
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
