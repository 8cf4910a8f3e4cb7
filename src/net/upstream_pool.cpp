// SPDX-License-Identifier: Apache-2.0
#include "net/internal/upstream_pool.hpp"

#include <algorithm>

#include "net/internal/upstream.hpp"

namespace tranche::net {
namespace {

constexpr std::size_t kIdleMost = 1024;  // For each target.
constexpr std::chrono::seconds kIdleFor{30};
constexpr std::chrono::milliseconds kTick{50};

}  // namespace

std::shared_ptr<Upstream> UpstreamPool::take(const ForwardTarget& target, bool look) {
  const auto found = idle_.find(target);
  while (found != idle_.end() && !found->second.empty()) {
    auto upstream = std::move(found->second.back());
    found->second.pop_back();
    if (!look || upstream->is_quiet()) return upstream;
    upstream->close();
  }
  return std::make_shared<Upstream>(shared_from_this(), target);
}

bool UpstreamPool::give(const std::shared_ptr<Upstream>& upstream) {
  auto& kept = idle_[upstream->target()];
  if (kept.size() >= kIdleMost || loop_.stopped()) return false;
  upstream->idle_since = Clock::now();
  kept.push_back(upstream);
  return true;
}

void UpstreamPool::forget(const Upstream& upstream) {
  const auto found = idle_.find(upstream.target());
  if (found == idle_.end()) return;
  std::erase_if(found->second, [&](const auto& one) { return one.get() == &upstream; });
}

void UpstreamPool::watch(Upstream& upstream) {
  upstream.slot = busy_.size();
  busy_.push_back(&upstream);
  if (!ticking_) tick();
}

void UpstreamPool::unwatch(Upstream& upstream) {
  if (upstream.slot >= busy_.size() || busy_[upstream.slot] != &upstream) return;
  busy_[upstream.slot] = busy_.back();
  busy_[upstream.slot]->slot = upstream.slot;
  busy_.pop_back();
}

void UpstreamPool::tick() {
  ticking_ = true;
  timer_.expires_after(kTick);
  timer_.async_wait([self = weak_from_this()](const boost::system::error_code& error) {
    const auto pool = self.lock();
    if (error || !pool || pool->loop_.stopped()) return;
    const auto now = Clock::now();
    for (Upstream* one : pool->busy_) one->expire(now);  // It ends later, when its socket says so.
    pool->drop_old(now);
    pool->ticking_ = !pool->busy_.empty() || !pool->idle_.empty();
    if (pool->ticking_) pool->tick();
  });
}

void UpstreamPool::drop_old(Clock::time_point now) {
  for (auto& [target, kept] : idle_) {
    // The last one given is the first one taken: the old ones are in front.
    const auto young = std::find_if(
        kept.begin(), kept.end(), [&](const auto& one) { return now - one->idle_since <= kIdleFor; });
    std::for_each(kept.begin(), young, [](const auto& one) { one->close(); });
    kept.erase(kept.begin(), young);
  }
  std::erase_if(idle_, [](const auto& entry) { return entry.second.empty(); });
}

void UpstreamPool::close() {
  for (auto& [target, kept] : idle_)
    for (const auto& one : kept) one->close();
  idle_.clear();
}

}  // namespace tranche::net
