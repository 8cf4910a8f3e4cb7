// SPDX-License-Identifier: Apache-2.0
#include "gateway/latency_window.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <vector>

namespace tranche::gateway {
namespace {

using namespace std::chrono_literals;

TEST_CASE("latency window: percentiles are those of the sorted values, to an eighth") {
  LatencyWindow window;
  const LatencyWindow::Clock::time_point now{1h};
  std::mt19937_64 random(20261116);  // NOLINT: the same every time.
  std::vector<std::int64_t> all;
  for (int i = 0; i < 5000; ++i) {
    const auto micros = static_cast<std::int64_t>(random() % (std::uint64_t{1} << (random() % 24 + 1)));
    all.push_back(micros);
    window.add(std::chrono::microseconds(micros), micros <= 1000, now);
  }
  std::sort(all.begin(), all.end());
  const auto sum = window.sum(now);
  CHECK(sum.requests == all.size());
  CHECK(sum.in_time ==
        static_cast<std::uint64_t>(std::upper_bound(all.begin(), all.end(), 1000) - all.begin()));
  const auto is_close = [](Duration measured, std::int64_t exact) {
    return measured.count() >= exact && measured.count() <= exact + exact / 8 + 1;
  };
  CHECK(is_close(sum.p50, all[all.size() / 2 - 1]));
  CHECK(is_close(sum.p99, all[all.size() * 99 / 100 - 1]));
}

TEST_CASE("latency window: what is older than a minute is forgotten") {
  LatencyWindow window;
  const LatencyWindow::Clock::time_point now{1h};
  window.add(1s, false, now);
  window.add(1ms, true, now + 45s);
  CHECK(window.sum(now + 45s).requests == 2);
  CHECK(window.sum(now + 45s).p99 >= 1s);
  CHECK(window.sum(now + 61s).requests == 1);
  CHECK(window.sum(now + 61s).p99 < 2ms);
  CHECK(window.sum(now + 2h).requests == 0);
  CHECK(window.sum(now + 2h).p99 == Duration{});
}

}  // namespace
}  // namespace tranche::gateway
