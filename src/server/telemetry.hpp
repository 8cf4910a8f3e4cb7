// SPDX-License-Identifier: Apache-2.0
#pragma once
// What nodes measured, kept in memory for some hours: nothing else has to be installed to see it. It is lost
// with the process; what must last is in meters and the journal.
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/agent_message.hpp"
#include "wire/api_telemetry.hpp"

namespace tranche::server {

struct TelemetryOptions {
  Duration step = std::chrono::seconds(15);
  Duration kept = std::chrono::hours(4);
};

// A slice as the guard last counted it, with the share of time that it was busy since the count before.
struct SliceNow {
  wire::SliceSample sample{};
  std::optional<std::int64_t> busy_milli{};
  Instant at{};
};

class Telemetry {
 public:
  explicit Telemetry(TelemetryOptions options = {}) : options_(options) {}

  void take(NodeId node, const wire::Heartbeat& heartbeat, Instant now);
  void forget(NodeId node);
  // What is not measured by devices: which nodes are there, and who waits. Once in each step.
  struct Queue {
    std::uint64_t pending = 0;
    Duration longest_wait{};
  };
  struct Moment {
    Instant at{};
    std::map<NodeId, bool> connected{};
    std::map<std::pair<PartyId, bool>, Queue> queues{};  // By tenant, and whether for simulated capacity.
  };
  [[nodiscard]] bool due(Instant now) const;
  void note(Moment moment);
  [[nodiscard]] std::vector<Moment> moments(Instant since) const;
  // Points of a device of a node, oldest first, from `since` on.
  [[nodiscard]] std::vector<wire::TelemetryPoint> points(NodeId node,
                                                         const std::string& uuid,
                                                         Instant since) const;
  [[nodiscard]] std::map<std::pair<LeaseId, DeviceId>, SliceNow> slices() const;
  [[nodiscard]] const TelemetryOptions& options() const { return options_; }

 private:
  struct Series {
    std::deque<wire::TelemetryPoint> points{};
    wire::TelemetryPoint open{};  // Of the step that is not over; sums.
    std::int64_t count = 0;
    std::uint64_t ecc_corrected = 0, ecc_uncorrected = 0;  // As the driver counted them last.
    bool counted = false;
  };
  void add(Series& series, const wire::DeviceSample& sample, Instant now) const;

  TelemetryOptions options_;
  mutable std::mutex mutex_;
  std::map<std::pair<NodeId, std::string>, Series> series_;
  std::deque<Moment> moments_;
  std::map<NodeId, std::map<std::pair<LeaseId, DeviceId>, SliceNow>> slices_;
};

}  // namespace tranche::server
