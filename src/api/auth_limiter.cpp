// SPDX-License-Identifier: Apache-2.0
#include "api/auth_limiter.hpp"

namespace tranche::api {

bool AuthLimiter::may_try(const std::string& who, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(who);
  if (found == counts_.end()) return true;
  if (now - found->second.since >= kWindow) {
    counts_.erase(found);
    return true;
  }
  return found->second.failures < kGuesses;
}

void AuthLimiter::failed(const std::string& who, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (counts_.size() >= kRemembered) {
    std::erase_if(counts_, [&](const auto& entry) { return now - entry.second.since >= kWindow; });
    if (counts_.size() >= kRemembered) counts_.clear();
  }
  Count& count = counts_.try_emplace(who, Count{0, now}).first->second;
  if (now - count.since >= kWindow) count = {0, now};
  ++count.failures;
}

}  // namespace tranche::api
