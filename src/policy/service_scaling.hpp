// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many replicas a service should have now. Up at once, down slowly: a burst that comes back must not find
// that its replicas were just taken away.
#include <cstdint>

#include "base/time.hpp"

namespace tranche::policy {

struct ScalingBounds {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  std::uint32_t concurrency = 8;               // Requests at once that one replica is good for.
  Duration settle = std::chrono::seconds(30);  // Less is wanted for so long before one goes.
  Duration idle = std::chrono::minutes(5);     // Without a request for so long before the last goes.
};

struct ScalingDemand {
  std::uint64_t in_flight = 0;  // Answered now or waiting.
  Instant last_request{};
};

class ServiceScaling {
 public:
  // `now` never goes backwards.
  std::uint32_t wanted(const ScalingBounds& bounds, const ScalingDemand& demand, Instant now);

 private:
  std::uint32_t wanted_ = 0;
  std::uint32_t peak_ = 0;  // Most that was needed since `since_`.
  Instant since_{};
};

}  // namespace tranche::policy
