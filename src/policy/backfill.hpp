// SPDX-License-Identifier: Apache-2.0
#pragma once
// EASY backfill: the first job that does not fit is promised a start, and others may pass it only when they
// do not delay that start. Counts devices; which nodes they are on is the placement's question.
#include <cstdint>
#include <vector>

#include "policy/lending_nodes.hpp"

namespace tranche::policy {

struct Release {
  Seconds at = 0;  // When this many devices are expected back.
  std::int32_t gpus = 0;
  auto operator<=>(const Release&) const = default;
};

struct Reservation {
  Seconds starts = 0;      // When the blocked job is expected to have enough devices.
  std::int32_t spare = 0;  // Devices then left over: work of any length may use them.
};

// `releases` is scratch: its order afterwards is unspecified.
Reservation reserve(std::int32_t need, std::int32_t idle, std::vector<Release>& releases, Seconds now);

// Whether a job may pass the reserved one; what it uses beyond the reserved start is taken off the spare.
class BackfillGate {
 public:
  BackfillGate(Reservation reservation, Seconds now) : reservation_(reservation), now_(now) {}
  [[nodiscard]] bool admits(std::int32_t gpus, Seconds predicted) const {
    return ends_in_time(predicted) || gpus <= reservation_.spare;
  }
  void use(std::int32_t gpus, Seconds predicted) {
    if (!ends_in_time(predicted)) reservation_.spare -= gpus;
  }
  [[nodiscard]] const Reservation& reservation() const { return reservation_; }

 private:
  [[nodiscard]] bool ends_in_time(Seconds predicted) const { return now_ + predicted <= reservation_.starts; }
  Reservation reservation_;
  Seconds now_ = 0;
};

// A prediction that has been outlived is doubled until it lies in the future again.
Seconds expected_end(Seconds started, Seconds predicted, Seconds now);

}  // namespace tranche::policy
