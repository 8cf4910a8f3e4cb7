// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_waiting.hpp"

#include <doctest/doctest.h>
#include <map>

#include "base/random.hpp"
#include "policy/placement_placer.hpp"

namespace tranche::policy {
namespace {

TEST_CASE("waiting kinds: a kind that fits somewhere is never held to be hopeless") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Placer placer([] {
      Fleet fleet;
      for (int i = 0; i < 8; ++i) fleet.add_node({.cpu_milli = 16000, .memory_mib = 64000, .devices = 4});
      return fleet;
    }());
    placer.use(make_scan_policy(placer.fleet(), make_best_fit_scorer(placer.fleet())));
    WaitingKinds waiting;
    for (int i = 0; i < 12; ++i) {
      const Shape shape{.cpu_milli = 1000 * (1 + static_cast<std::int64_t>(random.below(8))),
                        .devices = static_cast<std::int32_t>(1 + (i % 4)),
                        .milli = kDeviceMilli};
      waiting.wait(placer.kind(shape), shape);
    }
    std::vector<std::pair<KindIndex, Placement>> running;
    for (int pass = 0; pass < 60; ++pass) {
      if (!running.empty() && random.below(2) == 0) {
        const std::size_t at = random.below(running.size());
        placer.release(running[at].first, running[at].second);
        waiting.node_freed(running[at].second.node);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
      }
      waiting.revive(placer.fleet());
      for (KindIndex kind = 0; kind < placer.kind_count(); ++kind) {
        const bool fits = placer.fleet().explain(placer.shape(kind)).fits > 0;
        if (fits) CHECK(waiting.may_fit(kind));
      }
      const auto kind = static_cast<KindIndex>(random.below(placer.kind_count()));
      const auto placement = placer.place(kind);
      placement ? running.emplace_back(kind, *placement), void() : waiting.refused(kind);
    }
  }
}

TEST_CASE("waiting kinds: nothing is looked at again while nothing changes") {
  Fleet fleet;
  fleet.add_node({.cpu_milli = 1000, .memory_mib = 1000, .devices = 1});
  WaitingKinds waiting;
  const Shape two{.devices = 2, .milli = kDeviceMilli};
  waiting.wait(0, two);
  CHECK(waiting.may_fit(0));
  waiting.refused(0);
  CHECK(waiting.revive(fleet) == 0);
  waiting.node_freed(0);  // Freed, but still too small.
  CHECK(waiting.revive(fleet) == 0);
  CHECK_FALSE(waiting.may_fit(0));
  waiting.leave(0);
  CHECK(waiting.waiting(0) == 0);
}

}  // namespace
}  // namespace tranche::policy
