// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry.hpp"

#include <algorithm>

namespace tranche::server {
namespace {

wire::TelemetryPoint closed(const wire::TelemetryPoint& sums, std::int64_t count) {
  wire::TelemetryPoint point = sums;
  point.busy_milli /= count;
  point.power_milliwatts /= count;
  return point;
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
