// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many replicas a service should have now. Up at once, down slowly: a burst that comes back must not find
// that its replicas were just taken away.
#include <cstdint>
#include <optional>

#include "base/time.hpp"

namespace tranche::policy {

struct ScalingBounds {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  std::uint32_t concurrency = 8;                 // Requests at once that one replica is good for.
  Duration settle = std::chrono::seconds(30);    // Less is wanted for so long before one goes.
  Duration idle = std::chrono::minutes(5);       // Without a request for so long before the last goes.
  std::optional<Duration> delay{};               // More only when requests wait for longer than this.
  Duration patience = std::chrono::seconds(10);  // For one that was added to show in what is measured.
};

struct ScalingDemand {
  std::uint64_t in_flight = 0;  // Answered now or waiting.
  Instant last_request{};
  std::uint32_t ready = 0;  // Replicas.
  Duration waited{};        // For a replica, the longest lately.
  bool is_late = false;     // The latency objective is missed.
};

class ServiceScaling {
 public:
  // `now` never goes backwards.
  std::uint32_t wanted(const ScalingBounds& bounds, const ScalingDemand& demand, Instant now);

 private:
  [[nodiscard]] std::uint32_t one_more(const ScalingBounds& bounds, const ScalingDemand& demand, Instant now);

  std::uint32_t wanted_ = 0;
  std::uint32_t peak_ = 0;  // Most that was needed since `since_`.
  Instant since_{};
  Instant added_{};  // One more, because of a measurement.
};

}  // namespace tranche::policy
