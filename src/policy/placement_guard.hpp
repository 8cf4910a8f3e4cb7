// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much idle compute is out of reach of jobs that need several devices of one node? The guard that keeps
// whole nodes together; weighted by the compute such jobs ask for.
#include <array>
#include <vector>

#include "policy/placement_waste.hpp"

namespace tranche::policy {

class MultiDeviceGuard {
 public:
  MultiDeviceGuard() = default;
  // `possible` are the forms this type may take; `total` is the compute all multi-device kinds ask for,
  // including those that may not come here.
  MultiDeviceGuard(const std::vector<WeightedForm>& possible, double total);

  [[nodiscard]] double of(const LeanNode& node) const;

 private:
  struct Step {
    std::int32_t cpu = 0;
    double weight = 0;  // Of this CPU need and all smaller ones.
  };
  std::array<std::vector<Step>, kDevicesMax + 1> by_devices_;
  int least_ = kDevicesMax + 1;
  int most_ = 0;
};

}  // namespace tranche::policy
