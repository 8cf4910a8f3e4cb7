// SPDX-License-Identifier: Apache-2.0
#pragma once
// Price lists as people write and read them: parties by their path, hours by the clock on the wall.
#include <array>
#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"
#include "wire/price.hpp"

namespace tranche::wire {

struct PriceRuleBody {  // What is not said fits everything.
  std::string name{};
  std::string model{};
  std::string shape{};
  std::string region{};
  std::optional<Isolation> isolation{};
  std::uint8_t priority_min = 0, priority_max = 100;
  std::string party{};
  std::optional<bool> on_demand{};
  std::uint32_t minute_from = 0, minute_to = 1440;
  std::optional<Hours> hours{};
  Money gpu_hour{};
  ChargeDimension dimension = ChargeDimension::kCompute;
  ChargeBasis basis = ChargeBasis::kAllocated;
  std::uint32_t used_percent = 0;
  std::map<std::string, Money> per_million{};
  std::optional<Money> storage_gib_hour{};
};
BOOST_DESCRIBE_STRUCT(PriceRuleBody,
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
                       hours,
                       gpu_hour,
                       dimension,
                       basis,
                       used_percent,
                       per_million,
                       storage_gib_hour))
template <>
struct Fields<PriceRuleBody> {
  static constexpr bool kOmitDefaults = true;
  static constexpr std::array<std::string_view, 1> kRequired{"name"};
  static constexpr std::array kDocs{
      FieldDoc{"model", "of the device: H100 means every H100"},
      FieldDoc{"shape", "a partition profile such as 1g.10gb; of storage: node or shared"},
      FieldDoc{"region", "the site of the node"},
      FieldDoc{"party", "a tenant or anything below one, and everybody below it"},
      FieldDoc{"on_demand", "true: for work over quota alone; false: for all other work"},
      FieldDoc{"minute_from", "of the day in UTC; hours says it for a zone"},
      FieldDoc{"hours", "of the day in a zone, and on which days"},
      FieldDoc{"gpu_hour", "an hour of a whole device"},
      FieldDoc{"dimension", "which share of the device the price is for: compute, memory or the larger"},
      FieldDoc{"basis", "what was set aside, what was busy, or a mix of both"},
      FieldDoc{"per_million", "a million units of work: tokens, frames, steps, requests"},
      FieldDoc{"storage_gib_hour", "a price of volumes, and of nothing else"}};
};

struct PriceListBody {
  std::string name{};
  std::optional<Instant> valid_from{};
  std::vector<PriceRuleBody> rules{};  // The first that fits holds.
};
BOOST_DESCRIBE_STRUCT(PriceListBody, (), (name, valid_from, rules))
template <>
struct Fields<PriceListBody> {
  static constexpr std::array<std::string_view, 1> kRequired{"rules"};
  static constexpr std::array kDocs{FieldDoc{"valid_from", "when it begins to hold; else now"},
                                    FieldDoc{"rules", "read in order: the first that fits is the price"}};
};

struct PriceListBook {
  std::vector<PriceListBody> items{};
};
BOOST_DESCRIBE_STRUCT(PriceListBook, (), (items))

}  // namespace tranche::wire
