// SPDX-License-Identifier: Apache-2.0
#include "sim/whatif_tally.hpp"

#include <algorithm>

#include "sim/html_page.hpp"
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

void write_tenants(JsonText& json, const WhatIfReport& report, const WhatIfOptions& options) {
  json.key("by_tenant");
  json.open('{');
  for (const auto& [name, tenant] : report.by_tenant) {
    json.key(name);
    json.open('{');
    write_waits(json, tenant.waits);
    json.field("mean_slowdown", tenant.mean_slowdown);
    json.field("held_device_hours", tenant.held_device_hours);
    if (options.device_hour > 0) json.field("cost", tenant.held_device_hours * options.device_hour);
    json.close('}');
  }
  json.close('}');
}

void write_layouts(JsonText& json, const WhatIfReport& report) {
  if (report.layouts.empty()) return;
  json.key("layouts");
  json.open('{');
  for (const auto& [layout, devices] : report.layouts) json.field(layout, devices);
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
  add_hours(held);
}

void WhatIfTally::add_hours(const Held& held) {
  constexpr std::int64_t kHour = 3600;
  for (std::int64_t from = held.from; from < held.until;) {
    const std::int64_t hour = std::max<std::int64_t>(from - window_from_, 0) / kHour;
    const std::int64_t end = std::min(held.until, window_from_ + (hour + 1) * kHour);
    const auto at = static_cast<std::size_t>(hour);
    if (held_hours_.size() <= at) {
      held_hours_.resize(at + 1);
      busy_hours_.resize(at + 1);
    }
    held_hours_[at] += static_cast<double>(held.milli * (end - from));
    busy_hours_[at] += static_cast<double>(held.busy * (end - from));
    from = end;
  }
}

void WhatIfTally::cut(const std::map<std::string, std::uint32_t>& layouts) {
  const auto devices = [](const std::map<std::string, std::uint32_t>& all) {
    std::uint32_t sum = 0;
    for (const auto& [layout, count] : all) sum += count;
    return sum;
  };
  if (devices(layouts) > devices(layouts_)) layouts_ = layouts;
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
  add_tenants(out, std::move(tenants));
  for (const auto& [from, to] :
       {std::pair(&held_hours_, &out.held_by_hour), {&busy_hours_, &out.busy_by_hour}})
    for (const double hour : *from) to->push_back(hour / 36'000.0 / std::max(out.devices, 1U));
  out.layouts = layouts_;
  for (auto& [name, waits] : kinds) out.by_kind[name] = waits_of(std::move(waits));
  for (auto& [name, waits] : peak_kinds) out.peak_by_kind[name] = waits_of(std::move(waits));
  return out;
}

void WhatIfTally::add_tenants(WhatIfReport& out,
                              std::map<std::string, std::vector<std::int64_t>> waits) const {
  std::map<std::string, std::pair<double, double>> slowdowns;  // Sum, count.
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    const WhatIfJob& job = world_.jobs[i];
    if (waits_[i] < 0 || !is_counted(job)) continue;
    const auto ran = static_cast<double>(std::max<std::int64_t>(job.duration, 60));
    slowdowns[job.tenant].first += (static_cast<double>(waits_[i]) + ran) / ran;
    slowdowns[job.tenant].second += 1;
  }
  for (auto& [name, list] : waits) out.by_tenant[name].waits = waits_of(std::move(list));
  for (const auto& [id, held] : leases_)
    out.by_tenant[world_.jobs[held.job].tenant].held_device_hours +=
        static_cast<double>(held.milli * (held.until - held.from)) / 3.6e6;
  std::vector<double> means;
  for (const auto& [name, sum] : slowdowns) {
    out.by_tenant[name].mean_slowdown = sum.first / sum.second;
    means.push_back(sum.first / sum.second);
  }
  out.fairness_index = fairness_index(means);
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
  json.field("sharing", sharing_name(options.sharing));
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
  json.field("fairness_index", report.fairness_index);
  if (options.device_hour > 0)
    json.field("cost_per_work_hour", report.fleet_hours_per_work_hour * options.device_hour);
  write_tenants(json, report, options);
  write_group(json, "by_kind", report.by_kind);
  write_layouts(json, report);
  json.key("peak");
  json.open('{');
  write_waits(json, report.peak);
  write_group(json, "by_kind", report.peak_by_kind);
  json.close('}');
  json.close('}');
  return json.text();
}

}  // namespace tranche::sim
