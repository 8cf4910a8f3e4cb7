// SPDX-License-Identifier: Apache-2.0
// Working directories: uploaded piece by piece under the digest of the whole, for one tenant.
#include <charconv>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/wall_clock.hpp"
#include "wire/api_volume.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
using Place = UniqueFunction<void(Call, PartyId tenant)>;

std::uint64_t number(const Call& call, std::string_view name) {
  const std::string_view value = call.query_value(name);
  std::uint64_t out = 0;
  std::from_chars(value.data(), value.data() + value.size(), out);
  return out;
}

wire::WorkdirView view_of(const std::string& digest, std::uint64_t size, const server::WorkdirHeld& held) {
  return {.digest = digest,
          .size = {static_cast<std::int64_t>(held.complete ? held.bytes : size)},
          .held = {static_cast<std::int64_t>(held.bytes)},
          .complete = held.complete};
}

// Goes on, beside the engine, with the tenant for whose jobs the caller may upload.
void with_tenant(Api& api, Call call, Place then) {
  const std::string& digest = call.parameters.front();
  if (!server::WorkdirStore::is_digest(digest) || api.options().workdirs == nullptr)
    return call.reply.send(
        problem(wire::Problem{"digest", "must be sha256: and 64 small hexadecimal digits", ""},
                call.envelope.request_id));
  const std::string owner(call.query_value("owner"));
  api.loop().read([&api, call = std::move(call), owner, then = std::move(then)](const State& state) mutable {
    call.envelope.at = clock_at_least(state.now);
    const auto actor = engine::actor_of(state, call.envelope);
    if (!actor) return call.reply.send(unauthenticated(call.envelope.request_id));
    const PartyId party = owner.empty() ? actor->party : engine::find_path(state, owner);
    if (auto refusal = engine::check_access(state, *actor, engine::Action::kSubmitJob, party)) {
      api.note_denial(call.envelope, call.request.method + ' ' + call.request.path, *refusal);
      return call.reply.send(problem(*refusal, call.envelope.request_id));
    }
    const PartyId tenant = engine::tenant_of(state, party);
    api.later(std::move(call),
              [tenant, then = std::move(then)](Call next) mutable { then(std::move(next), tenant); });
  });
}

void show(Api& api, Call call) {
  server::WorkdirStore* store = api.options().workdirs;
  with_tenant(api, std::move(call), [store](Call next, PartyId tenant) {
    const std::string digest = next.parameters.front();
    next.reply.send(json(view_of(digest, 0, store->held(tenant, digest))));
  });
}

void put(Api& api, Call call) {
  server::WorkdirStore* store = api.options().workdirs;
  with_tenant(api, std::move(call), [store](Call next, PartyId tenant) {
    const std::string digest = next.parameters.front();
    const std::uint64_t size = number(next, "size");
    const auto held = store->put(tenant, digest, size, number(next, "offset"), next.request.body);
    if (!held)
      return next.reply.send(problem(wire::Problem{"body", held.error(), ""}, next.envelope.request_id));
    next.reply.send(json(view_of(digest, size, *held)));
  });
}

}  // namespace

std::vector<Route> workdir_routes() {
  return {{.method = "GET",
           .path = "/v1/workdirs/{digest}",
           .id = "show_workdir",
           .tag = "storage",
           .summary = "How much of a working directory the server has",
           .gives = body<wire::WorkdirView>(),
           .query = {"owner"},
           .handle = show},
          {.method = "PUT",
           .path = "/v1/workdirs/{digest}",
           .id = "put_workdir",
           .tag = "storage",
           .summary = "Upload a piece of a working directory: bytes of a tar archive from offset on",
           .gives = body<wire::WorkdirView>(),
           .query = {"owner", "size", "offset"},
           .handle = put}};
}

}  // namespace tranche::api
