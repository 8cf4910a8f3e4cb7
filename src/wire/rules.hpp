// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rules: a small declarative policy on a node of the tree. "Inference up to 13B may share; training only at
// night; renders at most 40 %."
//
// A rule whose `when` fits a job binds it; every clause of its `then` must hold. Local hours are judged by
// the offsets that were resolved when the rules were written, so a new time zone database changes no old
// decision.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "wire/ask.hpp"
#include "wire/hours.hpp"

namespace tranche::wire {

struct Place {  // Nodes, by where they stand and what they are labelled with; all that is said must fit.
  std::vector<std::string> sites{};             // One of these.
  std::map<std::string, std::string> labels{};  // All of these.
  bool operator==(const Place&) const = default;
};
BOOST_DESCRIBE_STRUCT(Place, (), (sites, labels))

struct When {  // All that is said must fit; what is not said fits always.
  std::vector<WorkloadKind> kinds{};
  std::string model_over{};   // "13b": models with more parameters than this.
  std::string model_up_to{};  // "13b"
  std::map<std::string, std::string> labels{};
  std::optional<Hours> during{};
  std::optional<Hours> outside{};
  std::optional<Place> at{};  // The rule binds the job on these nodes, and on no others.
  bool operator==(const When&) const = default;
};
BOOST_DESCRIBE_STRUCT(When, (), (kinds, model_over, model_up_to, labels, during, outside, at))

struct Then {
  bool deny = false;
  std::optional<std::vector<Isolation>> isolation{};
  std::optional<std::int64_t> gpu_milli_max{};      // Of one job.
  std::optional<std::int64_t> share_percent_max{};  // Of the node's GPU limit, over all jobs of these kinds.
  std::optional<std::int64_t> priority_max{};
  std::optional<Duration> time_max{};
  std::optional<std::vector<std::string>> trade_with{};   // On the exchange, with these parties only.
  std::optional<std::vector<std::string>> buy_regions{};  // Capacity from these only: where data may go.
  std::optional<Place> only_at{};                         // Such jobs run on these nodes only.
  bool operator==(const Then&) const = default;
};
BOOST_DESCRIBE_STRUCT(Then,
                      (),
                      (deny,
                       isolation,
                       gpu_milli_max,
                       share_percent_max,
                       priority_max,
                       time_max,
                       trade_with,
                       buy_regions,
                       only_at))

struct Rule {
  std::string name{};
  When when{};
  Then then{};
  bool operator==(const Rule&) const = default;
};
BOOST_DESCRIBE_STRUCT(Rule, (), (name, when, then))

struct Rules {
  std::vector<Rule> rules{};
  Zones zones{};  // Resolved at the edge for every zone named above.
  bool operator==(const Rules&) const = default;
};
BOOST_DESCRIBE_STRUCT(Rules, (), (rules, zones))

}  // namespace tranche::wire
