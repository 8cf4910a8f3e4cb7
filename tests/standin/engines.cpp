// SPDX-License-Identifier: Apache-2.0
// When does queued work run? First come, first served over all processes, one piece at a time per engine,
// never preempted. Work that waits for another engine leaves a hole that later arrivals may fill if they fit.
#include <algorithm>

#include "device_state.hpp"

namespace standin {
namespace {

void add_busy(Slot& slot, unsigned device, Span span) {
  for (std::uint64_t at = span.start_ns; at < span.end_ns;) {
    const std::uint64_t number = at / kBucketNs;
    const std::uint64_t until = std::min(span.end_ns, (number + 1) * kBucketNs);
    std::atomic<std::uint64_t>& bucket = slot.bucket[device][number % kBuckets];
    const std::uint64_t stamp = (number & 0xffffffff) << 32;
    std::uint64_t seen = bucket.load(std::memory_order_relaxed);
    std::uint64_t wanted = 0;
    do {
      const std::uint64_t base = (seen >> 32) == (number & 0xffffffff) ? seen & 0xffffffff : 0;
      wanted = stamp | (base + (until - at));
    } while (!bucket.compare_exchange_weak(seen, wanted, std::memory_order_relaxed));
    at = until;
  }
}

std::uint64_t bucket_busy(const Slot& slot, unsigned device, std::uint64_t number) {
  const std::uint64_t value = slot.bucket[device][number % kBuckets].load(std::memory_order_relaxed);
  return (value >> 32) == (number & 0xffffffff) ? value & 0xffffffff : 0;
}

bool fill_gap(EngineState& engine, std::uint64_t ready, std::uint64_t length, std::uint64_t now, Span& span) {
  unsigned kept = 0;
  bool placed = false;
  Gap extra{};
  bool has_extra = false;
  for (unsigned index = 0; index < engine.gap_count.load(); ++index) {
    Gap gap = engine.gaps[index];
    const std::uint64_t start = std::max({gap.start_ns, ready, now});
    if (!placed && start + length <= gap.end_ns) {
      placed = true;
      span = {start, start + length};
      if (start > std::max(gap.start_ns, now)) {
        extra = {gap.start_ns, start};
        has_extra = true;
      }
      gap.start_ns = start + length;
    }
    if (gap.end_ns > std::max(gap.start_ns, now)) engine.gaps[kept++] = gap;
  }
  if (has_extra && kept < 32) engine.gaps[kept++] = extra;
  engine.gap_count.store(kept);
  return placed;
}

}  // namespace

Span enqueue(SharedState& state,
             std::uint32_t slot_index,
             unsigned device,
             Engine kind,
             Arrival arrival,
             std::uint64_t length_ns) {
  EngineState& engine = state.devices[device].engine[static_cast<unsigned>(kind)];
  Slot& slot = state.slots[slot_index];
  const std::uint64_t now = arrival.now_ns;
  const std::uint64_t ready = std::max(arrival.ready_ns, now);
  Span span;
  std::uint64_t end = engine.end_ns.load();
  bool placed = false;
  if (engine.gap_count.load() != 0) {
    const StateLock lock(state);
    placed = fill_gap(engine, ready, length_ns, now, span);
  }
  while (!placed) {
    span.start_ns = std::max(end, ready);
    span.end_ns = span.start_ns + length_ns;
    placed = engine.end_ns.compare_exchange_weak(end, span.end_ns);
    if (placed && arrival.ready_ns > std::max(end, now) && engine.gap_count.load() < 32) {
      const StateLock lock(state);
      const unsigned count = engine.gap_count.load();
      if (count < 32) {
        engine.gaps[count] = {std::max(end, now), span.start_ns};
        engine.gap_count.store(count + 1);
      }
    }
  }
  engine.busy_ns.fetch_add(length_ns, std::memory_order_relaxed);
  slot.busy_ns[device][static_cast<unsigned>(kind)].fetch_add(length_ns, std::memory_order_relaxed);
  if (kind == Engine::kCompute) add_busy(slot, device, span);
  return span;
}

std::uint64_t busy_between(const SharedState& state,
                           unsigned device,
                           std::uint32_t slot,
                           std::uint64_t from_ns,
                           std::uint64_t until_ns) {
  std::uint64_t total = 0;
  for (std::uint32_t index = 0; index < kSlotsMax; ++index) {
    const Slot& each = state.slots[index];
    if ((slot != kNone && slot != index) || each.attach_ns == 0) continue;
    for (std::uint64_t number = from_ns / kBucketNs; number * kBucketNs < until_ns; ++number) {
      const std::uint64_t low = std::max(from_ns, number * kBucketNs);
      const std::uint64_t high = std::min(until_ns, (number + 1) * kBucketNs);
      total += bucket_busy(each, device, number) * (high - low) / kBucketNs;  // Even spread inside 10 ms.
    }
  }
  return total;
}

}  // namespace standin
