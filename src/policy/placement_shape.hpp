// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values placement speaks of: what a job asks for (Shape), what a device still has (DeviceState), where
// something was put (Placement). Plain data; the rules live in placement_fleet.
#include <array>
#include <compare>
#include <cstdint>
#include <vector>

namespace tranche::policy {

constexpr int kDeviceMilli = 1000;  // Compute of one whole device.
constexpr int kDevicesMax = 16;     // In one node.

using ModelSet = std::uint64_t;  // One bit a model; 0 = any model.
using NodeIndex = std::uint32_t;
using TypeIndex = std::uint32_t;
using KindIndex = std::uint32_t;
using FilterIndex = std::uint32_t;  // 0 = any node; others from Fleet::add_filter.
using PoolIndex = std::uint32_t;    // A set of labels, interned by the caller.

constexpr NodeIndex kNoNode = 0xFFFFFFFFU;

// What one job, or one member of a gang, needs on one node.
struct Shape {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  std::int32_t devices = 0;
  std::int32_t milli = 0;         // Compute of each device; 1000 = the whole device.
  std::int64_t vram = 0;          // Bytes of each shared device; a whole device brings all it has.
  std::int32_t profile = 0;       // Partition profile by its number in the geometry tables; 0 = none.
  ModelSet models = 0;            // Allowed models.
  FilterIndex filter = 0;         // Allowed nodes.
  std::uint32_t trust_group = 0;  // Soft sharing only beside the same group; 0 shares with other zeros.
  auto operator<=>(const Shape&) const = default;

  [[nodiscard]] bool whole() const { return devices > 0 && milli >= kDeviceMilli && profile == 0; }
  [[nodiscard]] bool shares() const { return devices > 0 && milli < kDeviceMilli && profile == 0; }
  [[nodiscard]] std::int64_t gpu_milli() const { return std::int64_t{devices} * milli; }
};

enum class DeviceMode : std::uint8_t { kFree, kWhole, kShared, kPartitioned };

struct DeviceState {
  std::int16_t milli_left = kDeviceMilli;
  std::uint16_t slots_used = 0;   // Bit set of memory slots taken by partitions.
  std::uint32_t trust_group = 0;  // Of the shares on it.
  std::int64_t vram_left = 0;     // In bytes: two halves are one whole, whatever it was sold as.
  std::uint16_t tenants = 0;      // Slices on it; the last one to leave frees the mode.
  DeviceMode mode = DeviceMode::kFree;
  bool blocked = false;  // Unhealthy or being drained: nothing new.
  auto operator<=>(const DeviceState&) const = default;

  [[nodiscard]] bool free() const { return mode == DeviceMode::kFree && !blocked; }
  [[nodiscard]] int idle_milli() const { return blocked ? 0 : milli_left; }
};

// What does not change about a node. Nodes with equal specs are one type.
struct NodeSpec {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  std::int32_t devices = 0;
  std::int32_t model = 0;      // Bit number in ModelSet, below 64.
  std::int64_t vram = 0;       // Bytes of each device.
  std::uint32_t geometry = 0;  // From Fleet::add_geometry; 0 = cannot be partitioned.
  PoolIndex pool = 0;
  auto operator<=>(const NodeSpec&) const = default;
};

struct NodeState {
  std::int64_t cpu_left = 0;
  std::int64_t memory_left = 0;
  TypeIndex type = 0;
  std::uint32_t version = 1;  // Bumped by every change; validates what was computed from the node.
  std::uint8_t device_count = 0;
  bool open = true;  // Closed nodes take nothing new.
  std::array<DeviceState, kDevicesMax> devices{};
  std::array<std::uint16_t, kDevicesMax + 1> hosted{};  // By device count; 0 counts shares and partitions.

  [[nodiscard]] std::int64_t idle_milli() const {
    std::int64_t sum = 0;
    for (int i = 0; i < device_count; ++i) sum += devices[static_cast<std::size_t>(i)].idle_milli();
    return sum;
  }
  [[nodiscard]] int free_devices() const {
    int count = 0;
    for (int i = 0; i < device_count; ++i) count += devices[static_cast<std::size_t>(i)].free() ? 1 : 0;
    return count;
  }
};

// Where a shape was put. With the shape it is all that release() needs.
struct Placement {
  NodeIndex node = kNoNode;
  std::uint16_t devices = 0;  // Bit set of device positions.
  std::uint64_t slots = 0;    // First memory slot of a partition on each of them, four bits a position.
  auto operator<=>(const Placement&) const = default;

  [[nodiscard]] int slot(int device) const { return static_cast<int>(slots >> (4 * device) & 0xFU); }
  void set_slot(int device, int start) { slots |= static_cast<std::uint64_t>(start) << (4 * device); }
};

}  // namespace tranche::policy
