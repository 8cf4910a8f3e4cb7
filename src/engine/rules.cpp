// SPDX-License-Identifier: Apache-2.0
#include "engine/rules.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "engine/decide.hpp"
#include "engine/trade_rules.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kRulesMax = 100;

// Places that a rule names, and whether what it says can be said of a place.
std::string place_problem(const Rule& rule) {
  for (const auto* place : {&rule.when.at, &rule.then.only_at}) {
    if (!*place) continue;
    const char* name = place == &rule.when.at ? "at" : "only_at";
    if ((*place)->sites.empty() && (*place)->labels.empty())
      return std::string(name) + " names no place; write sites: [eu-west] or labels: {rack: r7}";
    if (std::find((*place)->sites.begin(), (*place)->sites.end(), "") != (*place)->sites.end())
      return std::string(name) + " has a site without a name";
  }
  const Then& then = rule.then;
  if (rule.when.at && (then.share_percent_max || then.trade_with || then.buy_regions))
    return "share_percent_max, trade_with and buy_regions hold everywhere; leave `at` out";
  return {};
}

std::string rule_problem(const Rules& rules, const Rule& rule) {
  if (rule.name.empty()) return "it needs a name";
  for (const std::string* size : {&rule.when.model_over, &rule.when.model_up_to}) {
    if (!size->empty() && !parse_model_size(*size))
      return "'" + *size + "' is no model size; write 7b, 13b, 350m";
  }
  for (const auto* hours : {&rule.when.during, &rule.when.outside}) {
    if (!*hours) continue;
    if (auto problem = hours_problem(**hours, rules.zones); !problem.empty()) return problem;
  }
  const Then& then = rule.then;
  if (then == Then{}) return "its `then` says nothing; write deny: true or a limit";
  const std::int64_t percent = then.share_percent_max.value_or(0);
  if (percent < 0 || percent > 100) return "share_percent_max is 0 to 100";
  const std::int64_t priority = then.priority_max.value_or(0);
  if (priority < 0 || priority > 100) return "priority_max is 0 to 100";
  if (then.gpu_milli_max.value_or(0) < 0 || then.time_max.value_or(Duration{}) < Duration{}) {
    return "a limit cannot be negative";
  }
  if ((then.trade_with && then.trade_with->empty()) || (then.buy_regions && then.buy_regions->empty()))
    return "an empty list allows no trade at all; forbid it by quota: may_buy, may_sell";
  if (then.isolation && then.isolation->empty())
    return "an empty list of isolation classes allows nothing; use deny";
  return place_problem(rule);
}

}  // namespace

std::optional<std::int64_t> parse_model_size(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  const char unit = static_cast<char>(text.back() | 0x20);
  if (unit != 'b' && unit != 'm') return std::nullopt;
  text.remove_suffix(1);
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error != std::errc{} || whole < 0 || whole > 1'000'000) return std::nullopt;
  std::int64_t thousandths = 0;
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (!rest.empty()) {
    if (rest.front() != '.' || rest.size() < 2 || rest.size() > 4) return std::nullopt;
    std::int64_t scale = 100;
    for (const char digit : rest.substr(1)) {
      if (digit < '0' || digit > '9') return std::nullopt;
      thousandths += (digit - '0') * scale;
      scale /= 10;
    }
  }
  return unit == 'b' ? whole * 1000 + thousandths : whole;
}

std::string rules_problem(const Rules& rules) {
  if (rules.rules.size() > kRulesMax) return "at most 100 rules fit on one node";
  std::set<std::string_view> names;
  for (const Rule& rule : rules.rules) {
    if (auto problem = rule_problem(rules, rule); !problem.empty())
      return "rule '" + rule.name + "': " + problem;
    if (!names.insert(rule.name).second) return "rule '" + rule.name + "' stands there twice";
  }
  return {};
}

bool fits(const When& when, const Rules& rules, const Ask& ask, Instant at) {
  if (!when.kinds.empty() && std::find(when.kinds.begin(), when.kinds.end(), ask.kind) == when.kinds.end())
    return false;
  if (!when.model_over.empty() && ask.model_millions <= parse_model_size(when.model_over).value_or(0))
    return false;
  if (!when.model_up_to.empty() &&
      (ask.model_millions == 0 || ask.model_millions > parse_model_size(when.model_up_to).value_or(0))) {
    return false;
  }
  for (const auto& [key, value] : when.labels) {
    const auto label = ask.labels.find(key);
    if (label == ask.labels.end() || label->second != value) return false;
  }
  if (when.during && !within(*when.during, rules.zones, at)) return false;
  return !when.outside || !within(*when.outside, rules.zones, at);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetRules& command) {
  const Party* party = state.party(command.party);
  if (party == nullptr) return refuse(not_found());
  if (auto refusal = check_access(state, actor, Action::kSetRules, command.party)) return refuse(*refusal);
  if (command.if_version != 0 && command.if_version != party->version) {
    return refuse(Refusal{.reason = Reason::kStale,
                          .rule = "if_match",
                          .message = party->name + " was changed since you read it",
                          .fix = "read it again and repeat the change"});
  }
  if (auto problem = rules_problem(command.rules); !problem.empty()) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "rules",
                          .message = std::move(problem),
                          .fix = "mend the rule and send the whole file again"});
  }
  return Events{RulesSet{command.party, party->rules, command.rules}};
}

void apply(State& state, const Envelope&, const RulesSet& event) {
  Party& party = state.parties.at(event.party);
  party.rules = event.after;
  party.version = state.sequence;
  restrict_resting(state, event.party);
}

}  // namespace tranche::engine
