// SPDX-License-Identifier: Apache-2.0
#include "sim/advise.hpp"

#include <algorithm>
#include <cstdio>

#include "sim/json_text.hpp"
#include "wire/fields.hpp"
#include "wire/partition_geometry.hpp"

namespace tranche::sim {
namespace {

constexpr double kIdleBelow = 30.0;  // Percent at work, below which a device counts as under-used.
constexpr std::size_t kDevicesNamed = 6;

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

std::uint32_t nodes_of(const std::vector<WhatIfNodes>& fleet) {
  std::uint32_t sum = 0;
  for (const WhatIfNodes& rack : fleet) sum += rack.nodes;
  return sum;
}

// The same racks with so many nodes in all, taken from the largest rack first.
std::vector<WhatIfNodes> shrunk(std::vector<WhatIfNodes> fleet, std::uint32_t nodes) {
  while (nodes_of(fleet) > nodes)
    --std::max_element(fleet.begin(), fleet.end(), [](const auto& a, const auto& b) {
        return a.nodes < b.nodes;
      })->nodes;
  return fleet;
}

bool serves_as_well(const WhatIfReport& candidate, const WhatIfReport& now, std::int64_t slack) {
  return candidate.unfinished <= now.unfinished && candidate.refused <= now.refused &&
         candidate.waits.p95_seconds <= now.waits.p95_seconds + slack;
}

struct Smallest {
  std::uint32_t nodes = 0;
  WhatIfReport report{};
};

// The fewest nodes that serve the work as well as the fleet serves it now; all of them when fewer do not.
Smallest smallest_fleet(const WhatIfWorld& world,
                        const WhatIfOptions& options,
                        const WhatIfReport& now,
                        std::int64_t slack) {
  Smallest best{.nodes = nodes_of(world.fleet), .report = what_if(world, options)};
  if (!serves_as_well(best.report, now, slack)) return {};
  std::uint32_t too_few = 0;
  while (best.nodes - too_few > 1) {
    const std::uint32_t half = (best.nodes + too_few) / 2;
    const WhatIfWorld smaller{.fleet = shrunk(world.fleet, half), .jobs = world.jobs, .quotas = world.quotas};
    WhatIfReport report = what_if(smaller, options);
    if (serves_as_well(report, now, slack)) {
      best = {.nodes = half, .report = std::move(report)};
    } else {
      too_few = half;
    }
  }
  return best;
}

Smallest advise_fleet(const WhatIfWorld& world, std::int64_t slack, AdviceReport& out) {
  const std::uint32_t nodes = nodes_of(world.fleet);
  const Smallest best = smallest_fleet(world, {}, out.now, slack);
  if (best.nodes == 0 || best.nodes == nodes) return best;
  out.advice.push_back({.what = std::to_string(best.nodes) + " of the " + std::to_string(nodes) +
                                " nodes would have served the same work; lend, list or return the others",
                        .evidence = outcome(best.report),
                        .saves_device_hours_a_day = a_day(out.now.devices, best.report.devices)});
  return best;
}

// Devices that the meters saw idle, with the run that shows how many of them are not needed.
void advise_devices(const WhatIfWorld& world, const Smallest& best, AdviceReport& out) {
  std::vector<const WhatIfDevice*> idle;
  for (const WhatIfDevice& device : world.devices)
    if (device.busy_percent < kIdleBelow) idle.push_back(&device);
  if (idle.empty()) return;
  std::stable_sort(idle.begin(), idle.end(), [](const auto* a, const auto* b) {
    return a->busy_percent < b->busy_percent;
  });
  Advice advice{.what = std::to_string(idle.size()) + " of " + std::to_string(world.devices.size()) +
                        " devices were at work less than " + rounded(kIdleBelow) + " % of the time: "};
  for (std::size_t i = 0; i < std::min(idle.size(), kDevicesNamed); ++i)
    advice.what += (i == 0 ? "" : ", ") + idle[i]->name + " on " + idle[i]->node + " (" + idle[i]->model +
                   ", " + rounded(idle[i]->busy_percent) + " % busy, " + rounded(idle[i]->held_percent) +
                   " % held)";
  if (idle.size() > kDevicesNamed) advice.what += ", ...";
  advice.evidence = outcome(best.nodes == 0 ? out.now : best.report);
  for (const WhatIfDevice* device : idle) advice.devices.push_back(device->name);
  out.advice.push_back(std::move(advice));
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

// How devices would be cut for the demand that was seen, where they can be, and whether that serves it.
void advise_partitions(const WhatIfWorld& world, std::int64_t slack, AdviceReport& out) {
  const bool can_be_cut = std::any_of(world.fleet.begin(), world.fleet.end(), [](const WhatIfNodes& rack) {
    return wire::find_geometry(rack.model) != nullptr;
  });
  const bool any_share = std::any_of(world.jobs.begin(), world.jobs.end(), [](const WhatIfJob& job) {
    return job.ask.instances > 0 && job.ask.milli_each < 1000;
  });
  if (!can_be_cut || !any_share) return;
  const Smallest best = smallest_fleet(world, {.sharing = Sharing::kPartitions}, out.now, slack);
  if (best.nodes == 0) {
    const WhatIfReport cut = what_if(world, {.sharing = Sharing::kPartitions});
    out.advice.push_back({.what = "hardware partitions would not serve this work as well as shares do",
                          .evidence = outcome(cut)});
    return;
  }
  Advice advice{.what = "hardware partitions would serve this work, isolated by hardware; at the peak: "};
  for (const auto& [layout, devices] : best.report.layouts) {
    if (&layout != &best.report.layouts.begin()->first) advice.what += "; ";
    advice.what += std::to_string(devices) + (devices == 1 ? " device" : " devices") + " as " + layout;
  }
  advice.evidence = outcome(best.report);
  advice.layouts = best.report.layouts;
  advice.saves_device_hours_a_day = std::max(0.0, a_day(out.now.devices, best.report.devices));
  out.advice.push_back(std::move(advice));
}

// The same work in slices of what the meters saw, and a quarter more.
WhatIfWorld right_sized(const WhatIfWorld& world) {
  WhatIfWorld sized = world;
  for (WhatIfJob& job : sized.jobs) {
    if (job.ask.instances == 0 || !job.ask.profile.empty() || job.busy_milli == 0) continue;
    const std::uint32_t milli = std::min<std::uint32_t>((job.busy_milli * 5 / 4 + 49) / 50 * 50, 1000);
    if (milli >= job.ask.milli_each) continue;
    job.ask.milli_each = milli;
    job.ask.isolation = wire::Isolation::kSoft;
    if (job.vram_used > 0) job.ask.vram_each = std::min(job.ask.vram_each, job.vram_used * 3 / 2);
  }
  return sized;
}

// Tenants whose meters saw less than half of what they hold, and what slices of the right size would save.
void advise_sizes(const WhatIfWorld& world, std::int64_t slack, AdviceReport& out) {
  struct Sum {
    double held = 0, busy = 0;
  };
  std::map<std::string, Sum> tenants;
  for (const WhatIfJob& job : world.jobs) {
    const double seconds = static_cast<double>(job.duration) * job.ask.instances;
    tenants[job.tenant].held += seconds * job.ask.milli_each;
    tenants[job.tenant].busy += seconds * std::min(job.busy_milli, job.ask.milli_each);
  }
  std::erase_if(tenants, [](const auto& one) {
    return one.second.held <= 0 || one.second.busy / one.second.held >= 0.5;
  });
  if (tenants.empty()) return;
  const Smallest best = smallest_fleet(right_sized(world), {}, out.now, slack);
  const double days = std::max(static_cast<double>(out.now.window_seconds) / 86400.0, 1.0 / 24.0);
  for (const auto& [tenant, sum] : tenants)
    out.advice.push_back(
        {.what = tenant + " keeps " + rounded(100.0 * sum.busy / sum.held) +
                 " % of what it holds at work; smaller slices would do",
         .evidence = best.nodes == 0 ? "meters of its jobs against what they asked for"
                                     : "with slices a quarter above what meters saw, " + outcome(best.report),
         .saves_device_hours_a_day = (sum.held / 2 - sum.busy) / 3.6e6 / days});
}

}  // namespace

AdviceReport advise(const WhatIfWorld& world, std::int64_t slack_seconds) {
  AdviceReport out{.now = what_if(world, {})};
  const Smallest best = advise_fleet(world, slack_seconds, out);
  advise_devices(world, best, out);
  advise_sizes(world, slack_seconds, out);
  advise_sharing(world, out);
  advise_partitions(world, slack_seconds, out);
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
    if (!advice.devices.empty()) {
      json.key("under_used_devices");
      json.open('[');
      for (const std::string& device : advice.devices) json.value(device);
      json.close(']');
    }
    if (!advice.layouts.empty()) {
      json.key("layouts");
      json.open('{');
      for (const auto& [layout, devices] : advice.layouts) json.field(layout, devices);
      json.close('}');
    }
    json.close('}');
  }
  json.close(']');
  json.close('}');
  return json.text();
}

}  // namespace tranche::sim
