// SPDX-License-Identifier: Apache-2.0
#include "sim/whatif_tally.hpp"

#include <algorithm>

#include "sim/json_text.hpp"
#include "wire/fields.hpp"

namespace tranche::sim {
namespace {

WhatIfWaits waits_of(std::vector<std::int64_t> waits) {
  WhatIfWaits out{.jobs = static_cast<std::int64_t>(waits.size())};
  if (waits.empty()) return out;
  std::sort(waits.begin(), waits.end());
  double sum = 0;
  for (const std::int64_t wait : waits) sum += static_cast<double>(wait);
  out.mean_seconds = sum / static_cast<double>(waits.size());
  out.p95_seconds = waits[(waits.size() - 1) * 95 / 100];
  out.max_seconds = waits.back();
  return out;
}

void write_waits(JsonText& json, const WhatIfWaits& waits) {
  json.field("jobs", waits.jobs);
  json.field("mean_wait_seconds", waits.mean_seconds);
  json.field("p95_wait_seconds", waits.p95_seconds);
  json.field("max_wait_seconds", waits.max_seconds);
}

std::int64_t hour_of_day(const WhatIfJob& job) {
  return job.submit / 3600 % 24;
}

void write_group(JsonText& json, std::string_view name, const std::map<std::string, WhatIfWaits>& group) {
  json.key(name);
  json.open('{');
  for (const auto& [key, waits] : group) {
    json.key(key);
    json.open('{');
    write_waits(json, waits);
    json.close('}');
  }
  json.close('}');
}

}  // namespace

WhatIfTally::WhatIfTally(const WhatIfWorld& world, const WhatIfOptions& options)
    : world_(world), options_(options), waits_(world.jobs.size(), -1) {
  if (world.jobs.empty()) return;
  window_from_ = world.jobs.front().submit;
  window_until_ = std::max(world.jobs.back().submit, window_from_ + 1);
}

void WhatIfTally::refused(const std::string& why) {
  if (refused_++ == 0) first_refusal_ = why;
}

void WhatIfTally::started(std::size_t job,
                          const engine::LeaseGranted& lease,
                          std::int64_t milli,
                          std::int64_t now) {
  if (waits_[job] < 0) waits_[job] = now - world_.jobs[job].submit;
  const auto devices = static_cast<std::int64_t>(lease.slices.size());
  leases_[lease.id] = {
      .job = job, .milli = milli, .busy = devices * world_.jobs[job].busy_milli, .from = now, .until = now};
}

std::int64_t WhatIfTally::inside_window(const Held& held) const {
  return std::max<std::int64_t>(std::min(held.until, window_until_) - std::max(held.from, window_from_), 0);
}

void WhatIfTally::held_until(LeaseId lease, std::int64_t now) {
  Held& held = leases_.at(lease);
  held.until = now;
  held_milli_seconds_ += held.milli * inside_window(held);
  busy_milli_seconds_ += held.busy * inside_window(held);
}

void WhatIfTally::worked(LeaseId lease) {
  const Held& held = leases_.at(lease);
  work_milli_seconds_ += held.busy * (held.until - held.from);
}

void WhatIfTally::ended(std::int64_t now) {
  ++ended_;
  last_end_ = std::max(last_end_, now);
  if (options_.progress) options_.progress(ended_);
}

WhatIfReport WhatIfTally::report() const {
  WhatIfReport out{.jobs = static_cast<std::int64_t>(world_.jobs.size()),
                   .refused = refused_,
                   .first_refusal = first_refusal_,
                   .preemptions = preemptions_,
                   .window_seconds = window_until_ - window_from_,
                   .makespan_seconds = std::max<std::int64_t>(last_end_ - window_from_, 0)};
  out.unfinished = out.jobs - out.refused - ended_;
  for (const WhatIfNodes& rack : world_.fleet) out.devices += rack.nodes * rack.devices;
  const double capacity =
      1000.0 * out.devices * static_cast<double>(std::max<std::int64_t>(out.window_seconds, 1));
  out.busy_percent = 100.0 * static_cast<double>(busy_milli_seconds_) / capacity;
  out.held_percent = 100.0 * static_cast<double>(held_milli_seconds_) / capacity;
  out.work_device_hours = static_cast<double>(work_milli_seconds_) / 3.6e6;
  const double fleet_hours = out.devices * static_cast<double>(out.makespan_seconds) / 3600.0;
  if (out.work_device_hours > 0) out.fleet_hours_per_work_hour = fleet_hours / out.work_device_hours;

  const std::set<std::int64_t> peak_hours = busiest_hours();
  std::vector<std::int64_t> all, peak;
  std::map<std::string, std::vector<std::int64_t>> tenants, kinds, peak_kinds;
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    const WhatIfJob& job = world_.jobs[i];
    if (waits_[i] < 0 || !is_counted(job)) continue;
    const std::string kind(wire::name_of(job.ask.kind));
    all.push_back(waits_[i]);
    tenants[job.tenant].push_back(waits_[i]);
    kinds[kind].push_back(waits_[i]);
    if (!peak_hours.contains(hour_of_day(job))) continue;
    peak.push_back(waits_[i]);
    peak_kinds[kind].push_back(waits_[i]);
  }
  out.waits = waits_of(std::move(all));
  out.peak = waits_of(std::move(peak));
  for (auto& [name, waits] : tenants) out.by_tenant[name] = waits_of(std::move(waits));
  for (auto& [name, waits] : kinds) out.by_kind[name] = waits_of(std::move(waits));
  for (auto& [name, waits] : peak_kinds) out.peak_by_kind[name] = waits_of(std::move(waits));
  return out;
}

bool WhatIfTally::is_counted(const WhatIfJob& job) const {
  return job.submit >= window_from_ + options_.warm_up_seconds;
}

std::set<std::int64_t> WhatIfTally::busiest_hours() const {
  constexpr std::size_t kPeakHours = 3;
  std::map<std::int64_t, std::int64_t> work;
  for (const WhatIfJob& job : world_.jobs)
    if (is_counted(job)) work[hour_of_day(job)] += job.ask.gpu_milli() * job.duration;
  std::vector<std::pair<std::int64_t, std::int64_t>> most;
  for (const auto& [hour, amount] : work) most.emplace_back(-amount, hour);
  std::sort(most.begin(), most.end());
  std::set<std::int64_t> hours;
  for (std::size_t i = 0; i < std::min(kPeakHours, most.size()); ++i) hours.insert(most[i].second);
  return hours;
}

std::string what_if_json(const WhatIfReport& report, const WhatIfOptions& options) {
  JsonText json;
  json.open('{');
  json.field("simulated", true);
  json.field("sharing", options.sharing == Sharing::kDedicated ? "dedicated" : "as-asked");
  json.field("prepare_percent", options.prepare_percent);
  json.field("jobs", report.jobs);
  json.field("refused", report.refused);
  json.field("unfinished", report.unfinished);
  json.field("preemptions", report.preemptions);
  json.field("devices", report.devices);
  json.field("window_seconds", report.window_seconds);
  json.field("makespan_seconds", report.makespan_seconds);
  json.field("device_busy_percent", report.busy_percent);
  json.field("device_held_percent", report.held_percent);
  json.field("work_device_hours", report.work_device_hours);
  json.field("fleet_hours_per_work_hour", report.fleet_hours_per_work_hour);
  write_waits(json, report.waits);
  write_group(json, "by_tenant", report.by_tenant);
  write_group(json, "by_kind", report.by_kind);
  json.key("peak");
  json.open('{');
  write_waits(json, report.peak);
  write_group(json, "by_kind", report.peak_by_kind);
  json.close('}');
  json.close('}');
  return json.text();
}

}  // namespace tranche::sim
