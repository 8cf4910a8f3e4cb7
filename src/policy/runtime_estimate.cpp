// SPDX-License-Identifier: Apache-2.0
#include "policy/runtime_estimate.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tranche::policy {

void RecentSamples::add(Seconds value) {
  if (ring_.size() == limit_) {
    sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), ring_[oldest_]));
    ring_[oldest_] = value;
    oldest_ = (oldest_ + 1) % limit_;
  } else {
    ring_.push_back(value);
  }
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), value), value);
}

Seconds RecentSamples::quantile(double q) const {
  TRANCHE_CHECK(!sorted_.empty());
  return sorted_[static_cast<std::size_t>(q * static_cast<double>(sorted_.size() - 1))];
}

std::optional<Seconds> RecentSamples::quantile_beyond(Seconds elapsed, double q, std::ptrdiff_t more) const {
  const auto first = std::upper_bound(sorted_.begin(), sorted_.end(), elapsed);
  const std::ptrdiff_t count = sorted_.end() - first;
  if (count + more == 0) return std::nullopt;
  const auto drawn = static_cast<std::ptrdiff_t>(q * static_cast<double>(count + more));
  const std::ptrdiff_t index = std::clamp<std::ptrdiff_t>(drawn, 0, count + more - 1);
  return index < count ? std::optional(first[index]) : std::nullopt;
}

std::int32_t RuntimeHistory::set_of(GroupIndex group, std::int32_t gpus) {
  const auto [entry, added] =
      set_numbers_.try_emplace({group, gpus}, static_cast<std::int32_t>(sets_.size()));
  if (added) sets_.emplace_back();
  return entry->second;
}

RuntimeKind RuntimeHistory::kind(GroupIndex group, std::int32_t gpus) {
  const Kind wanted{set_of(group, gpus), set_of(group, kAny), set_of(kAny, gpus)};
  const auto [entry, added] = kind_of_set_.try_emplace(wanted.own, static_cast<RuntimeKind>(kinds_.size()));
  if (added) kinds_.push_back(wanted);
  return entry->second;
}

void RuntimeHistory::finished(RuntimeKind kind, Seconds ran) {
  const Kind& known = kinds_[static_cast<std::size_t>(kind)];
  for (const std::int32_t set : {known.own, known.group, known.size, kEverybody}) {
    sets_[static_cast<std::size_t>(set)].add(ran);
  }
}

const RecentSamples* RuntimeHistory::best(RuntimeKind kind) const {
  const Kind& known = kinds_[static_cast<std::size_t>(kind)];
  for (const std::int32_t set : {known.own, known.group, known.size, kEverybody}) {
    const RecentSamples& samples = sets_[static_cast<std::size_t>(set)];
    if (samples.size() != 0) return &samples;
  }
  return nullptr;
}

Seconds RuntimeHistory::predict(RuntimeKind kind) const {
  const RecentSamples* samples = best(kind);
  return samples == nullptr ? kUnknownRuntime : std::max<Seconds>(1, samples->quantile(0.5));
}

Seconds RuntimeHistory::draw(RuntimeKind kind, Seconds elapsed, double q, Seconds declared) const {
  const RecentSamples* samples = best(kind);
  if (samples == nullptr) return declared > 0 ? declared : std::max(kUnknownRuntime, elapsed * 2);
  const auto like = samples->quantile_beyond(elapsed, q, declared > 0 ? kDeclarationWeight : 0);
  if (declared > 0) return std::min(like.value_or(declared), declared);
  return like.value_or(std::max<Seconds>(1, elapsed * 2));
}

}  // namespace tranche::policy
