// SPDX-License-Identifier: Apache-2.0
#pragma once
// Price lists as people write them.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/hours.hpp"
#include "wire/isolation.hpp"

namespace tranche::wire {

enum class ChargeBasis : std::uint8_t {
  kAllocated,  // What was set aside, used or not.
  kUsed,       // Time that the device was busy.
  kMixed,      // `used_percent` of the price by use, the rest by allocation.
};
BOOST_DESCRIBE_ENUM(ChargeBasis, kAllocated, kUsed, kMixed)

// What of a slice the price is for.
enum class ChargeDimension : std::uint8_t {
  kCompute,  // Its share of the device's compute.
  kMemory,   // Its share of the device's memory.
  kLarger,   // The larger of both: what nobody else can have.
};
BOOST_DESCRIBE_ENUM(ChargeDimension, kCompute, kMemory, kLarger)

struct PriceRule {  // What is not said fits everything.
  std::string name{};
  std::string model{};
  std::string shape{};
  std::string region{};
  std::optional<Isolation> isolation{};
  std::uint8_t priority_min = 0, priority_max = 100;
  PartyId party{};  // And everyone below it.
  std::optional<bool> on_demand{};
  std::uint32_t minute_from = 0, minute_to = 1440;  // Of the day, in UTC.
  Money gpu_hour{};                                 // Of a whole device.
  ChargeBasis basis = ChargeBasis::kAllocated;
  std::uint32_t used_percent = 0;
  std::map<std::string, Money> per_million{};  // Units of the workload: tokens, frames.
  // Set: a price of volumes, and of nothing else; its shape, if any, is their backend.
  std::optional<Money> storage_gib_hour{};
  ChargeDimension dimension = ChargeDimension::kCompute;
  std::optional<Hours> hours{};  // Of the day in a zone, instead of the minutes above.
};
BOOST_DESCRIBE_STRUCT(PriceRule,
                      (),
                      (name,
                       model,
                       shape,
                       region,
                       isolation,
                       priority_min,
                       priority_max,
                       party,
                       on_demand,
                       minute_from,
                       minute_to,
                       gpu_hour,
                       basis,
                       used_percent,
                       per_million,
                       storage_gib_hour,
                       dimension,
                       hours))

struct PriceList {
  std::string name{};
  Instant valid_from{};
  std::vector<PriceRule> rules{};  // The first that fits holds.
  Zones zones{};                   // Resolved at the edge for every zone that the rules name.
};
BOOST_DESCRIBE_STRUCT(PriceList, (), (name, valid_from, rules, zones))

}  // namespace tranche::wire
