// SPDX-License-Identifier: Apache-2.0
// Health on a real OpenCL device (PoCL): how fast memory is wiped and read back against a plain copy in the
// same run, and whether planted faults are found.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

#include "bench/bench.hpp"
#include "gpu/child_program.hpp"
#include "gpu/device_tests.hpp"
#include "gpu/scrub.hpp"

namespace tranche::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kBytes = std::int64_t{512} << 20;
constexpr int kRounds = 7;

struct Rates {
  double scrubbed = 0;
  double copied = 0;
};

// In turns, so that whatever else the machine does falls on both; the best of each.
Rates measure(gpu::DeviceSession& session) {
  const auto memory = gpu::take_free_memory(session, kBytes);
  Rates best;
  if (memory.size() < 2) return best;
  for (int round = 0; round < kRounds; ++round) {
    const gpu::ScrubOutcome wiped = gpu::zero_and_verify(session, memory);
    if (wiped.nonzero_bytes != 0) return {};
    best.scrubbed = std::max(best.scrubbed, static_cast<double>(gpu::bytes_per_second(wiped)));
    const auto from = Clock::now();
    session.copy(memory[0], memory[1], memory[1].bytes());
    session.finish();
    const double seconds = std::chrono::duration<double>(Clock::now() - from).count();
    best.copied = std::max(best.copied, static_cast<double>(memory[1].bytes()) / seconds);
  }
  return best;
}

std::filesystem::path faulty_layer() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "opencl" / "libfaulty-opencl.so";
}

bool is_found(const std::string& fault) {
  progress("device: standard test, planted fault: " + fault);
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const gpu::ProgramEnd end = gpu::run_program(
      {.command =
           {(folder / "tranche").string(), "device", "test", "--level", "standard", "--memory", "64MiB"},
       .environment = {{"OPENCL_LAYERS", faulty_layer().string()}, {"TRANCHE_FAULT", fault}},
       .limit = std::chrono::minutes(5)});
  return end.started && !end.timed_out && end.exit_code == 1;
}

std::vector<Row> run_on_device() {
  const auto devices = gpu::opencl_devices();
  if (devices.empty()) {
    std::fputs("no OpenCL device: nothing measured\n", stderr);
    return {};
  }
  progress("device: wiping against copying");
  gpu::DeviceSession session(devices.front());
  const Rates rates = measure(session);
  std::vector<Row> rows{
      {.what = "bytes zeroed and read back / bytes copied, on " + devices.front().facts.name,
       .value = rates.copied == 0 ? 0 : rates.scrubbed / rates.copied,
       .unit = "ratio",
       .goal = 0.4},
      {.what = "bytes zeroed and read back", .value = rates.scrubbed / 1e9, .unit = "GB/s"},
      {.what = "bytes copied within the device", .value = rates.copied / 1e9, .unit = "GB/s"}};
  if (!std::filesystem::exists(faulty_layer())) {
    std::fputs("the layer that plants faults is not built: build all targets\n", stderr);
    return rows;
  }
  double found = 0, healthy = is_found("none") ? 0 : 1;
  for (const char* fault : {"stuck", "flip", "wrong", "slow"}) found += is_found(fault) ? 1 : 0;
  rows.insert(
      rows.end(),
      {{.what = "planted faults found by the standard test (of 4)",
        .value = found,
        .unit = "faults",
        .goal = 4},
       {.what = "healthy device passes the same test", .value = healthy, .unit = "passes", .goal = 1}});
  return rows;
}

std::vector<Row> run() {
  std::vector<Row> rows;
  const auto part = [&](const char* name, auto measure) {
    if (!wanted(name)) return;
    for (Row& row : measure()) rows.push_back(std::move(row));
  };
  part("table", health_table_rows);
  part("device", run_on_device);
  part("handover", handover_rows);
  part("path", health_path_rows);
  part("month", fleet_month_rows);
  return rows;
}

}  // namespace

Suite health_suite() {
  return {
      .name = "health",
      .about =
          "the signal table, hand-overs and a simulated month through the engine; from a fault to everybody "
          "who must know; tests and wiping on a real OpenCL device",
      .run = run};
}

}  // namespace tranche::bench
