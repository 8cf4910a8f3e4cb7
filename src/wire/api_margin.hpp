// SPDX-License-Identifier: Apache-2.0
#pragma once
// What capacity costs its operator, and what is left of what it earns.
#include <array>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"

namespace tranche::wire {

struct CapacityCost {   // Of an hour of one device, in use or not.
  std::string node{};   // Empty: every node.
  std::string model{};  // Empty: every model.
  Instant valid_from{};
  Money purchase{};  // Its price, spread over the hours of its life.
  Money lease{};
  Money commitment{};
  Money energy{};
  [[nodiscard]] Money hourly() const {
    return {purchase.micros + lease.micros + commitment.micros + energy.micros};
  }
};
BOOST_DESCRIBE_STRUCT(CapacityCost, (), (node, model, valid_from, purchase, lease, commitment, energy))
template <>
struct Fields<CapacityCost> {
  static constexpr std::array<std::string_view, 0> kRequired{};
  static constexpr std::array kDocs{FieldDoc{"node", "of this node alone"},
                                    FieldDoc{"model", "of this model alone; H100 means every H100"},
                                    FieldDoc{"valid_from", "not in the past; absent: now"},
                                    FieldDoc{"purchase", "an hour's part of what was paid for a device"},
                                    FieldDoc{"lease", "rent of a device for an hour"},
                                    FieldDoc{"commitment", "an hour's part of what was committed to"},
                                    FieldDoc{"energy", "power and cooling of a device for an hour"}};
};

struct CapacityCostList {
  std::vector<CapacityCost> items{};
};
BOOST_DESCRIBE_STRUCT(CapacityCostList, (), (items))

enum class MarginBy : std::uint8_t { kDevice, kNode, kModel, kTenant };
BOOST_DESCRIBE_ENUM(MarginBy, kDevice, kNode, kModel, kTenant)

struct MarginRow {
  std::string what{};
  Money revenue{};  // Charged, without what was credited.
  Money cost{};
  Money margin{};
  std::int64_t held_percent = 0;  // Of the devices' time; of a tenant, what it held of everything.
};
BOOST_DESCRIBE_STRUCT(MarginRow, (), (what, revenue, cost, margin, held_percent))

struct MarginReport {
  std::string currency{};
  Instant from{}, to{};
  std::vector<MarginRow> items{};
  Money revenue{};
  Money cost{};
  Money margin{};
};
BOOST_DESCRIBE_STRUCT(MarginReport, (), (currency, from, to, items, revenue, cost, margin))

}  // namespace tranche::wire
