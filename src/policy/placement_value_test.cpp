// SPDX-License-Identifier: Apache-2.0
// The default policy against a plain scan of the same fleet, over random work with departures.
#include "policy/placement_value.hpp"

#include <doctest/doctest.h>
#include <vector>

#include "base/random.hpp"
#include "policy/placement_consolidate.hpp"
#include "policy/placement_placer.hpp"
#include "policy/placement_states.hpp"
#include "policy/placement_waste.hpp"

namespace tranche::policy {
namespace {

Fleet mixed_fleet(int nodes) {
  Fleet fleet;
  for (int i = 0; i < nodes; ++i) {
    const bool large = i % 3 != 0;
    fleet.add_node({.cpu_milli = large ? 96000 : 32000,
                    .memory_mib = large ? 393216 : 131072,
                    .devices = large ? 8 : 2,
                    .model = large ? 0 : 1,
                    .vram = 40000});
  }
  return fleet;
}

std::vector<Shape> some_kinds(std::uint64_t seed) {
  Random random(seed);
  std::vector<Shape> kinds;
  for (int i = 0; i < 24; ++i) {
    Shape shape{.cpu_milli = 1000 * (1 + static_cast<std::int64_t>(random.below(12))),
                .memory_mib = 4096 * (1 + static_cast<std::int64_t>(random.below(8)))};
    if (i % 6 != 0) {
      shape.devices = i % 8 == 1 ? 4 : 1;
      shape.milli = shape.devices > 1 || random.below(2) == 0 ? kDeviceMilli
                                                              : 100 + static_cast<int>(random.below(700));
      if (shape.milli < kDeviceMilli && random.below(2) == 0) shape.vram = 5000;
      if (random.below(4) == 0) shape.models = 1 + random.below(2);
    }
    kinds.push_back(shape);
  }
  return kinds;
}

struct Held {
  KindIndex kind = 0;
  Placement placement;
};

// Runs random work; checks that a drop fits nowhere; returns the decisions.
std::vector<Placement> run_work(std::uint64_t seed, int steps, bool departures) {
  Placer placer(mixed_fleet(30));
  placer.use(make_value_policy(placer.fleet()));
  const std::vector<Shape> kinds = some_kinds(seed);
  Random random(seed);
  std::vector<Held> held;
  std::vector<Placement> decisions;
  for (int step = 0; step < steps; ++step) {
    if (departures && held.size() > 150 && random.below(2) == 0) {
      const std::size_t victim = random.below(held.size());
      placer.release(held[victim].kind, held[victim].placement);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(victim));
      continue;
    }
    const KindIndex kind = placer.kind(kinds[random.below(kinds.size())]);
    const Unfit before = placer.fleet().explain(placer.shape(kind));
    const auto placement = placer.place(kind);
    CHECK(placement.has_value() == (before.fits > 0));
    decisions.push_back(placement.value_or(Placement{}));
    if (placement) held.push_back({kind, *placement});
  }
  return decisions;
}

TEST_CASE("default policy: a job is refused exactly when it fits on no node") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    run_work(seed, 600, false);
    run_work(seed, 1500, true);
  }
}

TEST_CASE("default policy: the same work gives the same decisions") {
  CHECK(run_work(11, 1200, true) == run_work(11, 1200, true));
  CHECK(run_work(11, 300, true) != run_work(12, 300, true));
}

TEST_CASE("default policy: closed nodes and blocked devices are left alone") {
  Placer placer(mixed_fleet(3));
  placer.use(make_value_policy(placer.fleet()));
  placer.set_open(1, false);
  placer.set_blocked(2, 0, true);
  const KindIndex whole =
      placer.kind({.cpu_milli = 1000, .memory_mib = 10, .devices = 1, .milli = kDeviceMilli});
  int placed = 0;
  while (const auto placement = placer.place(whole)) {
    CHECK(placement->node != 1);
    CHECK_FALSE((placement->node == 2 && (placement->devices & 1U) != 0));
    ++placed;
  }
  CHECK(placed == 2 + 7);
  placer.set_open(1, true);
  CHECK(placer.place(whole).has_value());
}

// Nodes on which nothing is, after shares alone have come and gone on two fifths of forty nodes.
int whole_nodes_after_shares(const ValueOptions& options) {
  Fleet fleet;
  for (int i = 0; i < 40; ++i)
    fleet.add_node({.cpu_milli = 96000, .memory_mib = 393216, .devices = 8, .vram = 40000});
  Placer placer(std::move(fleet));
  placer.use(make_value_policy(placer.fleet(), options));
  Random random(5);
  std::vector<Held> held;
  for (int step = 0; step < 6000; ++step) {
    if (placer.fleet().allocated_milli() > 40 * 8 * 400) {
      const std::size_t leaves = random.below(held.size());
      placer.release(held[leaves].kind, held[leaves].placement);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(leaves));
      continue;
    }
    const KindIndex kind = placer.kind({.cpu_milli = 2000,
                                        .memory_mib = 4096,
                                        .devices = 1,
                                        .milli = 250 + 50 * static_cast<int>(random.below(12))});
    held.push_back({kind, *placer.place(kind)});
  }
  int whole = 0;
  for (NodeIndex node = 0; node < 40; ++node)
    whole += placer.fleet().node(node).idle_milli() == 8 * kDeviceMilli ? 1 : 0;
  return whole;
}

TEST_CASE("default policy: shares leave nodes whole before the first job has asked for one") {
  const int kept = whole_nodes_after_shares({});
  CHECK(kept >= 12);
  ValueOptions unaware;
  unaware.whole_nodes = 0;
  CHECK(kept > whole_nodes_after_shares(unaware));
}

TEST_CASE("waste: out of reach is what the next job could not use, on average") {
  LeanNode node{.cpu = 8000, .memory = 100, .free = 1};
  node.insert(300);
  const LeanForm whole{.cpu = 4000, .devices = 1, .milli = kDeviceMilli};
  const LeanForm half{.cpu = 4000, .devices = 1, .milli = 500};
  const LeanForm pair{.cpu = 4000, .devices = 2, .milli = kDeviceMilli};
  // A tenth of the arrivals asks for no device.
  TerminalWaste waste(
      {{whole, 0.4}, {half, 0.3}, {pair, 0.2}}, {.streams = 4, .length = 4, .reach = true}, 1);
  CHECK(waste.of(node).out_of_reach == doctest::Approx(1300 - 0.7 * 1000));
  node.cpu = 3000;
  CHECK(waste.of(node).out_of_reach == doctest::Approx(1300));
}

TEST_CASE("states: nodes on different shelves are told apart, and put together again") {
  Fleet fleet;
  for (int i = 0; i < 40; ++i) fleet.add_node({.cpu_milli = 1000, .memory_mib = 1, .devices = 2});
  StateTable table(fleet);
  for (NodeIndex node = 0; node < 40; ++node) table.update(node);
  CHECK(table.live_states(0) == 1);
  table.set_shelves(4);
  CHECK(table.live_states(0) == 4);
  std::uint32_t nodes = 0;
  for (const StateRef ref : table.log(0))
    if (table.live(ref)) nodes += table.state(ref.state).count;
  CHECK(nodes == 40);
  table.set_shelves(1);
  CHECK(table.live_states(0) == 1);
}

TEST_CASE("default policy: nodes and kinds may come later") {
  Placer placer(mixed_fleet(1));
  placer.use(make_value_policy(placer.fleet()));
  const KindIndex eight =
      placer.kind({.cpu_milli = 8000, .memory_mib = 10, .devices = 8, .milli = kDeviceMilli});
  CHECK_FALSE(placer.place(eight).has_value());
  placer.add_node({.cpu_milli = 128000, .memory_mib = 262144, .devices = 8, .model = 5, .vram = 1000});
  const auto placement = placer.place(eight);
  REQUIRE(placement.has_value());
  CHECK(placement->node == 1);
}

TEST_CASE("consolidation: a few moves make room, and nothing is lost on the way") {
  Placer placer([] {
    Fleet fleet;
    for (int i = 0; i < 3; ++i) fleet.add_node({.cpu_milli = 16000, .memory_mib = 1000, .devices = 2});
    return fleet;
  }());
  placer.use(make_scan_policy(placer.fleet(), make_best_fit_scorer(placer.fleet())));
  Residents residents;
  const KindIndex half = placer.kind({.cpu_milli = 1000, .memory_mib = 1, .devices = 1, .milli = 500});
  const KindIndex pair =
      placer.kind({.cpu_milli = 1000, .memory_mib = 1, .devices = 2, .milli = kDeviceMilli});
  std::uint64_t job = 0;
  for (NodeIndex node = 0; node < 3; ++node) {  // One half on each node: no node has two free devices.
    const Placement placement = *placer.fleet().tightest(node, placer.shape(half));
    placer.take(half, placement);
    residents.add({++job, half, placement});
  }
  CHECK_FALSE(placer.place(pair).has_value());
  const auto moves = make_room(placer, residents, pair);
  REQUIRE(moves.has_value());
  CHECK(moves->size() == 1);
  CHECK(placer.fleet().allocated_milli() == 1500);
  CHECK(placer.place(pair).has_value());
  CHECK(placer.place(pair).has_value() == false);
  // Now one node holds the pair, one two halves, one a half: moving the last half frees another pair only if
  // there is a place for it, which there is not on whole devices.
  std::size_t count = 0;
  for (NodeIndex node = 0; node < 3; ++node) count += residents.on(node).size();
  CHECK(count == 3);
}

TEST_CASE("consolidation: nobody moves for a job that takes more processors than its part") {
  Placer placer([] {
    Fleet fleet;
    for (int i = 0; i < 2; ++i) fleet.add_node({.cpu_milli = 16000, .memory_mib = 1000, .devices = 2});
    return fleet;
  }());
  placer.use(make_scan_policy(placer.fleet(), make_best_fit_scorer(placer.fleet())));
  Residents residents;
  const KindIndex half = placer.kind({.cpu_milli = 1000, .memory_mib = 1, .devices = 1, .milli = 500});
  for (NodeIndex node = 0; node < 2; ++node) {
    const Placement placement = *placer.fleet().tightest(node, placer.shape(half));
    placer.take(half, placement);
    residents.add({node, half, placement});
  }
  // 30 processors and three devices are idle: ten a device, so 20 is the part of a pair.
  const auto pair = [&](std::int64_t cpu_milli) {
    return placer.kind({.cpu_milli = cpu_milli, .memory_mib = 1, .devices = 2, .milli = kDeviceMilli});
  };
  placer.take(placer.kind({.cpu_milli = 12000, .memory_mib = 1}), {.node = 1});  // Six a device now.
  CHECK_FALSE(make_room(placer, residents, pair(15000)).has_value());
  CHECK_FALSE(make_room(placer, residents, placer.kind({.cpu_milli = 16000, .memory_mib = 1})).has_value());
  CHECK(make_room(placer, residents, pair(12000)).has_value());
}

}  // namespace
}  // namespace tranche::policy
