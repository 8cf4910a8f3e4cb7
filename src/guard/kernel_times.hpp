// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long will this kernel take on the device, going by what was measured before?
//
// A table of the process, keyed by function and geometry. Durations become known late (events), and only for
// some launches; the prediction is charged at launch, and what was wrong with it is charged when it is known.
#include <atomic>
#include <cstdint>

namespace tranche::guard {

inline constexpr std::uint64_t kUnknownKernelNs = 1'000'000;  // Until anything was measured in this process.
inline constexpr std::uint64_t kKernelNsMin = 20;             // A launch is never free.
inline constexpr std::uint64_t kTinyNs = 4'000;               // Too short to be timed by itself.
inline constexpr std::uint64_t kMeasureEveryNs = 2'000'000;  // Device time between measures, once they agree.
inline constexpr std::uint32_t kMeasureEveryLaunches = 4096;
inline constexpr std::uint32_t kPendingMeasuresMax = 4;  // Of one kernel that is not known yet.

struct alignas(64) KernelTime {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> predicted_ns;
  std::atomic<std::uint64_t> last_ns;       // The measure before.
  std::atomic<std::uint64_t> interval_ns;   // Device time until the next measure is due.
  std::atomic<std::uint32_t> launched;      // Since the last launch that was chosen for a measure.
  std::atomic<std::uint32_t> pending;       // Measures under way.
  std::atomic<std::uint32_t> measured;      // Measures that came back, capped.
  std::atomic<std::uint32_t> doubted;       // Measures in a row that were far too short and not trusted.
  std::atomic<std::uint64_t> last_end_at;   // CLOCK_MONOTONIC ns of the measured end before.
  std::atomic<std::uint32_t> forgiving_ns;  // Doubtful excess that may still go uncharged.
  std::atomic<std::uint32_t> batch_ns;      // Each of the last launches in a row, at most; zero: not known.
};
static_assert(sizeof(KernelTime) == 64);  // One line of memory for a launch.

// A measure taken while other tenants work rests on a model of when theirs ended: some of it may have run
// inside what was measured.
enum class Trust { kExact, kModelled };

// What is known of a launch when only ends are: all in CLOCK_MONOTONIC ns.
struct LaunchEnds {
  std::uint64_t submitted_at = 0;
  std::uint64_t began_at = 0;  // Not before this: the end of what was before it in its stream.
  std::uint64_t clear_at = 0;  // When other tenants' work in front should have been done; zero: none ever.
  std::uint64_t ended_at = 0;
  std::uint64_t predicted_ns = 0;
  bool known = false;  // The prediction rests on a measure.
};
struct Reading {
  std::uint64_t device_ns = 0;
  std::uint64_t most_ns = 0;  // Longer it cannot have been, whatever others did.
  Trust trust = Trust::kExact;
  bool usable = true;         // Otherwise nothing was learned.
  bool others_about = false;  // Others worked a moment ago, so some of it may be theirs.
};
Reading read_ends(const LaunchEnds& ends);

struct Correction {
  std::int64_t charge_ns = 0;  // What launches so far cost beyond what was charged.
  std::uint64_t confirmed_ns = 0;
};

class KernelTimes {
 public:
  static constexpr std::uint32_t kEntries = 4096;

  // The entry for `key` if it is the resident of its place, for the inline path.
  [[nodiscard]] KernelTime* find(std::uint64_t key) {
    KernelTime& entry = entries_[place(key)];
    return entry.key.load(std::memory_order_relaxed) == key ? &entry : nullptr;
  }
  // Finds the entry, or evicts whoever sits there.
  KernelTime& resident(std::uint64_t key);
  // Nobody knows yet how long this kernel takes and one is under way: letting more in would be letting in
  // anything at all. For lanes whose time is shared or limited.
  static bool unknown(const KernelTime& entry) { return entry.measured.load(std::memory_order_relaxed) == 0; }
  // The first measure may have been torn by the host: a few more follow soon.
  static bool is_young(const KernelTime& entry) { return entry.measured.load(std::memory_order_relaxed) < 4; }
  static bool wait_for_first(const KernelTime& entry) {
    return entry.measured.load(std::memory_order_relaxed) == 0 &&
           entry.pending.load(std::memory_order_relaxed) > 0;
  }
  static bool is_tiny(const KernelTime& entry) {
    return entry.predicted_ns.load(std::memory_order_relaxed) <= kTinyNs;
  }
  // Whether the launch that is about to happen should be measured. Every launch is then either counted, or
  // begins a measure, which stands for it and for all that were counted since the last.
  static bool measure_due(const KernelTime& entry);
  static void count_launch(KernelTime& entry);
  static std::uint32_t begin_measure(KernelTime& entry);
  // All launches since the measure before ran between its end and this one: what is too short to be timed by
  // itself (an event takes about a microsecond) cannot have been longer than its part of that.
  static std::uint64_t at_most_each(KernelTime& entry,
                                    std::uint64_t ended_at,
                                    std::uint32_t covered,
                                    std::uint64_t device_ns);
  // `count` launches in a row, with nothing between them that waited, took so long on the device. Returns
  // what launches before cost beyond what was charged.
  static std::int64_t learn_batch(KernelTime& entry, std::uint64_t batch_ns, std::uint32_t count);
  // A measure came back: `covered` launches were charged `predicted_ns` each, this one took what `reading`
  // says.
  Correction learn(KernelTime& entry,
                   std::uint64_t key,
                   std::uint64_t predicted_ns,
                   std::uint32_t covered,
                   const Reading& reading);

  static std::uint32_t place(std::uint64_t key) {
    return static_cast<std::uint32_t>((key * 0x9e3779b97f4a7c15ULL) >> 52);
  }
  static_assert(kEntries == 1U << 12);

 private:
  KernelTime entries_[kEntries];
  std::atomic<std::uint64_t> typical_ns_;  // Of all kernels, the guess for a new one.
};

// A key from whatever tells kernels apart. Zero is never a key.
inline std::uint64_t kernel_key(const void* function, std::uint64_t blocks, std::uint64_t threads) {
  const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(function) ^ (blocks * 0x9e3779b97f4a7c15ULL) ^
                              (threads * 0xc2b2ae3d27d4eb4fULL);
  return mixed == 0 ? 1 : mixed;
}

}  // namespace tranche::guard
