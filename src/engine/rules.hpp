// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rules of the tree bind a job, and whether a set of rules makes sense.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "engine/hours.hpp"
#include "wire/rules.hpp"

namespace tranche::engine {

using wire::Ask;
using wire::Isolation;
using wire::kWorkloadKinds;
using wire::Rule;
using wire::Rules;
using wire::Then;
using wire::When;
using wire::WorkloadKind;

struct SetRules {
  PartyId party{};
  Rules rules{};
  std::uint64_t if_version = 0;
};
struct RulesSet {
  PartyId party{};
  Rules before{};
  Rules after{};
};
BOOST_DESCRIBE_STRUCT(RulesSet, (), (party, before, after))

// "13b", "0.5b", "350m" in millions of parameters; nullopt when it is neither.
std::optional<std::int64_t> parse_model_size(std::string_view text);

// Why a set of rules cannot be kept, in words for the person who wrote it; empty: it can.
std::string rules_problem(const Rules&);

[[nodiscard]] bool fits(const When&, const Rules&, const Ask&, Instant at);

}  // namespace tranche::engine
