// SPDX-License-Identifier: Apache-2.0
#include "sim/advise.hpp"

#include <algorithm>
#include <cstdio>

#include "sim/json_text.hpp"
#include "wire/fields.hpp"

namespace tranche::sim {
namespace {

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string outcome(const WhatIfReport& report) {
  return "run ahead on " + std::to_string(report.devices) + " devices: " + rounded(report.busy_percent) +
         " % busy, P95 wait " + std::to_string(report.waits.p95_seconds) + " s, " +
         std::to_string(report.unfinished) + " jobs unfinished";
}

// Device-hours of a whole day that differ between two fleets.
double a_day(std::uint32_t before, std::uint32_t after) {
  return 24.0 * (static_cast<double>(before) - static_cast<double>(after));
}

// The same racks with so many nodes in all, taken from the largest rack first.
std::vector<WhatIfNodes> shrunk(std::vector<WhatIfNodes> fleet, std::uint32_t nodes) {
  const auto total = [&] {
    std::uint32_t sum = 0;
    for (const WhatIfNodes& rack : fleet) sum += rack.nodes;
    return sum;
  };
  while (total() > nodes)
    --std::max_element(fleet.begin(), fleet.end(), [](const auto& a, const auto& b) {
        return a.nodes < b.nodes;
      })->nodes;
  return fleet;
}

bool serves_as_well(const WhatIfReport& candidate, const WhatIfReport& now, std::int64_t slack) {
  return candidate.unfinished <= now.unfinished && candidate.refused <= now.refused &&
         candidate.waits.p95_seconds <= now.waits.p95_seconds + slack;
}

void advise_fleet(const WhatIfWorld& world, std::int64_t slack, AdviceReport& out) {
  std::uint32_t nodes = 0;
  for (const WhatIfNodes& rack : world.fleet) nodes += rack.nodes;
  WhatIfReport best = out.now;
  std::uint32_t enough = nodes, too_few = 0;
  while (enough - too_few > 1) {
    WhatIfWorld smaller{
        .fleet = shrunk(world.fleet, (enough + too_few) / 2), .jobs = world.jobs, .quotas = world.quotas};
    const WhatIfReport report = what_if(smaller, {});
    if (serves_as_well(report, out.now, slack)) {
      enough = (enough + too_few) / 2;
      best = report;
    } else {
      too_few = (enough + too_few) / 2;
    }
  }
  if (enough == nodes) return;
  out.advice.push_back({.what = std::to_string(enough) + " of the " + std::to_string(nodes) +
                                " nodes would have served the same work; lend, list or return the others",
                        .evidence = outcome(best),
                        .saves_device_hours_a_day = a_day(out.now.devices, best.devices)});
}

void advise_sharing(const WhatIfWorld& world, AdviceReport& out) {
  const WhatIfReport alone = what_if(world, {.sharing = Sharing::kDedicated});
  if (alone.fleet_hours_per_work_hour <= out.now.fleet_hours_per_work_hour) return;
  const double saved =
      100.0 * (1.0 - out.now.fleet_hours_per_work_hour / std::max(alone.fleet_hours_per_work_hour, 1e-9));
  out.advice.push_back({.what = "keep sharing: whole devices for everybody would cost " +
                                rounded(100.0 * (alone.fleet_hours_per_work_hour /
                                                     std::max(out.now.fleet_hours_per_work_hour, 1e-9) -
                                                 1.0)) +
                                " % more for the same work (sharing saves " + rounded(saved) + " %)",
                        .evidence = outcome(alone)});
}

// Tenants whose meters saw less than half of what they hold.
void advise_sizes(const WhatIfWorld& world, AdviceReport& out) {
  struct Sum {
    double held = 0, busy = 0;
  };
  std::map<std::string, Sum> tenants;
  for (const WhatIfJob& job : world.jobs) {
    const double seconds = static_cast<double>(job.duration) * job.ask.instances;
    tenants[job.tenant].held += seconds * job.ask.milli_each;
    tenants[job.tenant].busy += seconds * std::min(job.busy_milli, job.ask.milli_each);
  }
  const double days = std::max(static_cast<double>(out.now.window_seconds) / 86400.0, 1.0 / 24.0);
  for (const auto& [tenant, sum] : tenants) {
    if (sum.held <= 0 || sum.busy / sum.held >= 0.5) continue;
    out.advice.push_back({.what = tenant + " keeps " + rounded(100.0 * sum.busy / sum.held) +
                                  " % of what it holds at work; smaller slices would do",
                          .evidence = "meters of its jobs against what they asked for",
                          .saves_device_hours_a_day = (sum.held / 2 - sum.busy) / 3.6e6 / days});
  }
}

}  // namespace

AdviceReport advise(const WhatIfWorld& world, std::int64_t slack_seconds) {
  AdviceReport out{.now = what_if(world, {})};
  advise_fleet(world, slack_seconds, out);
  advise_sizes(world, out);
  advise_sharing(world, out);
  return out;
}

std::string advice_json(const AdviceReport& report) {
  JsonText json;
  json.open('{');
  json.field("simulated", true);
  json.field("devices", report.now.devices);
  json.field("device_busy_percent", report.now.busy_percent);
  json.field("device_held_percent", report.now.held_percent);
  json.field("p95_wait_seconds", report.now.waits.p95_seconds);
  json.key("advice");
  json.open('[');
  for (const Advice& advice : report.advice) {
    json.open('{');
    json.field("what", advice.what);
    json.field("evidence", advice.evidence);
    json.field("saves_device_hours_a_day", advice.saves_device_hours_a_day);
    json.close('}');
  }
  json.close(']');
  json.close('}');
  return json.text();
}

}  // namespace tranche::sim
