// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an hour of a device costs its operator: the other side of its price.
#include <boost/describe/class.hpp>
#include <vector>

#include "base/time.hpp"
#include "wire/api_margin.hpp"

namespace tranche::engine {

struct State;
struct Device;
using wire::CapacityCost;

struct SetCapacityCost {
  CapacityCost cost{};
};
struct CapacityCostSet {
  CapacityCost cost{};
};
BOOST_DESCRIBE_STRUCT(CapacityCostSet, (), (cost))

// What the device cost from one instant to another, to the micro-unit below.
[[nodiscard]] Money capacity_cost(const State&, const Device&, Instant from, Instant to);

}  // namespace tranche::engine
