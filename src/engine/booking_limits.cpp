// SPDX-License-Identifier: Apache-2.0
#include "engine/booking_limits.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "wire/amount_text.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

using wire::amount_text;

Refusal over(std::string rule, std::string where, std::string what, std::string fix) {
  return {.reason = Reason::kQuota,
          .rule = std::move(rule),
          .where = where,
          .message = "reservation limit of " + where + ": " + std::move(what),
          .fix = std::move(fix)};
}

std::int64_t seconds(Duration duration) {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

// The most that is booked at any instant of the span by the party and everyone below.
std::int64_t peak_booked(const State& state, PartyId party, const TimeSpan& span) {
  std::vector<std::pair<Instant, std::int64_t>> changes;
  for (const auto& [id, booking] : state.bookings) {
    if (booking.state != BookingState::kBooked || booking.kind != ClaimKind::kBooking) continue;
    if (!is_at_or_below(state, booking.owner, party)) continue;
    for (const BookedWindow& window : booking.windows) {
      if (window.state == WindowState::kClosed || window.from >= span.to || window.to <= span.from) continue;
      changes.emplace_back(window.from, booking.ask.gpu_milli());
      changes.emplace_back(window.to, -booking.ask.gpu_milli());
    }
  }
  std::sort(changes.begin(), changes.end());  // What ends goes before what begins at the same instant.
  std::int64_t now = 0;
  std::int64_t peak = 0;
  for (const auto& [at, change] : changes) peak = std::max(peak, now += change);
  return peak;
}

std::optional<Refusal> share_problem(const State& state, const Party& party, const BookWindows& command) {
  const Quota& quota = party.quota;
  const std::string where = path_of(state, party.id);
  const std::int64_t asked = command.ask.gpu_milli();
  if (quota.per_job.gpu_milli && asked > *quota.per_job.gpu_milli) {
    Refusal refusal = over("per_job.gpu_milli",
                           where,
                           "a job has at most " + amount_text("gpu_milli", *quota.per_job.gpu_milli),
                           "book a smaller share");
    refusal.limit = *quota.per_job.gpu_milli;
    refusal.asked = asked;
    return refusal;
  }
  if (quota.isolation && std::find(quota.isolation->begin(), quota.isolation->end(), command.ask.isolation) ==
                             quota.isolation->end()) {
    return over("isolation",
                where,
                "isolation class " + std::string(wire::name_of(command.ask.isolation)) + " is not allowed",
                "book another isolation class");
  }
  if (!quota.gpu_milli.limit) return std::nullopt;
  for (const TimeSpan& span : command.windows) {
    const std::int64_t booked = peak_booked(state, party.id, span);
    if (booked + asked <= *quota.gpu_milli.limit) continue;
    Refusal refusal = over("gpu_milli",
                           where,
                           amount_text("gpu_milli", booked) + " of " +
                               amount_text("gpu_milli", *quota.gpu_milli.limit) + " are booked then",
                           "book a smaller share, or another time");
    refusal.limit = *quota.gpu_milli.limit;
    refusal.used = booked;
    refusal.asked = asked;
    return refusal;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> booking_limit_problem(const State& state,
                                             Instant now,
                                             PartyId owner,
                                             const BookWindows& command) {
  for (const Party* party = state.party(owner); party != nullptr; party = state.party(party->parent)) {
    const std::string where = path_of(state, party->id);
    for (const TimeSpan& span : command.windows) {
      const auto& length = party->quota.reservation_length_max;
      if (length && span.to - span.from > *length) {
        Refusal refusal = over("reservation_length_max",
                               where,
                               "a window lasts at most " + text(*length),
                               "give --for " + text(*length) + " or less");
        refusal.limit = seconds(*length);
        refusal.asked = seconds(span.to - span.from);
        return refusal;
      }
      const auto& lead = party->quota.reservation_lead_max;
      if (lead && span.from - now > *lead) {
        Refusal refusal = over("reservation_lead_max",
                               where,
                               "a window begins at most " + text(*lead) + " from now",
                               "book a time that begins before " + text(now + *lead));
        refusal.limit = seconds(*lead);
        refusal.asked = seconds(span.from - now);
        return refusal;
      }
    }
    if (auto refusal = share_problem(state, *party, command)) return refusal;
  }
  return std::nullopt;
}

std::vector<TimeSpan> within_lead(const State& state,
                                  Instant now,
                                  PartyId owner,
                                  std::vector<TimeSpan> windows) {
  for (const Party* party = state.party(owner); party != nullptr; party = state.party(party->parent)) {
    const auto& lead = party->quota.reservation_lead_max;
    while (lead && windows.size() > 1 && windows.back().from - now > *lead) windows.pop_back();
  }
  return windows;
}

const Booking* booking_named(const State& state, const Job& job) {
  const auto label = job.ask.labels.find("booking");
  if (label == job.ask.labels.end()) return nullptr;
  const auto number = parse_id("clm_", label->second);
  const Booking* booking = number ? state.booking({*number}) : nullptr;
  return booking != nullptr && booking->state == BookingState::kBooked ? booking : nullptr;
}

}  // namespace tranche::engine
