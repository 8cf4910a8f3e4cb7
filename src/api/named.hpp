// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a tenant gives names of its own: services, jobs by the calendar. Whoever may not see one finds none.
#include <map>
#include <string>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/wall_clock.hpp"

namespace tranche::api {

template <class Key, class Named>
[[nodiscard]] const Named* find_named(const engine::State& state,
                                      const engine::Actor& actor,
                                      const std::map<Key, Named>& all,
                                      const std::string& name) {
  for (const auto& [key, one] : all)
    if (key.name == name && engine::may(state, actor, engine::Action::kViewJob, one.owner)) return &one;
  return nullptr;
}

// The command that removes it, with the key of the one that the caller means; the engine refuses a key of
// nothing.
template <class Command, class Key, class Named>
void remove_named(Api& api, Call call, std::map<Key, Named> engine::Workloads::* all) {
  const std::string name = call.parameters.front();
  api.loop().read([&api, call = std::move(call), name, all](const engine::State& state) mutable {
    call.envelope.at = clock_at_least(state.now);
    const auto actor = engine::actor_of(state, call.envelope);
    if (!actor) return call.reply.send(unauthenticated(call.envelope.request_id));
    const Named* one = find_named(state, *actor, state.work.*all, name);
    api.run(std::move(call), Command{one == nullptr ? Key{} : one->key}, [](const server::Outcome&) {
      return no_content();
    });
  });
}

}  // namespace tranche::api
