// SPDX-License-Identifier: Apache-2.0
#include "engine/start_window.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/lease_meter.hpp"

namespace tranche::engine {
namespace {

using std::chrono::seconds;

constexpr std::int64_t kDaySeconds = 86'400;
constexpr Duration kLookAhead = std::chrono::hours(31 * 24);  // For the cheapest start.
constexpr std::size_t kChangesMax = 400;

std::int64_t utc_seconds(Instant at) {
  return std::chrono::floor<seconds>(at).time_since_epoch().count();
}

std::int64_t local_seconds(const StartWindow& window, Instant at) {
  std::int64_t offset = 0;
  for (const wire::ZoneOffset& one : window.offsets) {
    if (one.from > at) break;
    offset = one.seconds;
  }
  return utc_seconds(at) + offset;
}

// The first instant at which clocks show this local time, or one after it where they skip it.
Instant instant_of(const StartWindow& window, std::int64_t local) {
  const auto& offsets = window.offsets;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Instant at{seconds(local - offsets[i].seconds)};
    if (i > 0 && at < offsets[i].from) return offsets[i].from;
    if (i + 1 == offsets.size() || at < offsets[i + 1].from) return at;
  }
  return Instant{seconds(local)};
}

wire::Refusal impossible(std::string rule, std::string message, std::string fix) {
  return {.reason = wire::Reason::kInvalid,
          .rule = std::move(rule),
          .message = std::move(message),
          .fix = std::move(fix)};
}

// Whether the run, begun then, would be cut off by the end of its hours.
bool cut_off(const Ask& ask, Instant start) {
  return ask.window && ask.window->at_end == wire::WindowEnd::kStop &&
         open_span(*ask.window, start).to < start + ask.time;
}

// Between these the cost only rises or only falls with the start: now, the latest, where prices or hours
// change, and where the run would end just then.
std::vector<Instant> possible_starts(const StartPrices& prices, const Ask& ask, Instant now, Instant latest) {
  const Instant until = std::min(latest, now + kLookAhead);
  std::vector<Instant> wished{now, until};
  const auto wish = [&](Instant change) {
    wished.push_back(change);
    wished.push_back(change - ask.time);
  };
  for (const Instant change : prices.changes(now, until + ask.time, kChangesMax)) wish(change);
  for (Instant at = now; ask.window && at <= until; at = open_span(*ask.window, at).to) {
    wish(open_span(*ask.window, at).from);
    wish(open_span(*ask.window, at).to);
  }
  std::vector<Instant> starts;
  for (Instant at : wished) {
    at = std::max(at, now);
    if (ask.window) at = open_span(*ask.window, at).from;
    if (at <= until && !cut_off(ask, at)) starts.push_back(at);
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

Result<std::optional<Instant>, wire::Refusal> cheapest_start(
    const State& state, PartyId owner, const Ask& ask, Admission admission, Instant now) {
  if (!ask.deadline || ask.time == Duration{})
    return refuse(
        impossible("cheapest",
                   "the cheapest start can only be found for a job with a deadline and a time limit",
                   "give --deadline and --time, for example --time 4h"));
  const Instant latest = *ask.deadline - ask.time;
  if (latest < now)
    return refuse(
        impossible("deadline",
                   "a run of " + text(ask.time) + " cannot end by " + text(*ask.deadline),
                   "give a deadline of " + text(now + ask.time) + " or later, or a shorter --time"));
  const StartPrices prices(state, owner, ask, admission);
  const auto starts = possible_starts(prices, ask, now, latest);
  if (starts.empty())
    return refuse(impossible(
        "window",
        "no window " + text(*ask.window) + " has " + text(ask.time) + " before " + text(*ask.deadline),
        "give a later deadline, --window-end finish, or a shorter --time"));
  Instant best = starts.front();
  Money least = prices.most(best);
  for (const Instant start : starts) {
    const Money cost = prices.most(start);
    if (cost >= least) continue;
    best = start;
    least = cost;
  }
  return best > now ? std::optional(best) : std::nullopt;
}

}  // namespace

OpenSpan open_span(const StartWindow& window, Instant at) {
  const std::int64_t local = local_seconds(window, at);
  const std::int64_t today = local / kDaySeconds - (local % kDaySeconds < 0 ? 1 : 0);
  const std::int64_t ends_next_day = window.to_minute <= window.from_minute ? 1 : 0;
  for (std::int64_t day = today - 1;; ++day) {
    const Instant from = instant_of(window, day * kDaySeconds + window.from_minute * 60LL);
    const Instant to = instant_of(window, (day + ends_next_day) * kDaySeconds + window.to_minute * 60LL);
    if (to > at && to > from) return {std::max(from, at), to};
  }
}

bool is_open(const StartWindow& window, Instant at) {
  return open_span(window, at).from <= at;
}

Result<std::optional<Instant>, wire::Refusal> planned_start(
    const State& state, PartyId owner, const Ask& ask, Admission admission, Instant now) {
  if (ask.window && ask.deadline) {
    const Instant opens = open_span(*ask.window, now).from;
    if (opens >= *ask.deadline || opens + ask.time > *ask.deadline)
      return refuse(impossible(
          "window",
          "its window " + text(*ask.window) + " opens at " + text(opens) + ", too late for the deadline " +
              text(*ask.deadline),
          "give a deadline of " + text(opens + ask.time) + " or later, or a window that opens before"));
  }
  if (!ask.cheapest) return std::optional<Instant>{};
  return cheapest_start(state, owner, ask, admission, now);
}

std::optional<std::string> waits_for_its_time(const State& state, const Job& job) {
  if (job.ask.cheapest && job.attempts == 0 && job.not_before > state.now) {
    const std::string waits = "waits for the cheapest start before its deadline, " + text(job.not_before);
    if (job.ask.instances == 0) return waits;  // A group: its chunks are what costs.
    const StartPrices prices(state, job.owner, job.ask, job.admission);
    return waits + ": at most " + text(prices.most(job.not_before)) + ' ' + state.settings.currency +
           " then, " + text(prices.most(state.now)) + " now";
  }
  if (!job.ask.window || is_open(*job.ask.window, state.now)) return std::nullopt;
  return "waits for its window " + text(*job.ask.window) + ", which opens at " +
         text(open_span(*job.ask.window, std::max(state.now, job.not_before)).from);
}

}  // namespace tranche::engine
