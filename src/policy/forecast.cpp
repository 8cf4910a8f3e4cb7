// SPDX-License-Identifier: Apache-2.0
#include "policy/forecast.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace tranche::policy {
namespace {

constexpr std::size_t kBelieved = 30;  // Outcomes before they may change an answer.
constexpr double kScaleMin = 0.25, kScaleMax = 16;

}  // namespace

StartForecast forecast_from_runs(std::vector<Seconds> waits) {
  if (waits.empty()) return {};
  std::sort(waits.begin(), waits.end());
  const std::size_t last = waits.size() - 1;
  return {waits[last / 2], waits[(last * 9 + 9) / 10]};
}

double draw_quantile(
    std::uint64_t seed, std::int32_t run, std::int32_t runs, std::int32_t kind, std::int32_t job) {
  const bool shared = run % 2 == 0;
  const auto whose = static_cast<std::uint64_t>(shared ? kind : job);
  Random random(seed ^ (whose * 0x9E3779B97F4A7C15ULL) ^ (static_cast<std::uint64_t>(run) << 48U));
  random.next();
  const double own = static_cast<double>(random.below(1000)) / 1000;
  if (!shared || runs < 2) return own;
  // Shared draws are spread evenly over the runs, so that few runs already see good and bad luck.
  const double strata = static_cast<double>((runs + 1) / 2);
  const auto turn = static_cast<std::uint64_t>(run / 2) + whose * 7;
  const double stratum = static_cast<double>(turn % static_cast<std::uint64_t>((runs + 1) / 2));
  return (stratum + own) / strata;
}

double lateness_ratio(Seconds p90, Seconds really) {
  return static_cast<double>(really + kForecastSlack) / static_cast<double>(p90 + kForecastSlack);
}

void ForecastRecord::resolve(StartForecast said, Seconds really) {
  ratios_.push_back(lateness_ratio(said.p90, really));
  if (ratios_.size() > limit_) ratios_.pop_front();
}

double ForecastRecord::scale(const std::vector<double>& overdue) const {
  if (ratios_.size() < kBelieved) return 1.5;  // Unknown yet: rather late than wrong.
  std::vector<double> all(ratios_.begin(), ratios_.end());
  for (const double ratio : overdue) {
    if (ratio > 1) all.push_back(ratio);
  }
  const auto index = static_cast<std::ptrdiff_t>(static_cast<double>(all.size() - 1) * 0.9);
  std::nth_element(all.begin(), all.begin() + index, all.end());
  return std::clamp(all[static_cast<std::size_t>(index)], kScaleMin, kScaleMax);
}

StartForecast scaled(StartForecast forecast, double factor) {
  const double stretched = static_cast<double>(forecast.p90 + kForecastSlack) * factor;
  forecast.p90 = std::max(forecast.p50, static_cast<Seconds>(stretched) - kForecastSlack);
  return forecast;
}

}  // namespace tranche::policy
