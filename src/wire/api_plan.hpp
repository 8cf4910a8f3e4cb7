// SPDX-License-Identifier: Apache-2.0
#pragma once
// What something would cost and whether it would be let in, before it is started, booked or created.
#include <boost/describe/class.hpp>
#include <optional>
#include <string>

#include "wire/api_job.hpp"
#include "wire/refusal.hpp"

namespace tranche::wire {

struct PricePlan {
  std::string what{};  // In words: "3 windows of H100:0.5, 9h in all".
  bool admitted = false;
  std::optional<Refusal> refusal{};
  JobPrice price{};
  std::string note{};  // What is not in the price, or when it is charged.
};
BOOST_DESCRIBE_STRUCT(PricePlan, (), (what, admitted, refusal, price, note))

}  // namespace tranche::wire
