// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_price.hpp"

#include <algorithm>

namespace tranche::policy {
namespace {

constexpr double kPriceMax = 3;
constexpr double kTemperature = 0.05;

// exp(-x) for x >= 0, to about 1e-4: (1 - x/n)^n in products alone, the same on every build.
double decay(double x) {
  if (x > 30) return 0;
  double base = 1 / (1 + x / 256 * (1 + x / 512));
  for (int i = 0; i < 8; ++i) base *= base;
  return base;
}

double step(double load, double capacity) {
  if (capacity <= 0) return load > 0 ? 1 : 0;
  return std::clamp(load / capacity - 1, -1.0, 1.0);
}

}  // namespace

void PriceBook::solve(const std::vector<PricedKind>& kinds,
                      const std::vector<PricedType>& types,
                      int rounds) {
  prices_.resize(types.size());
  double gpu_sum = 0;
  double cpu_sum = 0;
  double memory_sum = 0;
  for (const PricedKind& kind : kinds) {
    if (kind.gpu <= 0) continue;
    gpu_sum += kind.frequency * kind.gpu;
    cpu_sum += kind.frequency * kind.cpu;
    memory_sum += kind.frequency * kind.memory;
  }
  if (gpu_sum <= 0) return;
  cpu_unit_ = cpu_sum > 0 ? gpu_sum / cpu_sum : 0;
  memory_unit_ = memory_sum > 0 ? gpu_sum / memory_sum : 0;
  double usable = 0;
  for (const PricedType& type : types) usable += std::max(0.0, type.gpu);
  const double jobs = usable / gpu_sum;  // The mix, scaled to fill what is left exactly.

  std::vector<Price> load(types.size());
  std::vector<Price> mean(types.size());
  std::vector<double> share(types.size());
  for (int round = 0; round < rounds; ++round) {
    std::fill(load.begin(), load.end(), Price{});
    for (const PricedKind& kind : kinds) {
      const double reference = kind.gpu > 0 ? kind.gpu : kind.cpu * cpu_unit_;
      if (reference <= 0) continue;
      double best = reference;
      for (const std::uint32_t type : kind.types)
        best = std::min(best, share[type] = bid(kind.cpu, kind.gpu, kind.memory, type));
      double sum =
          decay((reference - best) / (kTemperature * reference));  // Going nowhere costs the reference.
      for (const std::uint32_t type : kind.types)
        sum += share[type] = types[type].size * decay((share[type] - best) / (kTemperature * reference));
      const double amount = jobs * kind.frequency / sum;
      for (const std::uint32_t type : kind.types) {
        const double part = amount * share[type];
        load[type].cpu += part * kind.cpu;
        load[type].gpu += part * kind.gpu;
        load[type].memory += part * kind.memory;
      }
    }
    const double rate = 0.3 / (1 + 0.03 * round) + 0.01;
    for (std::size_t y = 0; y < types.size(); ++y) {
      Price& price = prices_[y];
      price.cpu = std::clamp(price.cpu + rate * step(load[y].cpu, types[y].cpu), 0.0, kPriceMax);
      price.gpu = std::clamp(price.gpu + rate * step(load[y].gpu, types[y].gpu), 0.0, kPriceMax);
      price.memory = std::clamp(price.memory + rate * step(load[y].memory, types[y].memory), 0.0, kPriceMax);
      if (round * 2 < rounds) continue;
      mean[y].cpu += price.cpu;
      mean[y].gpu += price.gpu;
      mean[y].memory += price.memory;
    }
  }
  const double averaged = rounds - (rounds + 1) / 2;
  for (std::size_t y = 0; y < types.size(); ++y)
    prices_[y] = {mean[y].cpu / averaged, mean[y].gpu / averaged, mean[y].memory / averaged};
}

}  // namespace tranche::policy
