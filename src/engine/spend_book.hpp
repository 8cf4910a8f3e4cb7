// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a party and all below it spent in a period, and which alerts were raised.
#include <boost/describe/class.hpp>
#include <cstdint>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"

namespace tranche::engine {

struct Spent {
  PartyId party{};
  Instant period{};  // Its first instant.
  Money amount{};
  std::uint32_t alerted_percent = 0;
  Instant until{};               // Its end; a new one begins then.
  std::int64_t gpu_seconds = 0;  // Of leases that ended in it.
};
BOOST_DESCRIBE_STRUCT(Spent, (), (party, period, amount, alerted_percent, until, gpu_seconds))

struct BudgetAlerted {
  PartyId party{};
  Instant period{};
  std::uint32_t percent = 0;
  Money spent{};
  Money limit{};
};
BOOST_DESCRIBE_STRUCT(BudgetAlerted, (), (party, period, percent, spent, limit))

}  // namespace tranche::engine
