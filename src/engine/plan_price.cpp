// SPDX-License-Identifier: Apache-2.0
#include "engine/plan_price.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/lease_meter.hpp"
#include "engine/storage_charge.hpp"

namespace tranche::engine {

wire::JobPrice booking_price(const State& state,
                             PartyId owner,
                             const Ask& ask,
                             const std::vector<TimeSpan>& windows) {
  wire::JobPrice out{.currency = state.settings.currency};
  Money most{};
  Duration length{};
  for (const TimeSpan& window : windows) {
    Ask inside = ask;
    inside.time = window.to - window.from;
    const wire::JobPrice one = job_price(state, owner, inside, Admission::kWithinQuota, window.from);
    most.micros += one.most.value_or(Money{}).micros;
    length += inside.time;
    if (one.hourly >= out.hourly) {
      out.hourly = one.hourly;
      out.rule = one.rule;
      out.units = one.units;
    }
  }
  out.most = most;
  out.most_because = state.prices.empty() ? "there is no price list"
                                          : "jobs run in all " + text(length) + " of it; unused time is free";
  add_tax(state, owner, windows.empty() ? state.now : windows.front().from, out);
  return out;
}

wire::JobPrice service_price(const State& state, PartyId owner, const SetService& service, Instant at) {
  wire::JobPrice out{.currency = state.settings.currency};
  for (const ServiceShape& version : service.versions) {
    const wire::JobPrice one = job_price(state, owner, version.ask, Admission::kWithinQuota, at);
    if (one.hourly < out.hourly || (one.hourly == out.hourly && !out.rule.empty())) continue;
    out.rule = one.rule;
    out.hourly = one.hourly;
    out.set_aside = one.set_aside;
    out.units = one.units;
  }
  out.hourly.micros *= service.replicas_max;
  out.set_aside.micros *= service.replicas_max;
  if (state.prices.empty()) {
    out.most = Money{};
    out.most_because = "there is no price list";
  } else {
    out.most = Money{out.hourly.micros * 24};
    out.most_because = "a day of " + std::to_string(service.replicas_max) +
                       (service.replicas_max == 1 ? " replica" : " replicas") +
                       "; it runs until it is removed";
  }
  add_tax(state, owner, at, out);
  return out;
}

wire::JobPrice volume_price(const State& state, const Volume& volume, Instant at) {
  wire::JobPrice out{.currency = state.settings.currency};
  Volume kept = volume;
  kept.state = VolumeState::kReady;
  out.hourly = storage_hourly(state, kept, at);
  if (out.hourly > Money{}) out.rule = "storage";
  out.most = Money{out.hourly.micros * 24 * 30};
  out.most_because = out.hourly == Money{} ? "there is no price of storage"
                                           : "30 days; it costs until it is removed, used or not";
  add_tax(state, volume.owner, at, out);
  return out;
}

}  // namespace tranche::engine
