// SPDX-License-Identifier: Apache-2.0
#include "gpu/partition_layout.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tranche::gpu {

std::vector<wire::PlacedPartition> PartitionLayout::placed() const {
  std::vector<wire::PlacedPartition> out;
  for (const Partition& partition : partitions_)
    out.push_back({.profile = wire::find_profile(*geometry_, partition.profile), .start = partition.start});
  return out;
}

Result<void, std::string> PartitionLayout::add(Partition partition) {
  if (geometry_ == nullptr) return refuse(std::string("this model cannot be partitioned"));
  const wire::PartitionProfile* const profile = wire::find_profile(*geometry_, partition.profile);
  if (profile == nullptr) return refuse("the device has no profile " + partition.profile);
  const auto starts = wire::free_starts(*geometry_, placed(), *profile);
  if (std::find(starts.begin(), starts.end(), partition.start) == starts.end()) {
    std::string where;
    for (const std::uint8_t start : starts) where += (where.empty() ? "" : ", ") + std::to_string(start);
    return refuse(
        partition.profile + " cannot start at " + std::to_string(partition.start) +
        (where.empty() ? std::string(": there is no room left for it") : ": it may start at " + where));
  }
  partition.profile = profile->name;
  partitions_.push_back(std::move(partition));
  return {};
}

bool PartitionLayout::remove(const std::string& uuid) {
  return std::erase_if(partitions_, [&](const Partition& one) { return one.uuid == uuid; }) > 0;
}

Result<PartitionWish, std::string> parse_partition(std::string_view text) {
  const auto at = text.find('@');
  PartitionWish wish{.profile = std::string(text.substr(0, at))};
  const std::string_view digits = at == std::string_view::npos ? "" : text.substr(at + 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), wish.start);
  if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size())
    return refuse("a partition is written as 3g.40gb@4, not '" + std::string(text) + "'");
  return wish;
}

}  // namespace tranche::gpu
