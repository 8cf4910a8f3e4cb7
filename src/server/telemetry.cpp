// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry.hpp"

#include <algorithm>
#include <utility>

namespace tranche::server {
namespace {

wire::TelemetryPoint closed(const wire::TelemetryPoint& sums, std::int64_t count) {
  wire::TelemetryPoint point = sums;
  point.busy_milli /= count;
  point.power_milliwatts /= count;
  if (point.sm_active_milli) *point.sm_active_milli /= count;
  if (point.dram_active_milli) *point.dram_active_milli /= count;
  if (point.tensor_active_milli) *point.tensor_active_milli /= count;
  return point;
}

void add_to(std::optional<std::int64_t>& sum, const std::optional<std::uint16_t>& value) {
  if (value) sum = sum.value_or(0) + *value;
}

// What a counter of the driver grew by; one that is smaller than before began anew.
std::int64_t growth(std::uint64_t& last, std::uint64_t now) {
  const std::uint64_t before = std::exchange(last, now);
  return static_cast<std::int64_t>(now >= before ? now - before : now);
}

// The end of the step that an instant is in.
Instant step_end(Instant at, Duration step) {
  const auto since = at.time_since_epoch();
  return Instant(since - since % step + step);
}

}  // namespace

void Telemetry::add(Series& series, const wire::DeviceSample& sample, Instant now) const {
  const Instant end = step_end(now, options_.step);
  if (series.count > 0 && series.open.at != end) {
    series.points.push_back(closed(series.open, series.count));
    series.open = {};
    series.count = 0;
  }
  series.open.at = end;
  series.open.busy_milli += sample.busy_milli;
  series.open.power_milliwatts += sample.power_milliwatts;
  series.open.vram_used = std::max(series.open.vram_used, sample.vram_used);
  series.open.temperature_celsius =
      std::max<std::int64_t>(series.open.temperature_celsius, sample.temperature_celsius);
  add_to(series.open.sm_active_milli, sample.sm_active_milli);
  add_to(series.open.dram_active_milli, sample.dram_active_milli);
  add_to(series.open.tensor_active_milli, sample.tensor_active_milli);
  const bool first = !std::exchange(series.counted, true);  // What was before we looked is nobody's news.
  const std::int64_t uncorrected = growth(series.ecc_uncorrected, sample.ecc_uncorrected);
  if (!first) series.open.ecc_uncorrected += uncorrected;
  if (sample.ecc_corrected) {
    const std::int64_t corrected = growth(series.ecc_corrected, *sample.ecc_corrected);
    series.open.ecc_corrected = series.open.ecc_corrected.value_or(0) + (first ? 0 : corrected);
  }
  ++series.count;
  while (!series.points.empty() && series.points.front().at <= now - options_.kept) series.points.pop_front();
}

void Telemetry::take(NodeId node, const wire::Heartbeat& heartbeat, Instant now) {
  const std::lock_guard lock(mutex_);
  for (const wire::DeviceSample& sample : heartbeat.devices) add(series_[{node, sample.uuid}], sample, now);
  std::map<std::pair<LeaseId, DeviceId>, SliceNow> slices;
  const auto& before = slices_[node];
  for (const wire::SliceSample& sample : heartbeat.slices) {
    SliceNow& slice = slices[{sample.lease, sample.device}];
    slice.sample = sample;
    slice.at = now;
    const auto last = before.find({sample.lease, sample.device});
    if (last == before.end() || last->second.at >= now) continue;
    const std::int64_t wall = (now - last->second.at).count() * 1000;
    const auto busy = static_cast<std::int64_t>(
        sample.device_nanoseconds -
        std::min(sample.device_nanoseconds, last->second.sample.device_nanoseconds));
    slice.busy_milli = std::min<std::int64_t>(1000, busy * 1000 / wall);
  }
  slices_[node] = std::move(slices);
}

bool Telemetry::due(Instant now) const {
  const std::lock_guard lock(mutex_);
  return moments_.empty() || step_end(now, options_.step) != moments_.back().at;
}

void Telemetry::note(Moment moment) {
  const std::lock_guard lock(mutex_);
  const Instant now = moment.at;
  moment.at = step_end(now, options_.step);
  if (!moments_.empty() && moments_.back().at == moment.at) return;
  moments_.push_back(std::move(moment));
  while (moments_.front().at <= now - options_.kept) moments_.pop_front();
}

std::vector<Telemetry::Moment> Telemetry::moments(Instant since) const {
  const std::lock_guard lock(mutex_);
  std::vector<Moment> out;
  for (const Moment& moment : moments_)
    if (moment.at > since) out.push_back(moment);
  return out;
}

void Telemetry::forget(NodeId node) {
  const std::lock_guard lock(mutex_);
  slices_.erase(node);
}

std::vector<wire::TelemetryPoint> Telemetry::points(NodeId node,
                                                    const std::string& uuid,
                                                    Instant since) const {
  const std::lock_guard lock(mutex_);
  std::vector<wire::TelemetryPoint> out;
  const auto found = series_.find({node, uuid});
  if (found == series_.end()) return out;
  const Series& series = found->second;
  for (const wire::TelemetryPoint& point : series.points)
    if (point.at > since) out.push_back(point);
  if (series.count > 0 && series.open.at > since) out.push_back(closed(series.open, series.count));
  return out;
}

std::map<std::pair<LeaseId, DeviceId>, SliceNow> Telemetry::slices() const {
  const std::lock_guard lock(mutex_);
  std::map<std::pair<LeaseId, DeviceId>, SliceNow> all;
  for (const auto& [node, slices] : slices_) all.insert(slices.begin(), slices.end());
  return all;
}

}  // namespace tranche::server
