// SPDX-License-Identifier: Apache-2.0
#include "wire/partition_geometry.hpp"

#include <doctest/doctest.h>
#include <string>

#include "base/random.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::wire {
namespace {

TEST_CASE("geometry: every device that can be cut has one, and its largest partition is nearly the device") {
  for (const GpuModel& model : gpu_catalog()) {
    CAPTURE(model.name);
    const auto* geometry = find_geometry(model.name);
    CHECK((geometry != nullptr) == (model.vendor == GpuVendor::kNvidia && model.partitions_max > 0));
    if (geometry == nullptr) continue;
    CHECK(geometry->compute_slices == model.partitions_max);
    const PartitionProfile& largest = geometry->profiles.back();
    CHECK(largest.memory_slices == geometry->memory_slices);
    CHECK(largest.memory.count > model.vram.count * 8 / 10);
    CHECK(largest.memory.count < model.vram.count * 11 / 10);
  }
}

TEST_CASE("geometry: as many of one profile fit as the table says, wherever they are put") {
  for (const PartitionGeometry& geometry : partition_geometries()) {
    for (const PartitionProfile& profile : geometry.profiles) {
      CAPTURE(geometry.device);
      CAPTURE(profile.name);
      std::vector<PlacedPartition> layout;
      for (auto starts = free_starts(geometry, layout, profile); !starts.empty();
           starts = free_starts(geometry, layout, profile)) {
        layout.push_back({.profile = &profile, .start = starts.front()});
      }
      CHECK(layout.size() == profile.count_max);
    }
  }
}

TEST_CASE("geometry: 3g beside 3g or 4g fills an A100, and 2g cannot start where 3g lies") {
  const PartitionGeometry& a100 = *find_geometry("A100-80GB");
  const auto* three = find_profile(a100, "3G.40GB");
  const auto* four = find_profile(a100, "4g.40gb");
  const auto* two = find_profile(a100, "2g.20gb");
  const auto* one = find_profile(a100, "1g.10gb");
  REQUIRE((three && four && two && one));
  const std::vector<PlacedPartition> full{{three, 0}, {three, 4}};
  CHECK(is_legal(a100, full));
  CHECK(free_starts(a100, full, *one).empty());
  const std::vector<PlacedPartition> mixed{{four, 0}, {three, 4}};
  CHECK(is_legal(a100, mixed));
  const std::vector<PlacedPartition> low{{three, 0}};
  CHECK(free_starts(a100, low, *two) == std::vector<std::uint8_t>{4});
  CHECK(free_starts(a100, low, *one) == std::vector<std::uint8_t>{4, 5, 6});
  const std::vector<PlacedPartition> wrong{{two, 1}};
  CHECK_FALSE(is_legal(a100, wrong));
}

TEST_CASE("geometry: slices are never taken twice, whatever is added at random") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto& geometry = partition_geometries()[random.below(partition_geometries().size())];
    std::vector<PlacedPartition> layout;
    for (int i = 0; i < 12; ++i) {
      const auto& profile = geometry.profiles[random.below(geometry.profiles.size())];
      const auto starts = free_starts(geometry, layout, profile);
      if (!starts.empty()) layout.push_back({&profile, starts[random.below(starts.size())]});
    }
    std::vector<int> owners(geometry.memory_slices, 0);
    int compute = 0;
    for (const auto& placed : layout) {
      for (std::size_t i = 0; i < placed.profile->memory_slices; ++i) ++owners.at(placed.start + i);
      compute += placed.profile->compute_slices;
    }
    for (const int owner : owners) CHECK(owner <= 1);
    CHECK(compute <= geometry.compute_slices);
  }
}

}  // namespace
}  // namespace tranche::wire
