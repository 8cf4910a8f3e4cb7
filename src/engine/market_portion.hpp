// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a traded quantity is on a device that the platform runs: a fraction of it, or a partition that begins
// at one of its slots. A partition is traded whole: a thousand thousandths of it.
#include <cstdint>
#include <string>

#include "engine/state.hpp"
#include "policy/placement_partition.hpp"

namespace tranche::engine {

constexpr std::uint32_t kWholePortion = policy::kDeviceMilli;

struct Portion {
  const Device& device;
  std::uint32_t quantity = 0;
  Isolation isolation = Isolation::kSoft;
  std::string shape{};     // A partition profile; empty: a fraction.
  std::uint8_t start = 0;  // Of a partition.
};

[[nodiscard]] std::string portion_text(std::uint64_t milli);  // 500 -> "0.5"
[[nodiscard]] std::string price_text(std::int64_t price);     // Of a book, by the hour: "2.00/h"
[[nodiscard]] Slice slice_of(const State&, const Portion&);
[[nodiscard]] wire::Ask ask_of(const State&, const Portion&);

// What of a piece nobody bought yet, as claims of nobody. `sold` are the claims that stand on the device.
[[nodiscard]] std::vector<CalendarClaim> unsold_partitions(const State&,
                                                           const Device&,
                                                           const Piece&,
                                                           const std::vector<CalendarClaim>& sold);

}  // namespace tranche::engine
