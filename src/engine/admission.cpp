// SPDX-License-Identifier: Apache-2.0
#include "engine/admission.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "engine/lease_meter.hpp"
#include "engine/place_rules.hpp"
#include "engine/spend.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

// "1.5", "0.125": thousandths as people write them.
std::string thousandths(std::int64_t value) {
  std::string text = std::to_string(value / 1000);
  if (value % 1000 == 0) return text;
  std::string rest = std::to_string(1000 + value % 1000).substr(1);
  while (rest.ends_with('0')) rest.pop_back();
  return text + '.' + rest;
}

// An amount with the unit that people use for it; rules are named by the field that sets them.
std::string amount_text(std::string_view rule, std::int64_t amount) {
  if (rule == "gpu_milli" || rule.starts_with("devices.")) return thousandths(amount) + " GPUs";
  if (rule == "vram_bytes" || rule == "storage_bytes") return thousandths(amount / 1'000'000) + " GB";
  return std::to_string(amount) + ' ' + std::string(rule);
}

Refusal over_limit(
    std::string_view rule, std::string where, std::int64_t limit, std::int64_t used, std::int64_t asked) {
  const std::int64_t left = std::max<std::int64_t>(limit - used, 0);
  return {.reason = Reason::kQuota,
          .rule = std::string(rule),
          .where = where,
          .message = where + " may hold at most " + amount_text(rule, limit) + " at once",
          .fix = left > 0 ? "ask for at most " + amount_text(rule, left) + ", or wait until jobs of " +
                                where + " end"
                          : "wait until jobs of " + where + " end, or ask its administrator for more",
          .limit = limit,
          .used = used,
          .asked = asked};
}

Refusal over_job_limit(std::string_view rule, std::string where, std::int64_t limit, std::int64_t asked) {
  return {.reason = Reason::kQuota,
          .rule = std::string(rule),
          .where = where,
          .message = where + " allows one job at most " + amount_text(rule, limit) + ", asked " +
                     amount_text(rule, asked),
          .fix = "ask for at most " + amount_text(rule, limit),
          .limit = limit,
          .asked = asked};
}

Refusal broken_rule(const Rule& rule, std::string where, std::string what, std::string fix) {
  return {.reason = Reason::kPolicy,
          .rule = "rule '" + rule.name + "'",
          .where = where,
          .message = "rule '" + rule.name + "' of " + where + ": " + std::move(what),
          .fix = std::move(fix)};
}

bool contains(const std::vector<Isolation>& classes, Isolation wanted) {
  return std::find(classes.begin(), classes.end(), wanted) != classes.end();
}

std::int64_t seconds(Duration duration) {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

// One walk up the tree. Hard limits refuse at once; limits on what is held at once may be passed on demand.
class Walk {
 public:
  Walk(const State& state, const Ask& ask, Instant at, Duration time)
      : state_(state), ask_(ask), at_(at), time_(time) {
    ask_time_.time = time;
    ask_time_.instances = ask.instances;
    ask_time_.milli_each = ask.milli_each;
  }

  std::optional<Refusal> visit(const Party& party) {
    if (auto refusal = per_job(party)) return refusal;
    if (auto refusal = rules(party)) return refusal;
    if (auto refusal = held_at_once(party)) {
      if (party.quota.over_quota != OverQuota::kOnDemand || state_.settings.on_demand_gpu_hour == Money{})
        return refusal;
      if (!first_over_) first_over_ = std::move(refusal);
    }
    return per_period(party);
  }

  [[nodiscard]] const std::optional<Refusal>& first_over() const { return first_over_; }

 private:
  std::string where(const Party& party) const { return path_of(state_, party.id); }

  std::optional<Refusal> per_job(const Party& party) const {
    const Quota& quota = party.quota;
    const PerJobLimits& limits = quota.per_job;
    if (limits.gpu_milli && ask_.gpu_milli() > *limits.gpu_milli) {
      return over_job_limit("gpu_milli", where(party), *limits.gpu_milli, ask_.gpu_milli());
    }
    if (limits.vram_bytes && ask_.vram_bytes() > *limits.vram_bytes) {
      return over_job_limit("vram_bytes", where(party), *limits.vram_bytes, ask_.vram_bytes());
    }
    if (limits.compute_percent && ask_.milli_each > *limits.compute_percent * 10) {
      return over_job_limit(
          "compute_percent", where(party), *limits.compute_percent, (ask_.milli_each + 9) / 10);
    }
    if (limits.time && ask_.time > *limits.time) {
      return over_job_limit("seconds of run time", where(party), seconds(*limits.time), seconds(ask_.time));
    }
    if (quota.wall_time_max && ask_.time > *quota.wall_time_max) {
      return over_job_limit(
          "seconds of run time", where(party), seconds(*quota.wall_time_max), seconds(ask_.time));
    }
    if (limits.spend && ask_.spend > *limits.spend) {
      return over_job_limit("micro-units of spend", where(party), limits.spend->micros, ask_.spend.micros);
    }
    if (quota.priority_max && ask_.priority > *quota.priority_max) {
      return over_job_limit("priority", where(party), *quota.priority_max, ask_.priority);
    }
    if (quota.isolation && ask_.instances > 0 && !contains(*quota.isolation, ask_.isolation)) {
      return Refusal{.reason = Reason::kPolicy,
                     .rule = "isolation",
                     .where = where(party),
                     .message = where(party) + " does not allow isolation class " +
                                std::string(wire::name_of(ask_.isolation)),
                     .fix = "ask for another isolation class"};
    }
    return std::nullopt;
  }

  std::optional<Refusal> rules(const Party& party) const {
    for (const Rule& rule : party.rules.rules) {
      if (rule.when.at || !fits(rule.when, party.rules, ask_, at_)) continue;  // Of a place: see below.
      if (auto refusal = rule_refusal(party, rule)) return refusal;
    }
    return std::nullopt;
  }

  std::optional<Refusal> rule_refusal(const Party& party, const Rule& rule) const {
    const Then& then = rule.then;
    if (then.deny) {
      const bool timed = rule.when.during || rule.when.outside;
      return broken_rule(rule,
                         where(party),
                         "such a job is not admitted" + std::string(timed ? " at this hour" : ""),
                         timed ? "submit it at another hour" : "ask the administrator of " + where(party));
    }
    if (then.isolation && ask_.instances > 0 && !contains(*then.isolation, ask_.isolation)) {
      std::string allowed;
      for (const Isolation one : *then.isolation)
        allowed += (allowed.empty() ? "" : ", ") + std::string(wire::name_of(one));
      return broken_rule(
          rule, where(party), "isolation must be one of: " + allowed, "ask for isolation " + allowed);
    }
    if (then.gpu_milli_max && ask_.gpu_milli() > *then.gpu_milli_max) {
      return broken_rule(rule,
                         where(party),
                         "at most " + std::to_string(*then.gpu_milli_max) + " gpu_milli a job",
                         "ask for a smaller share");
    }
    if (then.priority_max && ask_.priority > *then.priority_max) {
      const std::string most = std::to_string(*then.priority_max);
      return broken_rule(
          rule, where(party), "priority at most " + most, "ask for priority " + most + " or less");
    }
    if (then.time_max && (time_ == Duration{} || time_ > *then.time_max)) {
      const std::string most = std::to_string(seconds(*then.time_max));
      return broken_rule(
          rule, where(party), "a time limit of at most " + most + " s", "give --time " + most + "s");
    }
    if (then.share_percent_max && party.quota.gpu_milli.limit) {
      const std::int64_t most = *party.quota.gpu_milli.limit * *then.share_percent_max / 100;
      std::int64_t used = 0;
      for (std::size_t kind = 0; kind < kWorkloadKinds; ++kind) {
        const bool counted =
            rule.when.kinds.empty() ||
            std::find(rule.when.kinds.begin(), rule.when.kinds.end(), static_cast<WorkloadKind>(kind)) !=
                rule.when.kinds.end();
        if (counted) used += party.usage.gpu_milli_by_kind[kind];
      }
      if (used + ask_.gpu_milli() > most) {
        Refusal refusal =
            broken_rule(rule,
                        where(party),
                        "at most " + std::to_string(*then.share_percent_max) + " % of the GPU limit, " +
                            std::to_string(used) + " of " + std::to_string(most) + " gpu_milli in use",
                        "wait until such jobs end, or ask for a smaller share");
        refusal.limit = most;
        refusal.used = used;
        refusal.asked = ask_.gpu_milli();
        return refusal;
      }
    }
    return std::nullopt;
  }

  std::optional<Refusal> one_share(const Party& party,
                                   std::string_view rule,
                                   const QuotaShare& share,
                                   std::int64_t used,
                                   std::int64_t asked) const {
    if (!share.limit || asked == 0) return std::nullopt;
    std::int64_t total = 0;
    if (!__builtin_add_overflow(used, asked, &total) && total <= *share.limit) return std::nullopt;
    return over_limit(rule, where(party), *share.limit, used, asked);
  }

  std::optional<Refusal> held_at_once(const Party& party) const {
    const Quota& quota = party.quota;
    const Usage& usage = party.usage;
    if (auto r = one_share(party, "jobs", quota.jobs, usage.jobs, 1)) return r;
    if (auto r = one_share(party, "gpu_milli", quota.gpu_milli, usage.gpu_milli, ask_.gpu_milli())) return r;
    if (auto r = one_share(party, "gpu_instances", quota.gpu_instances, usage.gpu_instances, ask_.instances))
      return r;
    if (auto r = one_share(party, "vram_bytes", quota.vram_bytes, usage.vram_bytes, ask_.vram_bytes()))
      return r;
    if (auto r =
            one_share(party, "storage_bytes", quota.storage_bytes, usage.storage_bytes, ask_.storage_bytes))
      return r;
    if (auto r = of_model(party)) return r;
    return one_named(party, "skus.", quota.skus, usage.skus, ask_.sku, ask_.instances);
  }

  // A limit of H100 counts every H100, as it was asked for.
  std::optional<Refusal> of_model(const Party& party) const {
    if (ask_.model.empty()) return std::nullopt;
    for (const auto& [model, share] : party.quota.devices) {
      if (!is_model(ask_.model, model)) continue;
      std::int64_t used = 0;
      for (const auto& [name, milli] : party.usage.devices)
        if (is_model(name, model)) used += milli;
      if (auto r = one_share(party, "devices." + model, share, used, ask_.gpu_milli())) return r;
    }
    return std::nullopt;
  }

  std::optional<Refusal> one_named(const Party& party,
                                   std::string_view prefix,
                                   const std::map<std::string, QuotaShare>& shares,
                                   const std::map<std::string, std::int64_t>& used,
                                   const std::string& name,
                                   std::int64_t asked) const {
    if (name.empty()) return std::nullopt;
    const auto share = shares.find(name);
    if (share == shares.end()) return std::nullopt;
    const auto held = used.find(name);
    return one_share(
        party, std::string(prefix) + name, share->second, held == used.end() ? 0 : held->second, asked);
  }

  std::optional<Refusal> per_period(const Party& party) const {
    if (!party.quota.gpu_seconds.limit || ask_.gpu_milli() == 0) return std::nullopt;
    if (time_ == Duration{}) {
      return Refusal{.reason = Reason::kQuota,
                     .rule = "gpu_seconds",
                     .where = where(party),
                     .message = where(party) + " counts GPU time, so a job needs a time limit",
                     .fix = "give --time, for example --time 2h"};
    }
    return one_share(party,
                     "gpu_seconds",
                     party.quota.gpu_seconds,
                     party.usage.gpu_seconds_reserved + gpu_seconds_used(state_, party.id, at_),
                     ask_time_.gpu_seconds());
  }

  const State& state_;
  const Ask& ask_;
  Instant at_;
  Duration time_;
  Ask ask_time_;
  std::optional<Refusal> first_over_;
};

// The time limit in force: what was asked, or else the smallest that a node of the tree sets.
Duration time_in_force(const State& state, PartyId owner, const Ask& ask) {
  if (ask.time != Duration{}) return ask.time;
  Duration time{};
  for (const Party* at = state.party(owner); at != nullptr; at = state.party(at->parent)) {
    for (const auto& limit : {at->quota.wall_time_max, at->quota.per_job.time}) {
      if (limit && (time == Duration{} || *limit < time)) time = *limit;
    }
  }
  return time;
}

// Work over quota must be covered by a spend limit at every node that has one, and by one at least.
Result<Money, Refusal> on_demand_hold(
    const State& state, PartyId owner, const Ask& ask, const Refusal& over, Instant now) {
  constexpr std::int64_t kMilliHourSeconds = 1000LL * 3600;
  const Int128 milli_seconds = static_cast<Int128>(ask.gpu_milli()) * seconds(ask.time);
  if (ask.time == Duration{} || milli_seconds > std::numeric_limits<std::int64_t>::max()) return refuse(over);
  const auto cost = scale_ceil(
      state.settings.on_demand_gpu_hour, static_cast<std::int64_t>(milli_seconds), kMilliHourSeconds);
  if (!cost) return refuse(over);
  bool covered = ask.spend != Money{};
  const auto too_dear = [&](std::string where, Money limit, Money used) {
    return Refusal{.reason = Reason::kBudget,
                   .rule = "spend",
                   .where = where,
                   .message = over.message + "; on demand it would cost more than the spend limit of " +
                              where + " covers",
                   .fix = "ask for less time or a smaller share",
                   .limit = limit.micros,
                   .used = used.micros,
                   .asked = cost->micros};
  };
  if (covered && *cost > ask.spend) return refuse(too_dear("the job", ask.spend, {}));
  for (const Party* at = state.party(owner); at != nullptr; at = state.party(at->parent)) {
    if (!at->quota.spend) continue;
    covered = true;
    const Money used{at->usage.spend_reserved.micros + spent(state, at->id, now).micros};
    const auto total = add(used, *cost);
    if (!total || *total > *at->quota.spend)
      return refuse(too_dear(path_of(state, at->id), *at->quota.spend, used));
  }
  if (!covered) {
    Refusal bounded = over;
    bounded.fix += "; or bound what it may cost by a spend limit (--spend): it runs on demand then";
    return refuse(bounded);
  }
  return *cost;
}

void change(Usage& usage, const Ask& ask, Money hold, int sign) {
  const auto named =
      [sign](std::map<std::string, std::int64_t>& counts, const std::string& name, std::int64_t amount) {
        if (name.empty() || amount == 0) return;
        const auto at = counts.try_emplace(name).first;
        at->second += sign * amount;
        if (at->second == 0) counts.erase(at);
      };
  usage.jobs += sign;
  usage.gpu_milli += sign * ask.gpu_milli();
  usage.gpu_instances += sign * static_cast<std::int64_t>(ask.instances);
  usage.vram_bytes += sign * ask.vram_bytes();
  usage.storage_bytes += sign * ask.storage_bytes;
  usage.gpu_milli_by_kind[static_cast<std::size_t>(ask.kind)] += sign * ask.gpu_milli();
  usage.gpu_seconds_reserved += sign * ask.gpu_seconds();
  usage.spend_reserved.micros += sign * hold.micros;
  named(usage.devices, ask.model, ask.gpu_milli());
  named(usage.skus, ask.sku, ask.instances);
}

void change_usage(State& state, PartyId owner, const Ask& ask, Money hold, int sign) {
  for (auto at = state.parties.find(owner); at != state.parties.end();
       at = state.parties.find(at->second.parent))
    change(at->second.usage, ask, hold, sign);
}

}  // namespace

Result<Admitted, Refusal> admit(const State& state, PartyId owner, const Ask& ask, Instant at) {
  const Duration time = time_in_force(state, owner, ask);
  Walk walk(state, ask, at, time);
  for (const Party* party = state.party(owner); party != nullptr; party = state.party(party->parent)) {
    if (auto refusal = walk.visit(*party)) return refuse(*refusal);
  }
  Ask timed = ask;
  timed.time = time;
  if (auto refusal = place_problem(state, owner, timed, at)) return refuse(*refusal);
  Admitted admitted{.admission = Admission::kWithinQuota, .hold = {}, .time = time};
  if (walk.first_over()) {
    const auto hold = on_demand_hold(state, owner, timed, *walk.first_over(), at);
    if (!hold) return refuse(hold.error());
    admitted.admission = Admission::kOnDemand;
    admitted.hold = *hold;
  }
  // Nothing is let in that nobody could pay for; the money itself is set aside when it starts.
  if (auto refusal = funding_problem(state, owner, JobId{}, timed, admitted.admission, admitted.hold, at))
    return refuse(*refusal);
  return admitted;
}

bool may_grow(const State& state,
              PartyId owner,
              const Ask& now,
              const Ask& wanted,
              const std::vector<Grown>& granted,
              Instant at) {
  Walk walk(state, wanted, at, wanted.time);
  for (const Party* party = state.party(owner); party != nullptr; party = state.party(party->parent)) {
    Party without = *party;
    change(without.usage, now, Money{}, -1);
    for (const Grown& other : granted) {
      if (!is_at_or_below(state, other.owner, party->id)) continue;
      change(without.usage, other.more, Money{}, 1);
      without.usage.jobs -= 1;  // It was there before.
    }
    if (walk.visit(without)) return false;
  }
  return !walk.first_over();  // What is bought on demand does not grow by itself.
}

void hold_quota(State& state, PartyId owner, const Ask& ask, Money hold) {
  change_usage(state, owner, ask, hold, 1);
}

void release_quota(State& state, PartyId owner, const Ask& ask, Money hold) {
  change_usage(state, owner, ask, hold, -1);
}

}  // namespace tranche::engine
