// SPDX-License-Identifier: Apache-2.0
#pragma once
// How soon requests were answered in the last minute: counts in buckets of about a tenth, kept in slices of
// ten seconds that are forgotten one by one.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.hpp"

namespace tranche::gateway {

class LatencyWindow {
 public:
  using Clock = std::chrono::steady_clock;

  void add(Clock::duration took, bool is_in_time, Clock::time_point now);

  struct Sum {
    std::uint64_t requests = 0, in_time = 0;
    Duration p50{}, p99{};
  };
  [[nodiscard]] Sum sum(Clock::time_point now) const;

 private:
  static constexpr std::size_t kBuckets = 272, kSlices = 6;
  using Counts = std::array<std::uint32_t, kBuckets>;
  struct Slice {
    std::int64_t number = -1;  // Of the slices since the clock began.
    std::uint64_t requests = 0, in_time = 0;
    Counts counts{};
  };
  std::array<Slice, kSlices> slices_{};
};

// Measured to about a tenth: more digits would only look exact.
[[nodiscard]] Duration readable(Duration measured);

}  // namespace tranche::gateway
