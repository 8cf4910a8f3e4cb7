// SPDX-License-Identifier: Apache-2.0
#pragma once
// When will a waiting job start? A forked child has a frozen copy of the engine for free and runs it ahead
// many times, while the server serves on. What was said is written down, compared with what came true, and
// shown.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/forecast.hpp"
#include "server/loop.hpp"
#include "wire/why.hpp"

namespace tranche::server {

struct ForecastLimits {
  std::int32_t runs = 16;
  std::uint32_t steps_max = 2'000;               // Of each run.
  Duration patience = std::chrono::seconds(60);  // Then the child is ended, and nothing is said.
};

struct Forecast {
  std::optional<wire::WhyStarts> starts{};
  std::vector<wire::WhySooner> sooner{};
};

class Forecaster {
 public:
  Forecaster(Loop& loop, ForecastLimits limits = {}) : loop_(loop), limits_(limits) {}

  // Takes as long as the runs take: not on the loop's thread, nor on one of the network's.
  [[nodiscard]] Forecast forecast(JobId job);

 private:
  struct Child;
  struct Runs;
  [[nodiscard]] std::optional<Child> start_child(const engine::State& state, JobId job) const;
  [[nodiscard]] Runs collect(Child& child) const;
  [[nodiscard]] wire::WhyStarts answer(JobId job, const Child& child, std::vector<policy::Seconds> waits);

  Loop& loop_;
  ForecastLimits limits_;
};

}  // namespace tranche::server
