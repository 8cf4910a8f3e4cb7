// SPDX-License-Identifier: Apache-2.0
#pragma once
// Into what hardware partitions (MIG) a device can be cut, and where each may start.
//
// For planning and simulation only: names and sizes differ between drivers on the same device, so an agent
// reads them from the device. Sizes marked as estimates were not on record anywhere we looked.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"

namespace tranche::wire {

struct PartitionProfile {
  std::string_view name;            // 1g.10gb
  std::uint8_t compute_slices = 0;  // Of the geometry's.
  std::uint8_t memory_slices = 0;
  std::uint8_t starts = 0;  // Bit n: may start at memory slice n.
  std::uint8_t count_max = 0;
  bool media = false;  // +me: has the one set of media engines; at most one a device.
  bool estimated = false;
  std::int16_t driver_id = -1;       // As nvidia-smi numbers profiles; -1: not on record.
  std::int16_t multiprocessors = 0;  // 0: not on record.
  Bytes memory{};
};

struct PartitionGeometry {
  std::string_view device;          // Short for people: H100-80.
  std::uint8_t compute_slices = 0;  // 7, or 4.
  std::uint8_t memory_slices = 0;   // 8, or 4.
  std::span<const PartitionProfile> profiles;
};

// For a name of the GPU catalogue; nullptr when the device cannot be cut, or how is not known.
const PartitionGeometry* find_geometry(std::string_view gpu_name);
std::span<const PartitionGeometry> partition_geometries();
// By name, in any case; nullptr when the geometry has none such.
const PartitionProfile* find_profile(const PartitionGeometry& geometry, std::string_view name);

struct PlacedPartition {
  const PartitionProfile* profile = nullptr;
  std::uint8_t start = 0;
  bool operator==(const PlacedPartition&) const = default;
};
// Whether all of these can exist on one device at once.
bool is_legal(const PartitionGeometry& geometry, std::span<const PlacedPartition> layout);
// Every start at which one more would be legal, lowest first.
std::vector<std::uint8_t> free_starts(const PartitionGeometry& geometry,
                                      std::span<const PlacedPartition> layout,
                                      const PartitionProfile& profile);

}  // namespace tranche::wire
