// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where on a device may a hardware partition start, and which start keeps the most room for others?
//
// A geometry lists a model's profiles with the memory slots they span and the slots they may start at. The
// tables themselves come from the device catalogue; nothing here knows a vendor.
#include <cstdint>
#include <optional>
#include <vector>

namespace tranche::policy {

// Memory slots are the low bits. This one stands for what a device has once: its set of media engines.
constexpr std::uint16_t kOnlyMedia = 0x8000;

struct PartitionProfile {
  std::int32_t profile = 0;  // The number Shape::profile names.
  std::int32_t width = 0;    // Memory slots it spans.
  std::uint16_t starts = 0;  // Bit set of legal first slots.
  std::int32_t milli = 0;    // Compute it takes, of the device's 1000.
  std::int64_t vram = 0;
  std::uint16_t also = 0;  // Marks it takes beside its slots, such as kOnlyMedia.
  auto operator<=>(const PartitionProfile&) const = default;

  [[nodiscard]] std::uint16_t slots_at(int start) const {
    return static_cast<std::uint16_t>(
        (((1U << static_cast<unsigned>(width)) - 1U) << static_cast<unsigned>(start)) | also);
  }
};

struct Geometry {
  std::vector<PartitionProfile> profiles;

  [[nodiscard]] const PartitionProfile* find(std::int32_t profile) const;

  // The legal free start after which most slots can still be used by the largest profiles; ties to the
  // highest start, which leaves the low slots that large profiles need.
  [[nodiscard]] std::optional<int> best_start(const PartitionProfile& wanted, std::uint16_t slots_used) const;

  // Slots that profiles could still take, counting every legal placement by its width.
  [[nodiscard]] int room(std::uint16_t slots_used) const;
};

}  // namespace tranche::policy
