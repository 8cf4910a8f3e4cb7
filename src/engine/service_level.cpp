// SPDX-License-Identifier: Apache-2.0
#include "engine/service_level.hpp"

#include <algorithm>
#include <array>

#include "engine/billing.hpp"
#include "engine/decide.hpp"
#include "engine/guarantee.hpp"
#include "engine/lease_meter.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kMissesKept = 20;
constexpr std::size_t kLevelsMax = 10'000;

bool covers(const State& state, const ServiceLevel& level, const Job& job) {
  const auto& kinds = level.terms.kinds;
  const bool kind = kinds.empty() || std::find(kinds.begin(), kinds.end(), job.ask.kind) != kinds.end();
  return kind && is_at_or_below(state, job.owner, level.key.party);
}

bool owes(const ServiceLevel& level, JobId job) {
  return std::find(level.owing.begin(), level.owing.end(), job) != level.owing.end();
}

Money credit_for(const ServiceLevel& level, const Job& job) {
  return {static_cast<std::int64_t>(Int128{job.charged.micros} * level.terms.credit_percent / 100)};
}

void judge_start(const ServiceLevel& level, const Job& job, Events& events) {
  const Duration waited = job.started - job.submitted - job.paused_for;
  events.push_back(LevelJudged{.key = level.key,
                               .owner = job.owner,
                               .job = job.id,
                               .start = true,
                               .late = std::max(Duration{}, waited - level.terms.start_within)});
}

// A job that somebody stopped broke no promise, but what it was owed for its start it gets.
void judge_end(const ServiceLevel& level, const Job& job, Events& events) {
  const bool promised = level.terms.keep_deadlines && job.ask.deadline.has_value();
  Duration late{};
  if (promised && job.state != JobState::kStopped)
    late = std::max(Duration{}, job.ended - *job.ask.deadline - job.paused_for);
  const bool credit = late > Duration{} || owes(level, job.id);
  if (!promised && !credit) return;
  events.push_back(LevelJudged{.key = level.key,
                               .owner = job.owner,
                               .job = job.id,
                               .late = late,
                               .credit = credit ? credit_for(level, job) : Money{}});
}

// What was not there, at the price it would have cost.
Money credit_for(const State& state,
                 const ServiceLevel& level,
                 const Booking& booking,
                 const BookedWindow& window,
                 const Delivery& delivery) {
  const auto length = std::chrono::floor<std::chrono::seconds>(window.to - window.from).count();
  const std::int64_t milli = delivery.promised / std::max<std::int64_t>(length, 1);
  if (booking.kind != ClaimKind::kBooking || milli == 0) return {};  // What was bought has terms of its own.
  const Money hourly =
      job_price(state, booking.owner, booking.ask, Admission::kWithinQuota, window.from).hourly;
  return {static_cast<std::int64_t>(Int128{hourly.micros} * delivery.missed * level.terms.credit_percent /
                                    (Int128{milli} * 3600 * 100))};
}

std::int64_t booked_milli_seconds(const BookedWindow& window) {
  std::int64_t milli = 0;
  for (const BookedPlace& place : window.places)
    for (const Slice& slice : place.slices) milli += slice.milli;
  return milli * std::chrono::floor<std::chrono::seconds>(window.to - window.from).count();
}

std::int64_t may_be_missed(const ServiceLevel& level, std::int64_t promised) {
  return static_cast<std::int64_t>(Int128{promised} * (1000 - level.terms.delivered_permille) / 1000);
}

void give_back(State& state, const Envelope& envelope, const LevelJudged& event) {
  const auto found = state.jobs.find(event.job);
  const bool known = found != state.jobs.end() ||
                     event.delivery.booking != ClaimId{} ||  // A service has a job.
                     event.day != Instant{};
  if (event.credit <= Money{} || !known) return;
  const AccountId account = paying_account(state, payer_of(state, event.owner));
  const std::array legs{
      Leg{AccountId::make(kPlatform, AccountKind::kRevenue, account.currency()), {-event.credit.micros}},
      Leg{account, event.credit}};
  post(state.ledger, legs);
  add_spent(state, event.owner, {-event.credit.micros}, envelope.at);
  cost_line(state, {.party = event.owner, .payer = account.owner(), .job = event.job, .at = envelope.at})
      .credited.micros += event.credit.micros;
  if (found == state.jobs.end()) return;
  found->second.charged.micros -= event.credit.micros;
  found->second.credited.micros += event.credit.micros;
}

// Days and hours are judged when they are over, which may be in the next month.
Instant counts_at(const Envelope& envelope, const LevelJudged& event) {
  if (event.day != Instant{}) return event.day;
  return event.hour != Instant{} ? event.hour : envelope.at;
}

LevelMonth month_counted(const ServiceLevel& level) {
  return {level.month, level.kept, level.missed, level.credited, level.delivery, level.guarantee};
}

// Counts are of a month; a new one begins with the first that is judged in it, or is of it.
void turn_month(ServiceLevel& level, Instant at) {
  if (level.month >= month_of(at)) return;
  level.before = month_counted(level);
  level.month = month_of(at);
  level.kept = level.missed = 0;
  level.credited = {};
  level.delivery = {};
  level.guarantee = {};
}

void keep_miss(ServiceLevel& level, const LevelMiss& miss) {
  level.misses.push_back(miss);
  if (level.misses.size() > kMissesKept) level.misses.erase(level.misses.begin());
}

void count_delivery(ServiceLevel& level, const Envelope& envelope, const LevelJudged& event) {
  level.delivery.promised += event.delivery.promised;
  level.delivery.missed += event.delivery.missed;
  level.credited.micros += event.credit.micros;
  const bool kept = event.delivery.missed <= may_be_missed(level, event.delivery.promised);
  ++(kept ? level.kept : level.missed);
  if (!kept) keep_miss(level, {.at = envelope.at, .delivery = event.delivery});
}

bool is_too_slow(const ServiceLevel& level, std::uint64_t requests, std::uint64_t in_time) {
  return in_time * 1000 < requests * level.terms.target_permille;
}

bool promises_answers(const State& state, const ServiceLevel& level, const Service& service) {
  const auto& kinds = level.terms.kinds;
  const bool kind =
      kinds.empty() || std::find(kinds.begin(), kinds.end(), wire::WorkloadKind::kInference) != kinds.end();
  return level.terms.keep_objectives && kind && is_at_or_below(state, service.owner, level.key.party);
}

// What is judged after its month is over counts for the month it was in, as long as that is known.
template <class Add>
void add_to_month(ServiceLevel& level, Instant at, Add add) {
  if (level.month == month_of(at)) {
    add(level);
  } else if (level.before.month == month_of(at)) {
    add(level.before);
  }
}

// Every request counts; an hour of them below the target is a miss.
void count_answers(ServiceLevel& level, const Envelope& envelope, const LevelJudged& event) {
  const Answering& hour = event.answering;
  add_to_month(level, counts_at(envelope, event), [&](auto& month) {
    month.kept += hour.in_time;
    month.missed += hour.requests - hour.in_time;
    month.credited.micros += event.credit.micros;
  });
  if (is_too_slow(level, hour.requests, hour.in_time))
    keep_miss(level, {.job = event.job, .at = envelope.at, .answering = hour});
}

void count_day(ServiceLevel& level, const Envelope& envelope, const LevelJudged& event) {
  close_day(level, event.day);
  if (event.delivery.promised == 0) return;
  const Int128 most = Int128{event.delivery.promised} * (1000 - level.terms.guarantee_permille) / 1000;
  const bool kept = event.delivery.missed <= most;
  add_to_month(level, counts_at(envelope, event), [&](auto& month) {
    month.guarantee.promised += event.delivery.promised;
    month.guarantee.missed += event.delivery.missed;
    month.credited.micros += event.credit.micros;
    ++(kept ? month.kept : month.missed);
  });
  if (!kept) keep_miss(level, {.at = envelope.at, .delivery = event.delivery, .day = event.day});
}

}  // namespace

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetLevel& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  if (state.party(command.key.party) == nullptr) return refuse(not_found());
  const LevelTerms& terms = command.terms;
  const bool promises = terms.start_within > Duration{} || terms.keep_deadlines || terms.keep_objectives ||
                        terms.delivered_permille > 0 || terms.guarantee_permille > 0;
  const bool sane = !command.key.name.empty() && terms.start_within >= Duration{} && promises &&
                    terms.delivered_permille <= 1000 && terms.guarantee_permille <= 1000 &&
                    terms.target_permille <= 1000 && terms.credit_percent <= 100 &&
                    state.work.levels.size() < kLevelsMax;
  if (terms.guarantee_permille > 0 && command.key.party.kind() != PartyKind::kTenant)
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "service level",
                          .message = "what is guaranteed is promised to a tenant",
                          .fix = "name a tenant: tranche level set firm --party acme --guarantee 99%"});
  if (!sane)
    return refuse(
        Refusal{.reason = Reason::kInvalid,
                .rule = "service level",
                .message = "a service level has a name, promises something, and gives back 100 % at most",
                .fix = "tranche level set gold --party acme --start-within 5m --credit 10"});
  return Events{LevelSet{command.key, terms}};
}

void apply(State& state, const Envelope& envelope, const LevelSet& event) {
  ServiceLevel& level = state.work.levels[event.key];
  level.key = event.key;
  level.terms = event.terms;
  if (level.month == Instant{}) level.month = month_of(envelope.at);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const RemoveLevel& command) {
  if (!state.work.levels.contains(command.key) || !may(state, actor, Action::kViewBilling, command.key.party))
    return refuse(not_found());
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  return Events{LevelRemoved{command.key}};
}

void apply(State& state, const Envelope&, const LevelRemoved& event) {
  state.work.levels.erase(event.key);
}

Events judge_levels(const State& state, JobId id) {
  Events events;
  const Job* job = state.job(id);
  if (job == nullptr || state.work.groups.contains(id)) return events;  // Chunks are judged, each for itself.
  for (const auto& [key, level] : state.work.levels) {
    if (!covers(state, level, *job)) continue;
    if (is_over(job->state)) {
      judge_end(level, *job, events);
    } else if (level.terms.start_within > Duration{} && job->attempts == 1 && job->started != Instant{}) {
      judge_start(level, *job, events);
    }
  }
  return events;
}

Events judge_levels(const State& state, const Booking& booking, const BookedWindow& window, Instant now) {
  Events events;
  if (booking.kind == ClaimKind::kMaintenance) return events;
  for (const auto& [key, level] : state.work.levels) {
    if (level.terms.delivered_permille == 0 || !is_at_or_below(state, booking.owner, key.party)) continue;
    Delivery delivery{.booking = booking.id, .promised = booked_milli_seconds(window)};
    // A window that passed without ever being opened was not there at all.
    delivery.missed = window.state == WindowState::kOpen ? window.missed_until(now) : delivery.promised;
    LevelJudged judged{.key = key, .owner = booking.owner, .delivery = delivery};
    if (delivery.missed > may_be_missed(level, delivery.promised))
      judged.credit = credit_for(state, level, booking, window, delivery);
    events.push_back(std::move(judged));
  }
  return events;
}

Events judge_levels(const State& state, const Service& service) {
  Events events;
  const ServiceHour& hour = service.hour;
  if (hour.judged == 0) return events;
  for (const auto& [key, level] : state.work.levels) {
    if (!promises_answers(state, level, service)) continue;
    LevelJudged judged{.key = key,
                       .owner = service.owner,
                       .job = hour.job,
                       .answering = {service.key.name, hour.judged, hour.in_time},
                       .hour = hour.from};
    if (is_too_slow(level, hour.judged, hour.in_time))
      judged.credit = {
          static_cast<std::int64_t>(Int128{hour.charged.micros} * level.terms.credit_percent / 100)};
    events.push_back(std::move(judged));
  }
  return events;
}

void apply(State& state, const Envelope& envelope, const LevelJudged& event) {
  give_back(state, envelope, event);
  const auto found = state.work.levels.find(event.key);
  if (found == state.work.levels.end()) return;
  ServiceLevel& level = found->second;
  turn_month(level, counts_at(envelope, event));
  if (event.delivery.booking != ClaimId{}) return count_delivery(level, envelope, event);
  if (!event.answering.service.empty()) return count_answers(level, envelope, event);
  if (event.day != Instant{}) return count_day(level, envelope, event);
  const Job* job = state.job(event.job);
  const bool judged =
      event.start || (level.terms.keep_deadlines && job != nullptr && job->ask.deadline.has_value());
  if (judged) ++(event.late > Duration{} ? level.missed : level.kept);
  level.credited.micros += event.credit.micros;
  if (!event.start) std::erase(level.owing, event.job);
  if (event.late == Duration{}) return;
  if (event.start && level.terms.credit_percent > 0) level.owing.push_back(event.job);
  keep_miss(level, {.job = event.job, .at = envelope.at, .late = event.late, .start = event.start});
}

namespace {

// Open windows of which something is missing: how long until too much has been.
void add_short_windows(const State& state, const ServiceLevel& level, std::vector<LevelRisk>& risks) {
  if (level.terms.delivered_permille == 0) return;
  for (const auto& [claim, number] : state.index.calendar->open()) {
    const Booking& booking = state.bookings.at(claim);
    const BookedWindow& window = booking.windows[number];
    if (window.missing_milli == 0 || !is_at_or_below(state, booking.owner, level.key.party)) continue;
    const std::int64_t left =
        may_be_missed(level, booked_milli_seconds(window)) - window.missed_until(state.now);
    risks.push_back({.left = std::chrono::seconds(left / window.missing_milli), .booking = claim});
  }
}

}  // namespace

LevelMonth running_month(const State& state, const ServiceLevel& level) {
  LevelMonth month{.month = month_of(state.now)};
  if (level.month == month.month) month = month_counted(level);
  const Delivery today = guarantee_of_today(state, level);
  month.guarantee.promised += today.promised;
  month.guarantee.missed += today.missed;
  return month;
}

LevelMonth month_before(const State& state, const ServiceLevel& level) {
  if (level.month != month_of(state.now)) return month_counted(level);
  return level.before;
}

std::vector<LevelRisk> levels_at_risk(const State& state, const ServiceLevel& level, std::size_t most) {
  constexpr std::uint64_t kEnoughToTell = 20;
  std::vector<LevelRisk> risks;
  add_short_windows(state, level, risks);
  for (const auto& [key, service] : state.work.services)
    if (promises_answers(state, level, service) && service.hour.judged >= kEnoughToTell &&
        is_too_slow(level, service.hour.judged, service.hour.in_time))
      risks.push_back({.left = service.hour.from + std::chrono::hours(1) - state.now, .service = key.name});
  add_short_guarantees(state, level, risks);
  for (const auto& [owner, jobs] : state.index.jobs_by_owner) {
    if (!is_at_or_below(state, owner, level.key.party)) continue;
    for (const JobId id : jobs) {
      const Job* job = state.job(id);
      if (job == nullptr || is_over(job->state) || !covers(state, level, *job)) continue;
      const Duration waited = state.now - job->submitted;
      if (level.terms.start_within > Duration{} && job->attempts == 0 &&
          waited * 2 > level.terms.start_within)
        risks.push_back({.job = id, .left = level.terms.start_within - waited});
      const bool deadline = level.terms.keep_deadlines && job->ask.deadline.has_value();
      const Instant begins = job->started == Instant{} ? state.now : job->started;
      if (deadline && begins + job->ask.time > *job->ask.deadline)
        risks.push_back({.job = id, .left = *job->ask.deadline - job->ask.time - begins});
    }
  }
  std::sort(risks.begin(), risks.end(), [](const auto& a, const auto& b) { return a.left < b.left; });
  if (risks.size() > most) risks.resize(most);
  return risks;
}

}  // namespace tranche::engine
