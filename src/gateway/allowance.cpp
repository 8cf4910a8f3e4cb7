// SPDX-License-Identifier: Apache-2.0
#include "gateway/allowance.hpp"

namespace tranche::gateway {

bool Allowance::take_request() {
  if (unit_ != Unit::kRequests) return left() > 0;
  std::int64_t left = left_.load(std::memory_order_relaxed);
  while (left > 0)
    if (left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return true;
  return false;
}

void Allowance::give_back_request() {
  if (unit_ == Unit::kRequests) left_.fetch_add(1, std::memory_order_relaxed);
}

void Allowance::take_tokens(std::uint64_t in, std::uint64_t out) {
  std::uint64_t tokens = 0;
  if (unit_ == Unit::kTokens || unit_ == Unit::kTokensIn) tokens += in;
  if (unit_ == Unit::kTokens || unit_ == Unit::kTokensOut) tokens += out;
  if (tokens > 0) left_.fetch_sub(static_cast<std::int64_t>(tokens), std::memory_order_relaxed);
}

const Allowance* take_request(const Allowances& allowances) {
  for (std::size_t i = 0; i < allowances.size(); ++i) {
    if (allowances[i]->take_request()) continue;
    for (std::size_t taken = 0; taken < i; ++taken) allowances[taken]->give_back_request();
    return allowances[i].get();
  }
  return nullptr;
}

}  // namespace tranche::gateway
