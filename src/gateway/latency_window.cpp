// SPDX-License-Identifier: Apache-2.0
#include "gateway/latency_window.hpp"

#include <algorithm>
#include <bit>

namespace tranche::gateway {
namespace {

constexpr std::chrono::seconds kSlice{10};
constexpr unsigned kFineBits = 3;  // Eight buckets for every doubling of the microseconds.

std::size_t bucket_of(std::uint64_t micros) {
  if (micros < (1U << kFineBits)) return micros;
  const auto shift = static_cast<unsigned>(std::bit_width(micros)) - 1 - kFineBits;
  return (static_cast<std::size_t>(shift + 1) << kFineBits) + ((micros >> shift) & ((1U << kFineBits) - 1));
}

std::uint64_t upper_edge(std::size_t bucket) {
  if (bucket < (1U << kFineBits)) return bucket;
  const std::size_t shift = (bucket >> kFineBits) - 1;
  return (((1U << kFineBits) + (bucket & ((1U << kFineBits) - 1)) + std::uint64_t{1}) << shift) - 1;
}

std::int64_t slice_at(LatencyWindow::Clock::time_point now) {
  return now.time_since_epoch() / kSlice;
}

template <class Counts>
Duration percentile(const Counts& counts, std::uint64_t total, std::uint64_t percent) {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    seen += counts[i];
    if (seen > 0 && seen * 100 >= total * percent) return Duration(static_cast<std::int64_t>(upper_edge(i)));
  }
  return {};
}

}  // namespace

void LatencyWindow::add(Clock::duration took, bool is_in_time, Clock::time_point now) {
  const std::int64_t number = slice_at(now);
  Slice& slice = slices_[static_cast<std::size_t>(number) % kSlices];
  if (slice.number != number) slice = {.number = number};
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  const std::size_t bucket = bucket_of(static_cast<std::uint64_t>(std::max<std::int64_t>(micros, 0)));
  ++slice.counts[std::min(bucket, kBuckets - 1)];
  ++slice.requests;
  slice.in_time += is_in_time ? 1U : 0U;
}

LatencyWindow::Sum LatencyWindow::sum(Clock::time_point now) const {
  Sum sum;
  std::array<std::uint64_t, kBuckets> counts{};
  const std::int64_t newest = slice_at(now);
  for (const Slice& slice : slices_) {
    if (slice.number < 0 || slice.number + static_cast<std::int64_t>(kSlices) <= newest) continue;
    sum.requests += slice.requests;
    sum.in_time += slice.in_time;
    for (std::size_t i = 0; i < kBuckets; ++i) counts[i] += slice.counts[i];
  }
  sum.p50 = percentile(counts, sum.requests, 50);
  sum.p99 = percentile(counts, sum.requests, 99);
  return sum;
}

Duration readable(Duration measured) {
  using namespace std::chrono_literals;
  const Duration unit = measured >= 10ms ? Duration(1ms) : measured >= 1ms ? Duration(100us) : Duration(10us);
  return (measured + unit - Duration(1)) / unit * unit;
}

}  // namespace tranche::gateway
