// SPDX-License-Identifier: Apache-2.0
// Volumes: create, look at, copy, remove.
#include <map>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "engine/plan_price.hpp"
#include "engine/storage_charge.hpp"
#include "wire/api_plan.hpp"
#include "wire/api_volume.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
using engine::Volume;

using Users = std::map<VolumeId, std::vector<JobId>>;

// Jobs that have a volume or wait with one, in one walk over all of them.
Users users_of_volumes(const State& state) {
  Users users;
  for (const auto& [id, job] : state.jobs) {
    if (job.ask.volumes.empty() || is_over(job.state)) continue;
    for (const std::string& name : job.ask.volumes)
      if (const Volume* volume = engine::find_volume(state, job.owner, name)) users[volume->id].push_back(id);
  }
  return users;
}

wire::VolumeView view_of(const State& state, const Volume& volume, const Users& users) {
  wire::VolumeView view{
      .id = volume.id,
      .name = volume.name,
      .owner = engine::path_of(state, volume.owner),
      .size = {volume.bytes},
      .state = volume.state,
      .source = volume.source,
      .encrypted = engine::is_encrypted(state, volume),
      .created = volume.created,
      .backend = volume.shared() ? wire::VolumeBackend::kShared : wire::VolumeBackend::kNode,
      .pool = volume.pool,
      .hourly = engine::storage_hourly(state, volume, clock_at_least(state.now)),
      .charged = volume.charged,
      .currency = state.settings.currency};
  if (const engine::Node* node = state.node(volume.node)) view.node = node->name;
  if (volume.receipt.volume == volume.id) view.receipt = volume.receipt;
  if (const auto found = users.find(volume.id); found != users.end()) view.used_by = found->second;
  return view;
}

net::Response rendered(const server::Outcome& outcome, VolumeId id, int status) {
  const State& state = *outcome.state;
  return json(view_of(state, state.volumes.at(id), users_of_volumes(state)), status);
}

void list(Api& api, Call call) {
  const std::string owner(call.query_value("owner"));
  const bool all = call.query_value("all") == "true";
  api.view(std::move(call),
           [owner, all](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const PartyId under = owner.empty() ? kPlatform : engine::find_path(state, owner);
             if (!owner.empty() && (under == PartyId{} || !engine::can_see(state, actor, under)))
               return refuse(engine::not_found());
             wire::VolumeList out;
             const Users users = users_of_volumes(state);
             for (const auto& [id, volume] : state.volumes) {
               if (!engine::is_at_or_below(state, volume.owner, under)) continue;
               if (!engine::can_use(state, actor, volume)) continue;
               if (all || volume.state != wire::VolumeState::kGone)
                 out.items.push_back(view_of(state, volume, users));
             }
             return json(out);
           });
}

void show(Api& api, Call call) {
  const std::string name = call.parameters.front();
  api.view(std::move(call),
           [name](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const Volume* volume = engine::usable_volume(state, actor, name);
             if (volume == nullptr) return refuse(engine::not_found());
             return json(view_of(state, *volume, users_of_volumes(state)));
           });
}

net::Response volume_plan(const State& state, const engine::Decision& decision, Instant at) {
  wire::PricePlan plan{.admitted = decision.has_value()};
  if (decision) {
    const auto& made = std::get<engine::VolumeCreated>(decision->front());
    const Volume volume{.owner = made.owner, .bytes = made.bytes, .pool = made.pool};
    plan.what = "a volume of " + text(Bytes{made.bytes});
    plan.price = engine::volume_price(state, volume, at);
  } else {
    plan.refusal = decision.error();
  }
  return json(plan);
}

void create(Api& api, Call call) {
  auto body = parse<wire::VolumeCreate>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.loop().read([&api, call = std::move(call), body = std::move(*body)](const State& state) mutable {
    engine::CreateVolume command{
        .name = body.name, .bytes = body.size.count, .backend = body.backend, .pool = body.pool};
    // What does not exist is refused by the engine as any other that the caller may not see.
    if (!body.owner.empty()) {
      const PartyId owner = engine::find_path(state, body.owner);
      command.owner = owner == PartyId{} ? PartyId::make(PartyKind::kTenant, 0) : owner;
    }
    if (!body.node.empty()) {
      const auto id = parse_id("node_", body.node);
      const auto named = state.index.nodes_by_name.find(body.node);
      command.node = id                                         ? NodeId{*id}
                     : named != state.index.nodes_by_name.end() ? named->second
                                                                : NodeId{UINT64_MAX};
    }
    if (call.query_value("dry_run") == "true")
      return api.rehearse(std::move(call), std::move(command), volume_plan);
    api.run(std::move(call), std::move(command), [](const server::Outcome& outcome) {
      const VolumeId id = std::get<engine::VolumeCreated>(outcome.events->front()).id;
      net::Response response = rendered(outcome, id, 201);
      response.headers.emplace_back("Location", "/v1/volumes/" + text(id));
      return response;
    });
  });
}

// Goes on with the volume that the path names for this caller; zero when there is none for him.
void with_volume(Api& api, Call call, UniqueFunction<void(Call, VolumeId)> then) {
  const std::string name = call.parameters.front();
  api.loop().read([call = std::move(call), name, then = std::move(then)](const State& state) mutable {
    call.envelope.at = clock_at_least(state.now);
    const auto actor = engine::actor_of(state, call.envelope);
    const Volume* volume = actor ? engine::usable_volume(state, *actor, name) : nullptr;
    then(std::move(call), volume == nullptr ? VolumeId{} : volume->id);
  });
}

void snapshot(Api& api, Call call) {
  auto body = parse<wire::VolumeSnapshot>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  with_volume(api, std::move(call), [&api, name = body->name](Call next, VolumeId id) {
    api.run(std::move(next), engine::SnapshotVolume{id, name}, [](const server::Outcome& outcome) {
      return rendered(outcome, std::get<engine::VolumeCreated>(outcome.events->front()).id, 201);
    });
  });
}

void remove(Api& api, Call call) {
  with_volume(api, std::move(call), [&api](Call next, VolumeId id) {
    api.run(std::move(next), engine::RemoveVolume{id}, [id](const server::Outcome& outcome) {
      return rendered(outcome, id, 200);
    });
  });
}

}  // namespace

std::vector<Route> volume_routes() {
  return {
      {.method = "GET",
       .path = "/v1/volumes",
       .id = "list_volumes",
       .tag = "storage",
       .summary = "Volumes that you may use; with all=true also those that were wiped, with their receipts",
       .gives = body<wire::VolumeList>(),
       .query = {"owner", "all"},
       .handle = list},
      {.method = "POST",
       .path = "/v1/volumes",
       .id = "create_volume",
       .tag = "storage",
       .summary = "Create a volume on a node, or in a pool that several nodes mount",
       .takes = body<wire::VolumeCreate>(),
       .gives = body<wire::VolumeView>(),
       .status = 201,
       .query = {"dry_run"},
       .handle = create},
      {.method = "GET",
       .path = "/v1/volumes/{volume}",
       .id = "show_volume",
       .tag = "storage",
       .summary = "One volume, by id, name or owner/name",
       .gives = body<wire::VolumeView>(),
       .handle = show},
      {.method = "POST",
       .path = "/v1/volumes/{volume}/snapshot",
       .id = "snapshot_volume",
       .tag = "storage",
       .summary = "Copy a volume that nobody uses into a new one",
       .takes = body<wire::VolumeSnapshot>(),
       .gives = body<wire::VolumeView>(),
       .status = 201,
       .handle = snapshot},
      {.method = "DELETE",
       .path = "/v1/volumes/{volume}",
       .id = "remove_volume",
       .tag = "storage",
       .summary = "Wipe a volume; its receipt follows",
       .gives = body<wire::VolumeView>(),
       .handle = remove},
  };
}

}  // namespace tranche::api
