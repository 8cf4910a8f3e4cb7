// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work on the compute engine, of whatever kind: counted inline, or let in at the gate and measured.
#include "guard/cuda/measure.hpp"

namespace tranche::guard::cuda {

enum class StreamKind { kLegacy, kPerThread };  // What a null stream means to the function that was called.

inline Stream explicit_stream(Stream stream, StreamKind kind) {
  return stream == nullptr && kind == StreamKind::kPerThread ? kPerThreadStream : stream;
}

inline const void* identity_of(Stream explicit_one) {
  return explicit_one == kPerThreadStream ? static_cast<const void*>(&launch_thread) : explicit_one;
}

template <class Ask>
__attribute__((noinline)) Result launch_slowly(std::uint64_t key, Stream stream, StreamKind kind, Ask ask) {
  if (is_capturing(stream, kind == StreamKind::kPerThread))
    return ask();  // Only recorded: charged when it runs.
  poll_measures();
  const Stream where = explicit_stream(stream, kind);
  end_batch(current_device(), key, where);
  LaunchTicket ticket = before_launch(current_device(), key, {stream, identity_of(where)});
  if (ticket.ended) return kLaunchTimeout;
  if (captures_active.load(std::memory_order_relaxed) != 0 && ticket.measure) {
    measure_lost(ticket);
    ticket.measure = false;
  }
  const Measure measure = begin_measure(ticket, where);
  const Result outcome = ask();
  end_measure(measure, ticket, where, outcome);
  if (outcome != kSuccess) launch_failed(ticket);
  return outcome;
}

template <class Ask>
inline Result launch(std::uint64_t key, Stream stream, StreamKind kind, Ask ask) {
  if (captures_active.load(std::memory_order_relaxed) == 0 && pass_inline(current_device(), key, stream))
    return ask();
  return launch_slowly(key, stream, kind, ask);
}

// The short way of a launch: one device, no capture, paid from what this thread holds.
inline bool passes_at_once(std::uint64_t key, Stream stream) {
  return captures_active.load(std::memory_order_relaxed) == 0 &&
         visible_devices.load(std::memory_order_relaxed) == 1 && pass_inline(0, key, stream);
}

// Copies inside the device and memsets: on the compute engine, and their length goes with their size.
enum class DeviceWork : std::uint32_t { kCopy, kSet };
extern const char device_work_marks[8];

template <class Ask>
Result device_work(DeviceWork kind, std::uint64_t bytes, Stream stream, StreamKind streams, Ask ask) {
  const void* mark = &device_work_marks[static_cast<std::uint32_t>(kind)];
  return launch(kernel_key(mark, bytes, 0), stream, streams, ask);
}

struct Extent {
  unsigned x, y, z;
};
inline Extent extent(const unsigned* three) {
  return {three[0], three[1], three[2]};
}
inline std::uint64_t grid_key(const void* function, const Extent& grid, const Extent& block) {
  return kernel_key(function,
                    std::uint64_t{grid.x} * 0x100000001b3ULL + std::uint64_t{grid.y} * 0x10001ULL + grid.z,
                    std::uint64_t{block.x} * 0x10001ULL + std::uint64_t{block.y} * 257ULL + block.z);
}
// A launch without a description is the driver's to refuse.
inline std::uint64_t config_key(const LaunchConfig* config, const void* function) {
  return config == nullptr ? kernel_key(function, 0, 0)
                           : grid_key(function, extent(config->grid), extent(config->block));
}

}  // namespace tranche::guard::cuda
