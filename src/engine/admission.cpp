// SPDX-License-Identifier: Apache-2.0
#include "engine/admission.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "engine/admission_refusals.hpp"
#include "engine/lease_meter.hpp"
#include "engine/place_rules.hpp"
#include "engine/spend.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

// One walk up the tree. Hard limits refuse at once; limits on what is held at once may be passed on demand.
class Walk {
 public:
  Walk(const State& state, const Ask& ask, Instant at, Duration time, bool is_chunk = false)
      : state_(state), ask_(ask), at_(at), time_(time), is_chunk_(is_chunk) {
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
    if (auto r = one_job(party, "per_job.gpu_milli", limits.gpu_milli, ask_.gpu_milli())) return r;
    if (auto r = one_job(party, "per_job.vram_bytes", limits.vram_bytes, ask_.vram_bytes())) return r;
    const std::int64_t percent = (std::int64_t{ask_.milli_each} + 9) / 10;
    if (auto r = one_job(party, "per_job.compute_percent", limits.compute_percent, percent)) return r;
    if (auto r = one_job(party, "per_job.time", limits.time, ask_.time)) return r;
    if (auto r = one_job(party, "wall_time_max", quota.wall_time_max, ask_.time)) return r;
    if (auto r = spend_of_one(party)) return r;
    if (auto r = one_job(party, "priority_max", quota.priority_max, std::int64_t{ask_.priority})) return r;
    if (quota.isolation && ask_.instances > 0 && !allows(*quota.isolation, ask_.isolation)) {
      return Refusal{.reason = Reason::kPolicy,
                     .rule = "isolation",
                     .where = where(party),
                     .message = where(party) + " does not allow isolation class " +
                                std::string(wire::name_of(ask_.isolation)),
                     .fix = "ask for another isolation class"};
    }
    return std::nullopt;
  }

  // Zero forbids. No quota of now is that, but those of before may be: a job that names no limit passes it,
  // too, where anything costs something.
  std::optional<Refusal> spend_of_one(const Party& party) const {
    if (is_chunk_) return std::nullopt;
    const auto& limit = party.quota.per_job.spend;
    const bool priced = !state_.prices.empty() || state_.settings.on_demand_gpu_hour > Money{};
    if (limit == Money{} && ask_.spend == Money{} && ask_.instances > 0 && priced) {
      return Refusal{
          .reason = Reason::kQuota,
          .rule = "per_job.spend",
          .where = where(party),
          .message = where(party) + " does not let a job spend anything",
          .fix = "ask its administrator for: tranche quota set " + where(party) + " --job-spend 5"};
    }
    return one_job(party, "per_job.spend", limit, ask_.spend);
  }

  // Numbers of refusals: seconds, micro-units, or what the limit counts.
  static std::int64_t number(std::int64_t amount) { return amount; }
  static std::int64_t number(Duration length) { return whole_seconds(length); }
  static std::int64_t number(Money amount) { return amount.micros; }

  template <class Amount>
  std::optional<Refusal> one_job(const Party& party,
                                 std::string_view rule,
                                 const std::optional<Amount>& limit,
                                 const Amount& asked) const {
    if (!limit || asked <= *limit) return std::nullopt;
    return over_job_limit(rule, where(party), number(*limit), number(asked));
  }

  std::optional<Refusal> rules(const Party& party) const {
    for (const Rule& rule : party.rules.rules) {
      if (rule.when.at || !fits(rule.when, party.rules, ask_, at_)) continue;  // Of a place: see below.
      if (auto refusal = rule_refusal(state_, party, rule, ask_, time_)) return refusal;
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
  bool is_chunk_;
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

// The same for what it may cost. Of zero, which forbids, nothing came this far that costs something.
Money spend_in_force(const State& state, PartyId owner, const Ask& ask) {
  if (ask.spend != Money{}) return ask.spend;
  Money spend{};
  for (const Party* at = state.party(owner); at != nullptr; at = state.party(at->parent)) {
    const auto& limit = at->quota.per_job.spend;
    if (limit && *limit > Money{} && (spend == Money{} || *limit < spend)) spend = *limit;
  }
  return spend;
}

// Work over quota must be covered by a spend limit at every node that has one, and by one at least.
Result<Money, Refusal> on_demand_hold(
    const State& state, PartyId owner, const Ask& ask, const Refusal& over, Instant now) {
  constexpr std::int64_t kMilliHourSeconds = 1000LL * 3600;
  const Int128 milli_seconds = static_cast<Int128>(ask.gpu_milli()) * whole_seconds(ask.time);
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

// `again`: it was admitted before, and holds little of what it held.
Result<Admitted, Refusal> admit_as(const State& state,
                                   PartyId owner,
                                   const Ask& ask,
                                   Instant at,
                                   bool is_chunk,
                                   const Job* again = nullptr) {
  const Duration time = time_in_force(state, owner, ask);
  Walk walk(state, ask, at, time, is_chunk);
  for (const Party* party = state.party(owner); party != nullptr; party = state.party(party->parent)) {
    if (again == nullptr) {
      if (auto refusal = walk.visit(*party)) return refuse(*refusal);
      continue;
    }
    Party without = *party;
    change(without.usage, kept_while_paused(ask), Money{}, -1);
    if (auto refusal = walk.visit(without)) return refuse(*refusal);
  }
  const Money spend = spend_in_force(state, owner, ask);
  std::optional<Ask> bound;  // Only where the tree adds to what was asked: a copy costs as much as the walk.
  if (time != ask.time || spend != ask.spend) {
    bound = ask;
    bound->time = time;
    bound->spend = spend;
  }
  const Ask& timed = bound ? *bound : ask;
  if (auto refusal = place_problem(state, owner, timed, at)) return refuse(*refusal);
  Admitted admitted{.admission = Admission::kWithinQuota, .hold = {}, .time = time, .spend = spend};
  if (walk.first_over()) {
    const auto hold = on_demand_hold(state, owner, timed, *walk.first_over(), at);
    if (!hold) return refuse(hold.error());
    admitted.admission = Admission::kOnDemand;
    admitted.hold = *hold;
  }
  // Nothing is let in that nobody could pay for; the money itself is set aside when it starts.
  const JobId job = again == nullptr ? JobId{} : again->id;
  if (auto refusal = funding_problem(state, owner, job, timed, admitted.admission, admitted.hold, at))
    return refuse(*refusal);
  return admitted;
}

}  // namespace

Result<Admitted, Refusal> admit(const State& state, PartyId owner, const Ask& ask, Instant at) {
  return admit_as(state, owner, ask, at, false);
}

Result<Admitted, Refusal> admit_chunk(const State& state, const JobGroup& group, Instant at) {
  return admit_as(state, group.owner, group.ask, at, true);
}

Result<Admitted, Refusal> readmit(const State& state, const Job& job, Instant at) {
  return admit_as(state, job.owner, job.ask, at, false, &job);
}

Ask kept_while_paused(const Ask& ask) {
  Ask kept = ask;
  kept.instances = 0;
  return kept;
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
