// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many requests or tokens of a quota are left, counted down as they pass. Shared by all services below
// the party that has the quota, so that together they keep it. Thread-safe.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/time.hpp"

namespace tranche::gateway {

class Allowance {
 public:
  enum class Unit { kRequests, kTokens, kTokensIn, kTokensOut };

  Allowance(Unit unit, std::int64_t left, Instant until, std::string words)
      : unit_(unit), until_(until), words_(std::move(words)), left_(left) {}

  // One more request: false when it is used up, and then nothing was taken. Tokens are known afterwards: the
  // last request may go beyond.
  [[nodiscard]] bool take_request();
  void give_back_request();
  void take_tokens(std::uint64_t in, std::uint64_t out);

  [[nodiscard]] Instant until() const { return until_; }             // From then on there are more.
  [[nodiscard]] const std::string& words() const { return words_; }  // For whom it is used up.
  [[nodiscard]] std::int64_t left() const { return left_.load(std::memory_order_relaxed); }

 private:
  const Unit unit_;
  const Instant until_;
  const std::string words_;
  std::atomic<std::int64_t> left_;
};

using Allowances = std::vector<std::shared_ptr<Allowance>>;

// One of each, or none of any: the one that is used up.
[[nodiscard]] const Allowance* take_request(const Allowances& allowances);

}  // namespace tranche::gateway
