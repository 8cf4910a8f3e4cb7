// SPDX-License-Identifier: Apache-2.0
#include "guard/kernel_times.hpp"

#include <algorithm>

namespace tranche::guard {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kOthersAboutNs = 20'000'000;    // Whoever worked a moment ago may work again unseen.
constexpr std::uint64_t kForgivingFirstNs = 2'000'000;  // Doubtful excess that goes uncharged at first,
constexpr std::uint64_t kForgivingMaxNs = 10'000'000;   // at most,
constexpr std::uint64_t kForgivingPart = 64;            // and one part in so many of what was charged.

// Within about 3 %, or as well as short kernels can be timed: within a microsecond one by one, in a row
// within a quarter.
bool agrees(std::uint64_t measured, std::uint64_t predicted) {
  const std::uint64_t gap = measured > predicted ? measured - predicted : predicted - measured;
  if (predicted <= kTinyNs) return gap * 4 <= predicted;
  return gap * 32 <= std::max<std::uint64_t>(predicted, 32'000);
}

// Much shorter than all that was seen before: believed only when it repeats.
bool doubtfully_short(KernelTime& entry, std::uint64_t measured, std::uint64_t predicted) {
  const bool far =
      entry.measured.load(kRelaxed) > 0 && measured < predicted && (predicted - measured) * 4 > predicted;
  const std::uint32_t before = entry.doubted.load(kRelaxed);
  entry.doubted.store(far ? before + 1 : 0, kRelaxed);
  return far && before < 3;
}

// Longer than predicted: perhaps a neighbour's work ran in between. So much is forgiven as cannot matter: a
// kernel whose length really varies soon pays for all of it.
bool forgiven(KernelTime& entry, std::uint64_t measured, std::uint64_t predicted, std::uint32_t covered) {
  if (entry.measured.load(kRelaxed) == 0 || measured <= predicted || agrees(measured, predicted))
    return false;
  const std::uint64_t excess =
      measured - predicted + std::min(measured - predicted, predicted) * (covered - 1);
  const std::uint64_t left = entry.forgiving_ns.load(kRelaxed);
  if (excess > left) return false;
  entry.forgiving_ns.store(static_cast<std::uint32_t>(left - excess), kRelaxed);
  return true;
}

// Launches that no measure stands for yet were charged what was predicted before: from now on they count as
// charged what is predicted now, because that is what the next measure will put right.
std::int64_t repriced(const KernelTime& entry, std::uint64_t before, std::uint64_t now, bool first) {
  const auto old = static_cast<std::int64_t>(before);
  const std::int64_t change = static_cast<std::int64_t>(now) - old;
  return (first ? change : std::clamp(change, -old, old)) * entry.launched.load(kRelaxed);
}

}  // namespace

Reading read_ends(const LaunchEnds& ends) {
  const std::uint64_t own = std::max(ends.began_at, ends.submitted_at);
  const std::uint64_t most = ends.ended_at > own ? ends.ended_at - own : 0;
  const bool others_about = ends.clear_at != 0 && ends.clear_at + kOthersAboutNs > own;
  if (!others_about) return {most, most, Trust::kExact};
  Reading reading{most, most, Trust::kModelled, true, true};
  if (ends.clear_at <= own) return reading;
  if (ends.clear_at < ends.ended_at) {
    reading.device_ns = ends.ended_at - ends.clear_at;
    return reading;
  }
  // The model is behind the device. Whatever others did, it cannot have been longer than this.
  const bool shorter = ends.known && most < ends.predicted_ns;
  if (shorter) reading.trust = Trust::kExact;
  reading.usable = shorter || !ends.known;
  return reading;
}

KernelTime& KernelTimes::resident(std::uint64_t key) {
  KernelTime& entry = entries_[place(key)];
  if (entry.key.load(kRelaxed) == key) return entry;
  const std::uint64_t typical = typical_ns_.load(kRelaxed);
  entry.key.store(0, kRelaxed);
  entry.predicted_ns.store(typical == 0 ? kUnknownKernelNs : typical, kRelaxed);
  entry.last_ns.store(0, kRelaxed);
  entry.interval_ns.store(0, kRelaxed);
  entry.launched.store(0, kRelaxed);
  entry.pending.store(0, kRelaxed);
  entry.measured.store(0, kRelaxed);
  entry.doubted.store(0, kRelaxed);
  entry.forgiving_ns.store(kForgivingFirstNs, kRelaxed);
  entry.last_end_at.store(0, kRelaxed);
  entry.batch_ns.store(0, kRelaxed);
  entry.key.store(key, std::memory_order_release);
  return entry;
}

bool KernelTimes::measure_due(const KernelTime& entry) {
  const std::uint32_t launched = entry.launched.load(kRelaxed) + 1;
  const bool known = entry.measured.load(kRelaxed) > 0;
  const std::uint64_t since = std::uint64_t{launched} * entry.predicted_ns.load(kRelaxed);
  const bool due = since >= entry.interval_ns.load(kRelaxed) || launched >= kMeasureEveryLaunches;
  const bool crowded = !known && entry.pending.load(kRelaxed) >= kPendingMeasuresMax;
  return due && !crowded;
}

void KernelTimes::count_launch(KernelTime& entry) {
  entry.launched.store(entry.launched.load(kRelaxed) + 1, kRelaxed);
}

std::uint32_t KernelTimes::begin_measure(KernelTime& entry) {
  entry.pending.fetch_add(1, kRelaxed);
  return entry.launched.exchange(0, kRelaxed) + 1;
}

std::uint64_t KernelTimes::at_most_each(KernelTime& entry,
                                        std::uint64_t ended_at,
                                        std::uint32_t covered,
                                        std::uint64_t device_ns) {
  const std::uint64_t before = entry.last_end_at.exchange(ended_at, kRelaxed);
  if (device_ns > kTinyNs) return device_ns;
  const std::uint64_t in_a_row = entry.batch_ns.exchange(0, kRelaxed);
  if (in_a_row != 0) device_ns = std::min(device_ns, in_a_row);
  if (covered == 0 || before == 0 || ended_at <= before) return device_ns;
  return std::min(device_ns, (ended_at - before) / covered);
}

std::int64_t KernelTimes::learn_batch(KernelTime& entry, std::uint64_t batch_ns, std::uint32_t count) {
  const std::uint64_t each = std::max(batch_ns / std::max(count, 1U), kKernelNsMin);
  if (each > kTinyNs) return 0;
  entry.batch_ns.store(static_cast<std::uint32_t>(each), kRelaxed);
  const std::uint64_t predicted = entry.predicted_ns.load(kRelaxed);
  if (predicted > kTinyNs || each >= predicted) return 0;
  entry.predicted_ns.store(each, kRelaxed);
  return repriced(entry, predicted, each, false);
}

Correction KernelTimes::learn(KernelTime& entry,
                              std::uint64_t key,
                              std::uint64_t predicted_ns,
                              std::uint32_t covered,
                              const Reading& reading) {
  std::uint64_t measured_ns = reading.device_ns;
  const bool resident_still = entry.key.load(kRelaxed) == key;
  if (resident_still && entry.pending.load(kRelaxed) > 0) entry.pending.fetch_sub(1, kRelaxed);
  if (resident_still && reading.trust == Trust::kModelled &&
      (doubtfully_short(entry, measured_ns, predicted_ns) ||
       forgiven(entry, measured_ns, predicted_ns, covered)))
    measured_ns = std::min(predicted_ns, reading.most_ns);
  const auto error = static_cast<std::int64_t>(measured_ns) - static_cast<std::int64_t>(predicted_ns);
  // One odd measure speaks fully for its own launch, but not without bound for those it stands for.
  const auto bound = static_cast<std::int64_t>(std::max(predicted_ns, kKernelNsMin));
  const std::int64_t others = std::clamp(error, -bound, bound) * (static_cast<std::int64_t>(covered) - 1);
  Correction correction{error + others, measured_ns};
  correction.confirmed_ns += static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, others + static_cast<std::int64_t>(predicted_ns) * (covered - 1)));
  if (!resident_still) return correction;  // Evicted meanwhile: nothing to learn for.
  const std::uint64_t forgiving =
      entry.forgiving_ns.load(kRelaxed) + correction.confirmed_ns / kForgivingPart;
  entry.forgiving_ns.store(static_cast<std::uint32_t>(std::min(forgiving, kForgivingMaxNs)), kRelaxed);

  const std::uint32_t count = entry.measured.load(kRelaxed);
  const std::uint64_t before = entry.predicted_ns.load(kRelaxed);
  // Two measures that agree are the new truth at once; otherwise the past weighs three to one.
  const bool repeated = count == 0 || agrees(measured_ns, entry.last_ns.load(kRelaxed));
  const std::uint64_t blend = before + measured_ns / 4 - before / 4;
  const std::uint64_t next =
      std::max(repeated ? measured_ns : std::clamp(blend, before / 2, before * 2), kKernelNsMin);
  entry.last_ns.store(measured_ns, kRelaxed);
  entry.predicted_ns.store(next, kRelaxed);
  correction.charge_ns += repriced(entry, before, next, count == 0);
  const std::uint64_t interval = entry.interval_ns.load(kRelaxed);
  entry.interval_ns.store(
      count > 0 && agrees(measured_ns, before) ? std::min(interval * 2 + 100'000, kMeasureEveryNs) : 0,
      kRelaxed);
  entry.measured.store(std::min(count + 1, 1'000'000U), kRelaxed);
  const std::uint64_t typical = typical_ns_.load(kRelaxed);
  typical_ns_.store(typical == 0 ? measured_ns : typical + measured_ns / 16 - typical / 16, kRelaxed);
  return correction;
}

}  // namespace tranche::guard
