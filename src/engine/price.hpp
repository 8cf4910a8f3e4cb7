// SPDX-License-Identifier: Apache-2.0
#pragma once
// Price lists: what an hour of a device costs, for whom, when, and on what it is counted.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/price.hpp"

namespace tranche::engine {

using wire::ChargeBasis;
using wire::PriceList;
using wire::PriceRule;

struct State;

struct SetPriceList {
  PriceList list{};
};
struct PriceListSet {
  PriceList list{};
};
BOOST_DESCRIBE_STRUCT(PriceListSet, (), (list))

struct PriceQuery {  // What is priced.
  std::string model{};
  std::string shape{};
  std::string region{};
  wire::Isolation isolation = wire::Isolation::kSoft;
  std::uint8_t priority = 50;
  std::vector<PartyId> parties{};  // Who pays, and everything above him.
  bool on_demand = false;          // Over quota.
  bool storage = false;            // A volume; `shape` is its backend.
};

// The rule in force, and until when; the first that fits of the newest list that is valid. No rule: no
// charge.
struct PriceInForce {
  PriceRule rule{};
  Instant until{};  // Another rule may hold from then on.
};
[[nodiscard]] std::optional<PriceInForce> price_at(const std::vector<PriceList>&, const PriceQuery&, Instant);
[[nodiscard]] Instant first_list_after(const std::vector<PriceList>&, Instant);  // The far future: none.
// Whether a device of this model is meant by what somebody asks or prices: "H100" means every H100.
[[nodiscard]] bool is_model(const std::string& device_model, const std::string& asked);
// For the person who wrote it, with the rule that is meant; empty: none.
[[nodiscard]] std::string price_problem(const State&, const PriceList&);

}  // namespace tranche::engine
