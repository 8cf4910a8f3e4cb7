// SPDX-License-Identifier: Apache-2.0
// Properties of the fleet under random work. The counts are kept here by hand, never read back from the
// fleet.
#include "policy/placement_fleet.hpp"

#include <doctest/doctest.h>
#include <vector>

#include "base/random.hpp"

namespace tranche::policy {
namespace {

// Slots and starts of an 80 GB device with seven compute slices, as vendors publish them.
Geometry seven_slices() {
  return {{{1, 1, 0b0111'1111, 142, 9728},
           {2, 2, 0b0001'0101, 285, 19968},
           {3, 4, 0b0001'0001, 428, 40192},
           {4, 4, 0b0000'0001, 571, 40192},
           {5, 8, 0b0000'0001, 1000, 81152}}};
}

struct Held {
  Shape shape;
  Placement placement;
};

Shape random_shape(Random& random) {
  Shape shape;
  shape.cpu_milli = static_cast<std::int64_t>(random.below(9)) * 1000;
  shape.memory_mib = static_cast<std::int64_t>(random.below(9)) * 4096;
  switch (random.below(4)) {
    case 0:
      break;
    case 1:
      shape.devices = 1 + static_cast<std::int32_t>(random.below(4));
      shape.milli = kDeviceMilli;
      break;
    case 2:
      shape.devices = 1;
      shape.milli = 50 + static_cast<std::int32_t>(random.below(900));
      shape.vram = static_cast<std::int64_t>(random.below(60000));
      shape.trust_group = static_cast<std::uint32_t>(random.below(3));
      break;
    default:
      shape.devices = 1;
      shape.profile = 1 + static_cast<std::int32_t>(random.below(5));
      shape.milli = seven_slices().find(shape.profile)->milli;
      break;
  }
  if (shape.devices > 0 && random.below(3) == 0) shape.models = 1 + random.below(3);
  return shape;
}

Fleet small_fleet() {
  Fleet fleet;
  const std::uint32_t geometry = fleet.add_geometry(seven_slices());
  for (int i = 0; i < 6; ++i) {
    fleet.add_node({.cpu_milli = 64000,
                    .memory_mib = 262144,
                    .devices = 2 + 2 * (i % 3),
                    .model = i % 2,
                    .vram = 81920,
                    .geometry = geometry});
  }
  return fleet;
}

// What may never be, counted from the list of holders alone.
void check_never_oversold(const Fleet& fleet, const std::vector<Held>& held) {
  for (NodeIndex node = 0; node < fleet.node_count(); ++node) {
    std::int64_t cpu = 0;
    std::int64_t memory = 0;
    for (int device = 0; device < fleet.spec(node).devices; ++device) {
      std::int64_t milli = 0;
      std::int64_t vram = 0;
      unsigned slots = 0;
      int shares = 0;
      int partitions = 0;
      int wholes = 0;
      std::uint32_t group = 0;
      for (const Held& one : held) {
        if (one.placement.node != node || ((unsigned{one.placement.devices} >> device) & 1U) == 0) continue;
        milli += one.shape.milli;
        vram += one.shape.vram;
        if (one.shape.profile != 0) {
          const Geometry table = seven_slices();
          const PartitionProfile& profile = *table.find(one.shape.profile);
          const unsigned mine = profile.slots_at(one.placement.slot(device));
          CHECK(((unsigned{profile.starts} >> one.placement.slot(device)) & 1U) == 1);  // A legal start,
          CHECK((slots & mine) == 0);  // on slots nobody has.
          CHECK(mine < 256);
          slots |= mine;
          vram += profile.vram;
          ++partitions;
        } else if (one.shape.whole()) {
          ++wholes;
        } else {
          if (shares++ > 0) CHECK(group == one.shape.trust_group);
          group = one.shape.trust_group;
        }
      }
      CHECK(milli <= kDeviceMilli);
      CHECK(vram <= 81920);
      CHECK((wholes > 0) + (shares > 0) + (partitions > 0) <= 1);
      CHECK(wholes <= 1);
    }
    for (const Held& one : held) {
      if (one.placement.node != node) continue;
      cpu += one.shape.cpu_milli;
      memory += one.shape.memory_mib;
    }
    CHECK(cpu + fleet.node(node).cpu_left == 64000);
    CHECK(memory + fleet.node(node).memory_left == 262144);
    CHECK(fleet.node(node).cpu_left >= 0);
  }
}

TEST_CASE("fleet: no device is oversold and every partition starts where it may, at any instant") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Fleet fleet = small_fleet();
    std::vector<Held> held;
    for (int step = 0; step < 250; ++step) {
      if (!held.empty() && random.below(3) == 0) {
        const std::size_t victim = random.below(held.size());
        fleet.release(held[victim].shape, held[victim].placement);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(victim));
      } else {
        const Shape shape = random_shape(random);
        const auto node = static_cast<NodeIndex>(random.below(fleet.node_count()));
        const auto placement = fleet.tightest(node, shape);
        CHECK(placement.has_value() == fleet.fits(node, shape));
        if (!placement) continue;
        fleet.take(shape, *placement);
        held.push_back({shape, *placement});
      }
      if (step % 10 == 0) check_never_oversold(fleet, held);
    }
    check_never_oversold(fleet, held);
  }
}

TEST_CASE("fleet: releasing everything restores the very first state") {
  Random random(7);
  Fleet fleet = small_fleet();
  const Fleet fresh = small_fleet();
  std::vector<Held> held;
  for (int step = 0; step < 400; ++step) {
    const Shape shape = random_shape(random);
    const auto placement = fleet.tightest(static_cast<NodeIndex>(random.below(fleet.node_count())), shape);
    if (!placement) continue;
    fleet.take(shape, *placement);
    held.push_back({shape, *placement});
  }
  CHECK(held.size() > 10);
  while (!held.empty()) {
    const std::size_t at = random.below(held.size());
    fleet.release(held[at].shape, held[at].placement);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
  }
  CHECK(fleet.allocated_milli() == 0);
  for (NodeIndex node = 0; node < fleet.node_count(); ++node) {
    CHECK(fleet.node(node).devices == fresh.node(node).devices);
    CHECK(fleet.node(node).hosted == fresh.node(node).hosted);
    CHECK(fleet.node(node).cpu_left == fresh.node(node).cpu_left);
    CHECK(fleet.node(node).memory_left == fresh.node(node).memory_left);
  }
}

TEST_CASE("fleet: every node is counted once in the reasons why not") {
  Fleet fleet;
  const FilterIndex only_pool_1 = fleet.add_filter({1});
  fleet.add_node({.cpu_milli = 8000, .memory_mib = 1000, .devices = 2, .model = 0, .pool = 1});
  fleet.add_node({.cpu_milli = 8000, .memory_mib = 1000, .devices = 2, .model = 0, .pool = 2});
  fleet.add_node({.cpu_milli = 8000, .memory_mib = 1000, .devices = 2, .model = 1, .pool = 1});
  fleet.add_node({.cpu_milli = 8000, .memory_mib = 1000, .devices = 1, .model = 0, .pool = 1});
  fleet.add_node({.cpu_milli = 8000, .memory_mib = 1000, .devices = 2, .model = 0, .pool = 1});
  fleet.add_node({.cpu_milli = 8000, .memory_mib = 1000, .devices = 2, .model = 0, .pool = 1});
  fleet.add_node({.cpu_milli = 8000, .memory_mib = 1000, .devices = 2, .model = 0, .pool = 1});
  fleet.set_open(4, false);
  const Shape half{.cpu_milli = 1000, .memory_mib = 10, .devices = 1, .milli = 500};
  fleet.take(half, fleet.on_device(5, half, 0));
  fleet.take(half, fleet.on_device(5, half, 1));
  fleet.take({.cpu_milli = 7500}, {.node = 6});
  const Unfit why = fleet.explain(
      {.cpu_milli = 1000, .memory_mib = 10, .devices = 1, .milli = 1000, .models = 1, .filter = only_pool_1});
  CHECK(why.fits == 2);
  CHECK(why.filtered == 1);
  CHECK(why.wrong_model == 1);
  CHECK(why.closed == 1);
  CHECK(why.fragmentation == 1);
  CHECK(why.cpu == 1);
  CHECK(fleet.explain({.cpu_milli = 9000}).too_small == 6);
}

TEST_CASE("partition: small profiles leave the place a large one needs") {
  const Geometry table = seven_slices();
  // One slice goes to the end that no four-slot profile needs first.
  const auto start = table.best_start(*table.find(1), 0);
  REQUIRE(start.has_value());
  CHECK(table.best_start(*table.find(4), table.find(1)->slots_at(*start)).has_value());
  CHECK_FALSE(table.best_start(*table.find(5), 1).has_value());
  CHECK(table.find(9) == nullptr);
}

TEST_CASE("fleet: a blocked device takes nothing new and keeps what it has") {
  Fleet fleet;
  fleet.add_node({.cpu_milli = 8000, .memory_mib = 1000, .devices = 1});
  const Shape half{.devices = 1, .milli = 500};
  const Placement placement = *fleet.tightest(0, half);
  fleet.take(half, placement);
  fleet.set_blocked(0, 0, true);
  CHECK_FALSE(fleet.fits(0, half));
  fleet.release(half, placement);
  CHECK_FALSE(fleet.fits(0, half));
  fleet.set_blocked(0, 0, false);
  CHECK(fleet.fits(0, {.devices = 1, .milli = 1000}));
}

}  // namespace
}  // namespace tranche::policy
