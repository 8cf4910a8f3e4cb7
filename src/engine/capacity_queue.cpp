// SPDX-License-Identifier: Apache-2.0
// Who waits, for what, and since when a pass could help.
#include <algorithm>

#include "engine/capacity.hpp"
#include "engine/start_window.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

void Capacity::enqueue(const State& state, const Job& job) {
  WaitingKey key{.tier = 100 - job.ask.priority,
                 .tenant = tenant_of(state, job.owner),
                 .kind = kNoKind,
                 .has_deadline = job.ask.deadline.has_value()};
  if (const auto shape = shape_of(job.ask, trust_group(state, key.tenant))) {
    key.kind = placer_.kind(*shape);
    placer_.arrived(key.kind);
    waiting_kinds_.wait(key.kind, *shape);
  }
  waiting_[key].insert(job.id);
  where_waiting_[job.id] = key;
  if (job.not_before > state.now) wake(job.not_before, job.id);
  if (job.ask.window) wake(open_span(*job.ask.window, std::max(state.now, job.not_before)).from, job.id);
  static_cast<void>(share_leaf(key.tenant));
  changed();
}

void Capacity::dequeue(const State&, const Job& job) {
  const auto where = where_waiting_.find(job.id);
  if (where == where_waiting_.end()) return;
  moved_ = true;
  const auto queue = waiting_.find(where->second);
  queue->second.erase(job.id);
  if (queue->second.empty()) waiting_.erase(queue);
  if (where->second.kind != kNoKind) waiting_kinds_.leave(where->second.kind);
  where_waiting_.erase(where);
  std::erase_if(delayed_, [&](const auto& entry) { return entry.second == job.id; });
}

void Capacity::wake(Instant at, JobId job) {
  const auto [from, to] = delayed_.equal_range(at);
  const bool known = std::any_of(from, to, [&](const auto& entry) { return entry.second == job; });
  if (!known) delayed_.emplace(at, job);
}

bool Capacity::due(Instant now) const {
  if (waiting_.empty() && elastic_.empty() && resizable_.empty() && parked_.empty()) return false;
  if (groups_.empty()) return false;
  const auto next = delayed_.upper_bound(last_pass_);
  return dirty_ || look_again_ <= now || (next != delayed_.end() && next->first <= now);
}

Instant Capacity::next_delayed(Instant now) const {
  const auto next = delayed_.upper_bound(now);
  const Instant again = look_again_ > now ? look_again_ : Instant::max();
  return next == delayed_.end() ? again : std::min(next->first, again);
}

void Capacity::passed(Instant now) {
  dirty_ = false;
  moved_ = true;
  freed_for_.clear();
  moved_to_.clear();
  last_pass_ = now;
  look_again_ = Instant::max();
}

}  // namespace tranche::engine
