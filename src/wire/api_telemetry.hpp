// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says of how things run: now, in the last hours, and how a job behaved.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/receipt.hpp"
#include "wire/states.hpp"

namespace tranche::wire {

struct TelemetryPoint {  // Means over the step that ends at `at`; memory and temperature are the highest.
  Instant at{};
  std::int64_t busy_milli = 0;
  Bytes vram_used{};
  std::int64_t power_milliwatts = 0;
  std::int64_t temperature_celsius = 0;
  // Absent where the device does not measure it. Errors are those of the step.
  std::optional<std::int64_t> sm_active_milli{};
  std::optional<std::int64_t> dram_active_milli{};
  std::optional<std::int64_t> ecc_corrected{};
  std::int64_t ecc_uncorrected = 0;
  std::optional<std::int64_t> tensor_active_milli{};
};
BOOST_DESCRIBE_STRUCT(TelemetryPoint,
                      (),
                      (at,
                       busy_milli,
                       vram_used,
                       power_milliwatts,
                       temperature_celsius,
                       sm_active_milli,
                       dram_active_milli,
                       ecc_corrected,
                       ecc_uncorrected,
                       tensor_active_milli))

struct DeviceSeries {
  DeviceId device{};
  std::string node{};
  std::string model{};
  bool simulated = false;
  std::vector<TelemetryPoint> points{};
};
BOOST_DESCRIBE_STRUCT(DeviceSeries, (), (device, node, model, simulated, points))

struct AvailabilityPoint {
  Instant at{};
  bool connected = false;
};
BOOST_DESCRIBE_STRUCT(AvailabilityPoint, (), (at, connected))
struct NodeSeries {
  std::string node{};
  bool simulated = false;
  std::int64_t available_milli = 0;  // Of the points shown.
  std::vector<AvailabilityPoint> points{};
};
BOOST_DESCRIBE_STRUCT(NodeSeries, (), (node, simulated, available_milli, points))

struct QueuePoint {
  Instant at{};
  std::uint64_t pending = 0;
  Duration longest_wait{};
};
BOOST_DESCRIBE_STRUCT(QueuePoint, (), (at, pending, longest_wait))
struct QueueSeries {  // A tenant that waits for both has two: what is simulated is never summed with the
                      // rest.
  std::string tenant{};
  bool simulated = false;
  std::vector<QueuePoint> points{};
};
BOOST_DESCRIBE_STRUCT(QueueSeries, (), (tenant, simulated, points))

struct TelemetryList {
  Duration step{};  // Between points.
  Duration kept{};  // How far back the server remembers, without anything else installed.
  std::vector<DeviceSeries> items{};
  std::vector<NodeSeries> nodes{};
  std::vector<QueueSeries> queues{};
};
BOOST_DESCRIBE_STRUCT(TelemetryList, (), (step, kept, items, nodes, queues))

struct TopSlice {
  JobId job{};  // Empty: of somebody whose work you may not see.
  std::string name{};
  std::string owner{};
  LeaseState state = LeaseState::kGranted;
  std::int64_t milli = 0;
  Bytes vram{};
  std::optional<Bytes> vram_used{};  // As the guard counts; absent where it does not.
  std::optional<std::int64_t> busy_milli{};
};
BOOST_DESCRIBE_STRUCT(TopSlice, (), (job, name, owner, state, milli, vram, vram_used, busy_milli))

struct TopDevice {
  DeviceId id{};
  std::string node{};
  bool connected = false;
  bool simulated = false;
  std::string model{};
  DeviceState state = DeviceState::kNew;
  Bytes vram{};
  std::int64_t milli_used = 0;  // Promised to leases.
  std::optional<std::int64_t> busy_milli{};
  std::optional<Bytes> vram_used{};
  std::optional<std::int64_t> power_milliwatts{};
  std::optional<std::int64_t> temperature_celsius{};
  std::vector<TopSlice> slices{};
};
BOOST_DESCRIBE_STRUCT(TopDevice,
                      (),
                      (id,
                       node,
                       connected,
                       simulated,
                       model,
                       state,
                       vram,
                       milli_used,
                       busy_milli,
                       vram_used,
                       power_milliwatts,
                       temperature_celsius,
                       slices))

struct TopQueue {  // One for each tenant that you may see, and one more for what it does on simulated
                   // capacity.
  std::string tenant{};
  bool simulated = false;
  std::uint64_t pending = 0;
  std::uint64_t running = 0;
  std::int64_t gpu_milli = 0;  // Held by what runs.
  Duration longest_wait{};
};
BOOST_DESCRIBE_STRUCT(TopQueue, (), (tenant, simulated, pending, running, gpu_milli, longest_wait))

struct TopView {
  Instant at{};
  std::vector<TopDevice> devices{};
  std::vector<TopQueue> queues{};
};
BOOST_DESCRIBE_STRUCT(TopView, (), (at, devices, queues))

struct LeaseBehaviour {
  std::uint32_t attempt = 1;
  std::uint32_t rank = 0;
  std::string node{};
  bool simulated = false;
  EndReason reason = EndReason::kNone;
  std::int64_t device_milli_granted = 0;
  std::int64_t device_nanoseconds = 0;  // As metered, beside what was granted.
  std::int64_t vram_byte_seconds = 0;
  std::int64_t energy_millijoules = 0;
  std::int64_t copied_bytes = 0;
  std::int64_t network_bytes = 0;
  BehaviourRecord record{};
};
BOOST_DESCRIBE_STRUCT(LeaseBehaviour,
                      (),
                      (attempt,
                       rank,
                       node,
                       simulated,
                       reason,
                       device_milli_granted,
                       device_nanoseconds,
                       vram_byte_seconds,
                       energy_millijoules,
                       copied_bytes,
                       network_bytes,
                       record))

struct BehaviourList {
  JobId job{};
  std::vector<LeaseBehaviour> items{};  // Of the last attempt, by rank; empty while it runs.
};
BOOST_DESCRIBE_STRUCT(BehaviourList, (), (job, items))

struct LogMatch {
  JobId job{};
  std::uint32_t attempt = 1;
  std::uint32_t rank = 0;
  std::string stream{};
  std::uint64_t offset = 0;  // Of the line in its stream.
  std::string line{};
};
BOOST_DESCRIBE_STRUCT(LogMatch, (), (job, attempt, rank, stream, offset, line))

struct LogMatches {
  std::vector<LogMatch> items{};
  bool more = false;  // The search stopped at its limit.
};
BOOST_DESCRIBE_STRUCT(LogMatches, (), (items, more))

}  // namespace tranche::wire
