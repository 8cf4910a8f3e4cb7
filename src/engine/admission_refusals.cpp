// SPDX-License-Identifier: Apache-2.0
#include "engine/admission_refusals.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "wire/amount_text.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

using wire::amount_text;

struct Broken {
  std::string what{};
  std::string fix{};
};

Refusal broken_rule(const Rule& rule, const std::string& where, Broken broken) {
  return {.reason = Reason::kPolicy,
          .rule = "rule '" + rule.name + "'",
          .where = where,
          .message = "rule '" + rule.name + "' of " + where + ": " + std::move(broken.what),
          .fix = std::move(broken.fix)};
}

std::string listed(const std::vector<Isolation>& classes) {
  std::string out;
  for (const Isolation one : classes) out += (out.empty() ? "" : ", ") + std::string(wire::name_of(one));
  return out;
}

// What of the party's use the rule counts: that of the kinds of work that it is about.
std::int64_t counted_milli(const Party& party, const Rule& rule) {
  const auto& kinds = rule.when.kinds;
  std::int64_t used = 0;
  for (std::size_t kind = 0; kind < kWorkloadKinds; ++kind) {
    if (kinds.empty() ||
        std::find(kinds.begin(), kinds.end(), static_cast<WorkloadKind>(kind)) != kinds.end())
      used += party.usage.gpu_milli_by_kind[kind];
  }
  return used;
}

std::optional<Refusal> share_refusal(const Party& party,
                                     const Rule& rule,
                                     const std::string& where,
                                     std::int64_t asked) {
  if (!rule.then.share_percent_max || !party.quota.gpu_milli.limit) return std::nullopt;
  const std::int64_t most = *party.quota.gpu_milli.limit * *rule.then.share_percent_max / 100;
  const std::int64_t used = counted_milli(party, rule);
  if (used + asked <= most) return std::nullopt;
  const std::int64_t left = std::max<std::int64_t>(most - used, 0);
  const std::string ends = "wait until such jobs of " + where + " end";
  Refusal refusal =
      broken_rule(rule,
                  where,
                  {"at most " + std::to_string(*rule.then.share_percent_max) + " % of the limit, which is " +
                       amount_text("gpu_milli", most),
                   left > 0 ? "ask for at most " + amount_text("gpu_milli", left) + ", or " + ends : ends});
  refusal.limit = most;
  refusal.used = used;
  refusal.asked = asked;
  return refusal;
}

}  // namespace

bool allows(const std::vector<Isolation>& classes, Isolation wanted) {
  return std::find(classes.begin(), classes.end(), wanted) != classes.end();
}

std::int64_t whole_seconds(Duration duration) {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

Refusal over_limit(std::string_view rule,
                   const std::string& where,
                   std::int64_t limit,
                   std::int64_t used,
                   std::int64_t asked) {
  const std::int64_t left = std::max<std::int64_t>(limit - used, 0);
  const bool in_period = rule == "gpu_seconds";
  const std::string ends = in_period ? "wait for the next period" : "wait until jobs of " + where + " end";
  return {.reason = Reason::kQuota,
          .rule = std::string(rule),
          .where = where,
          .message = where + (in_period ? " may use at most " : " may hold at most ") +
                     amount_text(rule, limit) + (in_period ? " in a period" : " at once"),
          .fix = left > 0 ? "ask for at most " + amount_text(rule, left) + ", or " + ends
                          : ends + ", or ask its administrator for more",
          .limit = limit,
          .used = used,
          .asked = asked};
}

Refusal over_job_limit(std::string_view rule,
                       const std::string& where,
                       std::int64_t limit,
                       std::int64_t asked) {
  const bool is_priority = rule == "priority_max";
  const std::string most = (is_priority ? "priority " : "") + amount_text(rule, limit);
  return {.reason = Reason::kQuota,
          .rule = std::string(rule),
          .where = where,
          .message = where + " allows one job at most " + most + ", asked " + amount_text(rule, asked),
          .fix = "ask for " + most + " or less",
          .limit = limit,
          .asked = asked};
}

std::optional<Refusal> rule_refusal(
    const State& state, const Party& party, const Rule& rule, const Ask& ask, Duration time) {
  const Then& then = rule.then;
  const std::string where = path_of(state, party.id);
  if (then.deny) {
    const bool timed = rule.when.during || rule.when.outside;
    return broken_rule(rule,
                       where,
                       {"such a job is not admitted" + std::string(timed ? " at this hour" : ""),
                        timed ? "submit it at another hour" : "ask the administrator of " + where});
  }
  if (then.isolation && ask.instances > 0 && !allows(*then.isolation, ask.isolation)) {
    const std::string allowed = listed(*then.isolation);
    return broken_rule(rule, where, {"isolation must be one of: " + allowed, "ask for isolation " + allowed});
  }
  if (then.gpu_milli_max && ask.gpu_milli() > *then.gpu_milli_max) {
    const std::string most = amount_text("gpu_milli", *then.gpu_milli_max);
    return broken_rule(rule, where, {"at most " + most + " a job", "ask for at most " + most});
  }
  if (then.priority_max && ask.priority > *then.priority_max) {
    const std::string most = std::to_string(*then.priority_max);
    return broken_rule(rule, where, {"priority at most " + most, "ask for priority " + most + " or less"});
  }
  if (then.time_max && (time == Duration{} || time > *then.time_max)) {
    const std::string most = text(*then.time_max);
    return broken_rule(rule, where, {"a time limit of at most " + most, "give --time " + most + " or less"});
  }
  return share_refusal(party, rule, where, ask.gpu_milli());
}

}  // namespace tranche::engine
