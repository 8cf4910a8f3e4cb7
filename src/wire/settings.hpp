// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the operator sets for the whole platform: SKUs, the on-demand rate, how long things are remembered.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "base/money.hpp"
#include "base/time.hpp"

namespace tranche::wire {

struct Sku {  // A named shape: Small, Medium, Large.
  std::string name{};
  std::int64_t gpu_milli = 0;
  std::int64_t vram_bytes = 0;
  bool operator==(const Sku&) const = default;
};
BOOST_DESCRIBE_STRUCT(Sku, (), (name, gpu_milli, vram_bytes))

struct Settings {
  Money on_demand_gpu_hour{};  // Zero: no work over quota.
  std::string currency = "USD";
  // A request by memory alone (10GB) counts as its part of this device in quotas by GPU.
  std::int64_t reference_vram_bytes = 80'000'000'000;
  Duration remember_requests = std::chrono::hours(24);  // Idempotency keys.
  Duration keep_ended_jobs = std::chrono::hours(24 * 30);
  Duration hold_ahead = std::chrono::hours(1);  // How much of a running lease's future is set aside.
  // Of the demand foreseen, so much is kept free of work that goes after it and would not be gone; zero:
  // nothing is.
  std::uint32_t prepare_percent = 0;
  // What was stopped for others before is left alone this long, and what is elastic grows no sooner.
  Duration minimum_run = std::chrono::minutes(10);
  // For fair share a unit counts as so much time of a device, whatever it took: {frames: 30s, tokens: 1ms}.
  std::map<std::string, Duration> fair_units{};
  bool operator==(const Settings&) const = default;
};
BOOST_DESCRIBE_STRUCT(Settings,
                      (),
                      (on_demand_gpu_hour,
                       currency,
                       reference_vram_bytes,
                       remember_requests,
                       keep_ended_jobs,
                       hold_ahead,
                       prepare_percent,
                       minimum_run,
                       fair_units))

}  // namespace tranche::wire
