// SPDX-License-Identifier: Apache-2.0
#include "engine/quota.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "engine/decide.hpp"
#include "engine/spend.hpp"
#include "wire/amount_text.hpp"

namespace tranche::engine {
namespace {

using wire::amount_text;

struct Dimension {
  std::string_view name;
  QuotaShare Quota::* share;
};
constexpr std::array kDimensions{Dimension{"gpu_milli", &Quota::gpu_milli},
                                 Dimension{"gpu_instances", &Quota::gpu_instances},
                                 Dimension{"vram_bytes", &Quota::vram_bytes},
                                 Dimension{"storage_bytes", &Quota::storage_bytes},
                                 Dimension{"jobs", &Quota::jobs},
                                 Dimension{"gpu_seconds", &Quota::gpu_seconds}};

Refusal broken(std::string_view dimension, std::string message, std::string fix) {
  return {.reason = Reason::kInvalid,
          .rule = std::string(dimension),
          .message = std::move(message),
          .fix = std::move(fix)};
}

std::optional<Refusal> share_problem(std::string_view name, const QuotaShare& share) {
  if (share.guaranteed.value_or(0) < 0 || share.limit.value_or(0) < 0) {
    return broken(name, "a quota cannot be negative", "give zero to forbid, or leave it out to say nothing");
  }
  if (share.guaranteed && share.limit && *share.guaranteed > *share.limit) {
    return broken(name,
                  "the guarantee of " + amount_text(name, *share.guaranteed) +
                      " is larger than the limit of " + amount_text(name, *share.limit),
                  "raise the limit or lower the guarantee");
  }
  return std::nullopt;
}

std::optional<Refusal> numbers_problem(const Quota& quota) {
  for (const auto& [name, share] : kDimensions) {
    if (auto refusal = share_problem(name, quota.*share)) return refusal;
  }
  for (const auto& [model, share] : quota.devices) {
    if (auto refusal = share_problem("devices." + model, share)) return refusal;
  }
  for (const auto& [sku, share] : quota.skus) {
    if (auto refusal = share_problem("skus." + sku, share)) return refusal;
  }
  if (quota.spend.value_or(Money{}) < Money{} || quota.per_job.spend.value_or(Money{}) < Money{}) {
    return broken("spend", "a spend limit cannot be negative", "give zero to forbid, or leave it out");
  }
  if (quota.per_job.spend == Money{}) {  // Zero is how a job says that it has no limit of its own.
    return broken("per_job.spend",
                  "one job's spend limit is more than nothing",
                  "give a positive amount, or forbid all spending: --spend 0");
  }
  for (const auto& [unit, limit] : quota.units) {
    if (!is_unit_name(unit))
      return broken("units." + unit,
                    "there is no unit '" + unit + "'",
                    "frames, seconds, steps, requests, tokens, tokens_in, tokens_out or units");
    if (limit < 0)
      return broken("units." + unit, "a quota cannot be negative", "give zero to forbid, or leave it out");
  }
  const std::int64_t percent = quota.per_job.compute_percent.value_or(100);
  if (percent < 1 || percent > 100) {
    return broken("per_job.compute_percent", "a compute share is 1 to 100 %", "give a number from 1 to 100");
  }
  const std::int64_t priority = quota.priority_max.value_or(100);
  if (priority < 0 || priority > 100) {
    return broken("priority_max", "priorities are 0 to 100", "give a number from 0 to 100");
  }
  return std::nullopt;
}

std::set<std::string> named(const std::map<std::string, QuotaShare>& after,
                            const std::map<std::string, QuotaShare>& before) {
  std::set<std::string> names;
  for (const auto* shares : {&after, &before})
    for (const auto& [name, share] : *shares) names.insert(name);
  return names;
}

// Quotas of `parent` and its children as they would be with `quota` at `changed`.
struct Family {
  const State& state;
  PartyId changed;
  const Quota& quota;

  [[nodiscard]] const Quota& before() const { return state.parties.at(changed).quota; }
  [[nodiscard]] const Quota& of(const Party& party) const {
    return party.id == changed ? quota : party.quota;
  }

  template <class Pick>
  std::optional<Refusal> oversold_below(const Party& parent, std::string_view name, Pick pick) const {
    // The platform sells what its limit says; any other node hands on what is guaranteed to it.
    const QuotaShare& own = pick(of(parent));
    const auto available = parent.id == kPlatform ? own.limit : own.guaranteed;
    if (!available && parent.id == kPlatform) return std::nullopt;
    std::int64_t promised = 0;
    std::int64_t asked = 0;  // By whoever is changed. Of the parent nothing: its own share became too small.
    for (const auto& [id, child] : state.parties) {
      if (child.parent != parent.id) continue;
      const std::int64_t its = pick(of(child)).guaranteed.value_or(0);
      if (id == changed) asked = its;
      if (__builtin_add_overflow(promised, its, &promised)) promised = INT64_MAX;
    }
    if (promised <= available.value_or(0)) return std::nullopt;
    const std::string where = path_of(state, parent.id);
    const std::int64_t left = std::max<std::int64_t>(available.value_or(0) - (promised - asked), 0);
    return Refusal{
        .reason = Reason::kQuota,
        .rule = std::string(name) + ".guaranteed",
        .where = where,
        .message = "guarantees below " + where + " would exceed " +
                   (parent.id == kPlatform ? "the limit of the platform" : "what is guaranteed to it"),
        .fix = parent.id == changed
                   ? "lower the guarantees below " + where + " first, or " +
                         (parent.id == kPlatform ? "limit it to at least " : "guarantee at least ") +
                         amount_text(name, promised)
                   : "guarantee at most " + amount_text(name, left) + ", or raise that of " + where,
        .limit = available.value_or(0),
        .used = promised - asked,
        .asked = asked};
  }

  [[nodiscard]] std::optional<Refusal> oversold_below(const Party& parent) const {
    for (const auto& [name, share] : kDimensions) {
      const auto pick = [&](const Quota& q) -> const QuotaShare& { return q.*share; };
      if (auto refusal = oversold_below(parent, name, pick)) return refusal;
    }
    static const QuotaShare kNothing;
    const auto in = [](const std::map<std::string, QuotaShare>& shares,
                       const std::string& key) -> const QuotaShare& {
      const auto found = shares.find(key);
      return found == shares.end() ? kNothing : found->second;
    };
    // Also what the change takes away: others may have been promised of it.
    for (const std::string& model : named(quota.devices, before().devices)) {
      const auto pick = [&](const Quota& q) -> const QuotaShare& { return in(q.devices, model); };
      if (auto refusal = oversold_below(parent, "devices." + model, pick)) return refusal;
    }
    for (const std::string& sku : named(quota.skus, before().skus)) {
      const auto pick = [&](const Quota& q) -> const QuotaShare& { return in(q.skus, sku); };
      if (auto refusal = oversold_below(parent, "skus." + sku, pick)) return refusal;
    }
    return std::nullopt;
  }
};

}  // namespace

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetQuota& command) {
  const Party* party = state.party(command.party);
  if (party == nullptr || !can_see(state, actor, command.party)) return refuse(not_found());
  // Limits come from above: whoever is bound by a quota does not set it.
  const PartyId setter = command.party == kPlatform ? kPlatform : party->parent;
  if (!may(state, actor, Action::kSetQuota, setter)) {
    return refuse(
        Refusal{.reason = Reason::kForbidden,
                .rule = "role",
                .where = path_of(state, setter),
                .message = "the quota of " + path_of(state, command.party) + " is set from above it",
                .fix = "ask an administrator of " + path_of(state, setter)});
  }
  if (command.if_version != 0 && command.if_version != party->version) {
    return refuse(Refusal{.reason = Reason::kStale,
                          .rule = "if_match",
                          .message = party->name + " was changed since you read it",
                          .fix = "read it again and repeat the change"});
  }
  if (auto refusal = numbers_problem(command.quota)) return refuse(*refusal);
  const Family family{state, command.party, command.quota};
  if (const Party* parent = state.party(party->parent)) {
    if (auto refusal = family.oversold_below(*parent)) return refuse(*refusal);
  }
  if (auto refusal = family.oversold_below(*party)) return refuse(*refusal);
  return Events{QuotaSet{command.party, party->quota, command.quota}};
}

void apply(State& state, const Envelope& envelope, const QuotaSet& event) {
  Party& party = state.parties.at(event.party);
  party.quota = event.after;
  recount_spent(state, event.party, envelope.at);
  party.version = state.sequence;
  state.index.capacity->changed();  // Another spend limit may let somebody start.
  look_at_waiting_groups(state);
}

}  // namespace tranche::engine
