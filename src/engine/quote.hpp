// SPDX-License-Identifier: Apache-2.0
#pragma once
// Quotes that hold: capacity and money set aside for a short time at the prices that were told, so that
// nothing changes between the question and the order.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "policy/matching.hpp"
#include "wire/workload.hpp"

namespace tranche::engine {

struct QuoteId {
  static constexpr std::string_view kIdPrefix = "quo_";
  std::uint64_t value = 0;
  auto operator<=>(const QuoteId&) const = default;
};

struct QuotedAsk {
  std::uint64_t ask = 0;   // The order that keeps the capacity.
  std::uint64_t of = 0;    // The order that it is a part of.
  bool withdrawn = false;  // The seller took that back meanwhile.
};
BOOST_DESCRIBE_STRUCT(QuotedAsk, (), (ask, of, withdrawn))

struct Quote {
  QuoteId id{};
  PartyId party{};
  std::uint64_t bid = 0;  // The order that keeps the money.
  std::vector<QuotedAsk> asks{};
  Instant expires{};
  Money cost{};
};
BOOST_DESCRIBE_STRUCT(Quote, (), (id, party, bid, asks, expires, cost))

struct KeepQuote {  // Asks for a quote that holds.
  PartyId party{};
  std::uint64_t book = 0;
  wire::WorkloadKind workload = wire::WorkloadKind::kBatch;
  std::int64_t price = 0;  // The most to pay; zero: whatever it costs.
  std::int64_t first_slot = 0;
  std::uint32_t slots = 1;
  std::uint32_t quantity = 0;
  std::uint32_t quantity_min = 0;
  std::uint32_t slots_min = 0;
};
struct QuoteKept {
  PartyId party{};
  Quote quote{};
  policy::MarketOrder bid{};
  std::vector<policy::MarketOrder> asks{};
};
BOOST_DESCRIBE_STRUCT(QuoteKept, (), (party, quote, bid, asks))

struct TakeQuote {  // Buys what was quoted.
  QuoteId quote{};
};
struct DropQuote {
  QuoteId quote{};
};
struct QuoteEnded {
  QuoteId quote{};
  PartyId party{};
  bool taken = false;
};
BOOST_DESCRIBE_STRUCT(QuoteEnded, (), (quote, party, taken))

}  // namespace tranche::engine
