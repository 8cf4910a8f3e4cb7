// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is a type of node worth to others? Prices per resource and type of node that would make the expected
// demand fill what is left without overfilling any type: a job pays more where others have no choice.
#include <cstdint>
#include <vector>

namespace tranche::policy {

struct PricedKind {
  double frequency = 0;
  double cpu = 0;
  double gpu = 0;  // milli
  double memory = 0;
  std::vector<std::uint32_t> types;  // Where it may go.
};

struct PricedType {
  double size = 0;  // Devices in all, at least one a node.
  double cpu = 0;   // What is left.
  double gpu = 0;   // What is left and not going to be stranded.
  double memory = 0;
};

class PriceBook {
 public:
  // Moves the prices towards balance. Starts from the last prices, so a few rounds follow small changes.
  void solve(const std::vector<PricedKind>& kinds, const std::vector<PricedType>& types, int rounds);

  // In milli-GPU; 0 before the first solve.
  [[nodiscard]] double bid(double cpu, double gpu, double memory, std::uint32_t type) const {
    return host_bid(cpu, memory, type) + device_bid(gpu, type);
  }
  // Its two parts: CPU and memory, and compute.
  [[nodiscard]] double host_bid(double cpu, double memory, std::uint32_t type) const {
    if (type >= prices_.size()) return 0;
    return prices_[type].cpu * cpu * cpu_unit_ + prices_[type].memory * memory * memory_unit_;
  }
  [[nodiscard]] double device_bid(double gpu, std::uint32_t type) const {
    return type < prices_.size() ? prices_[type].gpu * gpu : 0;
  }

 private:
  struct Price {
    double cpu = 0;
    double gpu = 0;
    double memory = 0;
  };
  std::vector<Price> prices_;
  double cpu_unit_ = 0;
  double memory_unit_ = 0;
};

}  // namespace tranche::policy
