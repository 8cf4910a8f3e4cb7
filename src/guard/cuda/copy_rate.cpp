// SPDX-License-Identifier: Apache-2.0
#include "guard/cuda/copy_rate.hpp"

#include <type_traits>

#include "guard/cuda/objects.hpp"
#include "guard/host_clock.hpp"

namespace tranche::guard::cuda {
namespace {

constexpr std::uint64_t kSampleBytes = 1ULL << 20;    // Smaller ones are latency, not bandwidth.
constexpr std::uint64_t kSampleEveryNs = 20'000'000;  // Some 3 us of the caller each.

// One sample at a time; who does not get the turn goes without.
struct Sample {
  std::atomic<std::uint32_t> busy;
  Context context = nullptr;  // Of the events.
  Event before = nullptr, after = nullptr;
  std::uint64_t bytes = 0;  // Zero: none under way.
  std::uint64_t begun_at = 0;
};
Sample sample;  // NOLINT

bool record(Event event, Stream stream) {
  auto* call = DRIVER(cuEventRecord, Result(Event, Stream));
  return event != nullptr && call != nullptr && call(event, stream) == kSuccess;
}

bool make_events() {
  Context context = nullptr;
  auto* current = DRIVER(cuCtxGetCurrent, Result(Context*));
  auto* create = DRIVER(cuEventCreate, Result(Event*, unsigned));
  if (current == nullptr || create == nullptr || current(&context) != kSuccess || context == nullptr)
    return false;
  if (context == sample.context) return true;
  sample.context = nullptr;
  if (create(&sample.before, kEventDefault) != kSuccess || create(&sample.after, kEventDefault) != kSuccess)
    return false;
  sample.context = context;
  return true;
}

// True when no sample is under way any more.
bool collect() {
  if (sample.bytes == 0) return true;
  auto* query = DRIVER(cuEventQuery, Result(Event));
  auto* elapsed = DRIVER(cuEventElapsedTime, Result(float*, Event, Event));
  if (query == nullptr || elapsed == nullptr) return false;
  const Result known = query(sample.after);
  if (known == kNotReady) return false;
  float milliseconds = 0;
  if (known == kSuccess && elapsed(&milliseconds, sample.before, sample.after) == kSuccess)
    learn_copy_rate(sample.bytes, static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6));
  sample.bytes = 0;
  return true;
}

}  // namespace

bool begin_copy_sample(std::uint64_t bytes, Stream stream) {
  if (bytes < kSampleBytes || captures_active.load(std::memory_order_relaxed) != 0) return false;
  const std::uint64_t now = monotonic_ns();
  if (now - sample.begun_at < kSampleEveryNs || sample.busy.exchange(1, std::memory_order_acquire) != 0)
    return false;
  sample.begun_at = now;
  if (collect() && make_events() && record(sample.before, stream)) {
    sample.bytes = bytes;
    return true;
  }
  sample.busy.store(0, std::memory_order_release);
  return false;
}

void end_copy_sample(Stream stream, Result outcome) {
  if (outcome != kSuccess || !record(sample.after, stream)) sample.bytes = 0;
  sample.busy.store(0, std::memory_order_release);
}

}  // namespace tranche::guard::cuda
