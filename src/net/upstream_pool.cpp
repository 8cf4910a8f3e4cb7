// SPDX-License-Identifier: Apache-2.0
#include "net/internal/upstream_pool.hpp"

#include <algorithm>
#include <sys/socket.h>

namespace tranche::net {
namespace {

constexpr std::size_t kIdleMost = 256;  // For each target.
constexpr std::chrono::seconds kIdleFor{30};
constexpr std::chrono::milliseconds kTick{50};

bool is_quiet(int descriptor) {  // Nothing to read, and not closed: fit for another request.
  char byte = 0;
  return ::recv(descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

}  // namespace

std::optional<boost::asio::ip::tcp::socket> UpstreamPool::take(const ForwardTarget& target) {
  const auto found = idle_.find(target);
  if (found == idle_.end()) return std::nullopt;
  while (!found->second.empty()) {
    Idle idle = std::move(found->second.back());
    found->second.pop_back();
    if (is_quiet(idle.socket.native_handle())) return std::move(idle.socket);
  }
  return std::nullopt;
}

void UpstreamPool::give(const ForwardTarget& target, boost::asio::ip::tcp::socket socket) {
  auto& kept = idle_[target];
  if (kept.size() < kIdleMost && !loop_.stopped()) kept.push_back({std::move(socket), Clock::now()});
}

void UpstreamPool::watch(Timed& timed) {
  timed_.insert(&timed);
  if (!ticking_) tick();
}

void UpstreamPool::tick() {
  ticking_ = true;
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || loop_.stopped()) return;
    const auto now = Clock::now();
    const std::vector<Timed*> all(timed_.begin(), timed_.end());
    for (Timed* one : all)
      if (timed_.contains(one)) one->expire(now);
    for (auto& [target, kept] : idle_)
      std::erase_if(kept, [&](const Idle& idle) { return now - idle.since > kIdleFor; });
    std::erase_if(idle_, [](const auto& entry) { return entry.second.empty(); });
    ticking_ = !timed_.empty() || !idle_.empty();
    if (ticking_) tick();
  });
}

}  // namespace tranche::net
