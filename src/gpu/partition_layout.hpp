// SPDX-License-Identifier: Apache-2.0
#pragma once
// The partitions of one device, kept legal by the table of its model.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/port.hpp"
#include "wire/partition_geometry.hpp"

namespace tranche::gpu {

class PartitionLayout {
 public:
  explicit PartitionLayout(std::string_view model) : geometry_(wire::find_geometry(model)) {}
  [[nodiscard]] bool can_be_cut() const { return geometry_ != nullptr; }
  [[nodiscard]] const std::vector<Partition>& partitions() const { return partitions_; }
  // Refuses what would not be legal beside what exists, and says where it would be.
  Result<void, std::string> add(Partition partition);
  bool remove(const std::string& uuid);
  void clear() { partitions_.clear(); }

 private:
  [[nodiscard]] std::vector<wire::PlacedPartition> placed() const;
  const wire::PartitionGeometry* geometry_;
  std::vector<Partition> partitions_{};
};

struct PartitionWish {
  std::string profile{};
  std::uint8_t start = 0;
};
Result<PartitionWish, std::string> parse_partition(std::string_view text);  // 3g.40gb@4

}  // namespace tranche::gpu
