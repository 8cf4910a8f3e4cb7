// SPDX-License-Identifier: Apache-2.0
// Every code of the health tables through the engine (engine/health_matrix.hpp), and how long a signal takes
// to keep new work away.
#include <chrono>
#include <cstdio>

#include "bench/bench.hpp"
#include "engine/health_matrix.hpp"

namespace tranche::bench {

std::vector<Row> health_table_rows() {
  using namespace engine::health_matrix;
  progress("table: every code, however its device is shared, whatever its job does");
  double all = 0, good = 0, worst = 0;
  for (const std::string& code : forgotten()) {
    ++all;
    std::fprintf(stderr, "nobody said what is expected: %s\n", code.c_str());
  }
  for (const Case& one : cases()) {
    for (const Sharing sharing : kSharings) {
      for (const Phase phase : kPhases) {
        ++all;
        const std::string wrong = Judge(one, sharing, phase).run();
        if (wrong.empty()) {
          ++good;
          continue;
        }
        std::fprintf(stderr,
                     "not as expected: %s, sharing %d, phase %d: %s\n",
                     text(one).c_str(),
                     static_cast<int>(sharing),
                     static_cast<int>(phase),
                     wrong.c_str());
      }
    }
  }
  for (int i = 0; i < 200; ++i) {  // In the engine alone; the journal and the link come on top.
    Bed bed(wire::GpuVendor::kNvidia);
    bed.start(Sharing::kMps);
    const auto from = std::chrono::steady_clock::now();
    if (!bed.signal({.source = "xid", .code = 48}, bed.clock)) return {};
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    worst = std::max(worst, took);
  }
  return {{.what = "signal table x {dedicated, partition, MPS, time-sliced} x {idle, running, draining, "
                   "checkpointing}: action, verdict and bill as expected (of " +
                   std::to_string(static_cast<int>(all)) + ")",
           .value = 100 * good / all,
           .unit = "%",
           .goal = 100},
          {.what = "signal decided, worst of 200 (engine alone)",
           .value = worst * 1e3,
           .unit = "ms",
           .goal = 2000,
           .better = Better::kLower}};
}

}  // namespace tranche::bench
