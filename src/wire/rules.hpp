// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rules: a small declarative policy on a node of the tree. "Inference up to 13B may share; training only at
// night; renders at most 40 %."
//
// A rule whose `when` fits a job binds it; every clause of its `then` must hold. Local hours are judged by
// the offsets that were resolved when the rules were written, so a new time zone database changes no old
// decision.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "wire/ask.hpp"
#include "wire/zone_offset.hpp"

namespace tranche::wire {

enum class Weekday : std::uint8_t { kMon, kTue, kWed, kThu, kFri, kSat, kSun };
BOOST_DESCRIBE_ENUM(Weekday, kMon, kTue, kWed, kThu, kFri, kSat, kSun)

struct Hours {                  // A daily span of local time; from > to runs over midnight.
  std::string from{}, to{};     // "22:00"
  std::string zone{};           // IANA name, as the person wrote it.
  std::vector<Weekday> days{};  // Of the day on which the span begins; empty: every day.
  bool operator==(const Hours&) const = default;
};
BOOST_DESCRIBE_STRUCT(Hours, (), (from, to, zone, days))

struct When {  // All that is said must fit; what is not said fits always.
  std::vector<WorkloadKind> kinds{};
  std::string model_over{};   // "13b": models with more parameters than this.
  std::string model_up_to{};  // "13b"
  std::map<std::string, std::string> labels{};
  std::optional<Hours> during{};
  std::optional<Hours> outside{};
  bool operator==(const When&) const = default;
};
BOOST_DESCRIBE_STRUCT(When, (), (kinds, model_over, model_up_to, labels, during, outside))

struct Then {
  bool deny = false;
  std::optional<std::vector<Isolation>> isolation{};
  std::optional<std::int64_t> gpu_milli_max{};      // Of one job.
  std::optional<std::int64_t> share_percent_max{};  // Of the node's GPU limit, over all jobs of these kinds.
  std::optional<std::int64_t> priority_max{};
  std::optional<Duration> time_max{};
  std::optional<std::vector<std::string>> trade_with{};   // On the exchange, with these parties only.
  std::optional<std::vector<std::string>> buy_regions{};  // Capacity from these only: where data may go.
  bool operator==(const Then&) const = default;
};
BOOST_DESCRIBE_STRUCT(
    Then,
    (),
    (deny, isolation, gpu_milli_max, share_percent_max, priority_max, time_max, trade_with, buy_regions))

struct Rule {
  std::string name{};
  When when{};
  Then then{};
  bool operator==(const Rule&) const = default;
};
BOOST_DESCRIBE_STRUCT(Rule, (), (name, when, then))

struct Rules {
  std::vector<Rule> rules{};
  std::map<std::string, std::vector<ZoneOffset>> zones{};  // Resolved at the edge for every zone named above.
  bool operator==(const Rules&) const = default;
};
BOOST_DESCRIBE_STRUCT(Rules, (), (rules, zones))

}  // namespace tranche::wire
