// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_waste.hpp"

#include <algorithm>
#include <utility>

#include "base/random.hpp"

namespace tranche::policy {
namespace {

constexpr std::size_t kMemoStart = 1U << 12U;
constexpr std::size_t kMemoMax = 1U << 18U;  // 4 MiB a type of node.

}  // namespace

TerminalWaste::TerminalWaste(std::vector<WeightedForm> mix, const WasteOptions& options, std::uint64_t seed)
    : streams_(options.streams), length_(options.length) {
  double total = 0;
  for (const WeightedForm& item : mix) total += item.weight;
  if (total <= 0) {
    streams_ = 0;
    return;
  }
  least_cpu_ = mix.front().form.cpu;
  least_milli_ = kDeviceMilli;
  for (const WeightedForm& item : mix) {
    least_cpu_ = std::min(least_cpu_, item.form.cpu);
    least_milli_ = std::min<std::int32_t>(least_milli_, item.form.milli);
  }
  Random random(seed);
  for (int stream = 0; stream < streams_; ++stream) {
    // Systematic sampling: evenly spaced points, shifted a little more in each stream.
    const std::size_t first = steps_.size();
    std::size_t at = 0;
    double below = mix[0].weight;
    for (int i = 0; i < length_; ++i) {
      const double point = total * (i + (stream + 0.5) / streams_) / length_;
      while (point >= below && at + 1 < mix.size()) below += mix[++at].weight;
      steps_.push_back(mix[at].form);
    }
    for (std::size_t left = steps_.size() - first; left > 1; --left)
      std::swap(steps_[first + left - 1], steps_[first + random.below(left)]);
  }
  memo_.resize(kMemoStart);
  if (options.reach) mix_ = std::move(mix);
}

double TerminalWaste::simulate(const LeanNode& start) const {
  std::int64_t wasted = 0;
  for (int stream = 0; stream < streams_; ++stream) {
    LeanNode node = start;
    const LeanForm* step = steps_.data() + static_cast<std::ptrdiff_t>(stream) * length_;
    const LeanForm* const end = step + length_;
    for (; step != end; ++step) {
      if (node.cpu < step->cpu || node.memory < step->memory) continue;
      if (step->milli == kDeviceMilli) {
        if (node.free < step->devices) continue;
        node.free = static_cast<std::int16_t>(node.free - step->devices);
        node.cpu -= step->cpu;
        node.memory -= step->memory;
      } else if (node.fits(*step)) {
        node.take(*step);
      } else {
        continue;
      }
      if (node.cpu < least_cpu_) break;
      if (node.free == 0 &&
          (node.partials == 0 || node.left[static_cast<std::size_t>(node.partials - 1)] < least_milli_))
        break;
    }
    wasted += node.idle();
  }
  return static_cast<double>(wasted) / streams_;
}

double TerminalWaste::out_of_reach(const LeanNode& node) const {
  const int idle = node.idle();
  double reached = 0;
  for (const WeightedForm& item : mix_) {
    if (!node.fits(item.form)) continue;
    int too_small = 0;
    for (int i = node.tightest(item.form.milli) - 1; i >= 0; --i)
      too_small += node.left[static_cast<std::size_t>(i)];
    reached += item.weight * (idle - too_small);
  }
  return idle - reached;
}

Idle TerminalWaste::of(const LeanNode& node) {
  if (streams_ == 0 || node.cpu < least_cpu_ || node.idle() == 0) {
    const auto idle = static_cast<float>(node.idle());
    return {idle, idle};
  }
  const std::uint64_t key = node.hash() | 1U;
  std::size_t at = (key >> 20U) & (memo_.size() - 1);
  while (memo_[at].key != 0) {
    if (memo_[at].key == key) return memo_[at].idle;
    at = (at + 1) & (memo_.size() - 1);
  }
  ++evaluations_;
  const Idle value{static_cast<float>(simulate(node)), static_cast<float>(out_of_reach(node))};
  memo_[at] = {key, value};
  if (++used_ * 2 > memo_.size()) {
    std::vector<Slot> old = std::exchange(memo_, std::vector<Slot>(std::min(memo_.size() * 2, kMemoMax)));
    used_ = 0;
    if (old.size() < memo_.size()) {
      for (const Slot& slot : old) {
        if (slot.key == 0) continue;
        std::size_t to = (slot.key >> 20U) & (memo_.size() - 1);
        while (memo_[to].key != 0) to = (to + 1) & (memo_.size() - 1);
        memo_[to] = slot;
        ++used_;
      }
    }
  }
  return value;
}

}  // namespace tranche::policy
