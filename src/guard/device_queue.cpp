// SPDX-License-Identifier: Apache-2.0
#include "guard/device_queue.hpp"

#include <algorithm>

#include "guard/atomic_pair.hpp"

namespace tranche::guard {
namespace {

constexpr std::size_t kStretchesMax = 512;
constexpr std::uint64_t kLieNs = 250'000'000;  // Work said to run so much longer than it can have run.
constexpr std::uint64_t kForeseenWithinNs = 50'000;
constexpr std::uint32_t kForeseenEnough = 8;
constexpr std::uint64_t kToldWithinNs = 40'000'000;  // Who waits at the gate looks after its ends more often.

}  // namespace

void DeviceQueue::accept(std::uint64_t key,
                         std::uint64_t came_at,
                         std::uint64_t submitted_to,
                         std::uint64_t length) {
  if (queue_.size() == kStretchesMax) queue_.erase(queue_.begin(), queue_.begin() + kStretchesMax / 2);
  busy_until_ = std::max(busy_until_, came_at) + length;
  queue_.push_back({key, came_at, submitted_to, length, busy_until_});
}

void DeviceQueue::replay_from(std::size_t index) {
  std::uint64_t end = queue_[index].end;
  for (std::size_t i = index + 1; i < queue_.size(); ++i) {
    if (!queue_[i].known) queue_[i].end = std::max(end, queue_[i].came_at) + queue_[i].length;
    end = queue_[i].end;
  }
  busy_until_ = end;
}

// First come, first served: what stood in front of work that ended had ended before. A claim that it runs
// much longer was no mistake.
void DeviceQueue::doubt_before(std::size_t index, std::uint64_t ended_at) {
  for (std::size_t i = 0; i < index; ++i) {
    const bool other = queue_[i].key != queue_[index].key;
    if (other && queue_[i].end >= ended_at + kLieNs) doubtful_.push_back(queue_[i].key);
    queue_[i].end = std::min(queue_[i].end, ended_at);
  }
}

void DeviceQueue::compare(std::uint64_t ended_at, std::uint64_t modelled, std::uint64_t length) {
  const std::uint64_t gap = ended_at > modelled ? ended_at - modelled : modelled - ended_at;
  foreseen_in_a_row_ = gap <= length / 16 + kForeseenWithinNs ? foreseen_in_a_row_ + 1 : 0;
}

bool DeviceQueue::well_foreseen() const {
  return foreseen_in_a_row_ >= kForeseenEnough;
}

void DeviceQueue::ended(std::uint64_t key, std::uint64_t mark, std::uint64_t ended_at) {
  doubtful_.clear();
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    Stretch& stretch = queue_[i];
    const std::uint64_t rest = stretch.submitted_to - mark;
    if (stretch.key != key || rest >= stretch.length) continue;  // Unsigned: also what lies before.
    if (!stretch.known) compare(ended_at, stretch.end - rest, stretch.length);
    stretch.end = ended_at + rest;
    stretch.known = true;
    doubt_before(i, ended_at);
    replay_from(i);
    return;
  }
}

void DeviceQueue::forget(std::uint64_t key) {
  const auto of_tenant = [&](const Stretch& stretch) { return stretch.key == key; };
  if (std::erase_if(queue_, of_tenant) > 0 && !queue_.empty()) replay_from(0);
}

// Those before the last did not tell their ends. If all took less than predicted, each took less; what is
// too much was not taken by the one who told.
void DeviceQueue::settle_up_to(std::size_t index) {
  std::uint64_t began = std::max(settled_to_, queue_[0].came_at);
  const std::uint64_t span = queue_[index].end > began ? queue_[index].end - began : 0;
  std::uint64_t predicted = 0;
  for (std::size_t i = 0; i <= index; ++i) predicted += queue_[i].length;
  const std::uint64_t silent = predicted - queue_[index].length;
  const std::uint64_t excess = span > predicted ? span - predicted : 0;
  for (std::size_t i = 0; i <= index; ++i) {
    const Stretch& stretch = queue_[i];
    const auto part = [&](std::uint64_t whole, std::uint64_t of) {
      return of == 0 ? 0 : static_cast<std::uint64_t>(static_cast<Word128>(whole) * stretch.length / of);
    };
    std::uint64_t took = excess == 0 ? part(span, predicted) : stretch.length;
    if (index == 0) took = span;
    if (i < index) took += part(excess, silent);
    settled_.push_back({stretch.key, stretch.submitted_to, began, stretch.length, took, index == 0});
    began += took;
  }
  settled_to_ = std::max(settled_to_, queue_[index].end);
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(index) + 1);
}

const std::vector<DeviceQueue::Settled>& DeviceQueue::settle(std::uint64_t now) {
  settled_.clear();
  for (;;) {
    const auto told = std::find_if(queue_.begin(), queue_.end(), [](const Stretch& s) { return s.known; });
    if (told == queue_.end() || told->end > now) return settled_;
    if (told != queue_.begin() && now < told->end + kToldWithinNs) return settled_;
    settle_up_to(static_cast<std::size_t>(told - queue_.begin()));
  }
}

std::uint64_t DeviceQueue::ends_at(std::uint64_t key) const {
  for (auto stretch = queue_.rbegin(); stretch != queue_.rend(); ++stretch)
    if (stretch->key == key) return stretch->end;
  return 0;
}

}  // namespace tranche::guard
