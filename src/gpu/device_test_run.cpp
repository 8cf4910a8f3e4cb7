// SPDX-License-Identifier: Apache-2.0
// What each level consists of.
#include <algorithm>
#include <array>
#include <chrono>

#include "gpu/device_identity.hpp"
#include "gpu/device_test_floors.hpp"
#include "gpu/device_tests.hpp"
#include "wire/codec_impl.hpp"

namespace tranche::gpu {
namespace {

struct Plan {
  MemoryTestPlan memory{};
  ComputeTestPlan compute{};
  BandwidthTestPlan bandwidth{};
  unsigned launches = 100;
};

Plan plan_of(const DeviceTestOptions& options, bool is_cpu) {
  Plan plan;
  switch (options.level) {
    case TestLevel::kQuick:  // Before a lease to another tenant: seconds.
      plan.memory = {.budget = std::int64_t{256} << 20, .rounds = 1};
      plan.compute = {.rounds = 512, .launches = 2};
      plan.bandwidth = {.bytes = std::size_t{16} << 20, .repeats = 2};
      break;
    case TestLevel::kStandard:  // After a failure: all memory once.
      plan.memory = {.budget = 0, .rounds = 1};
      plan.compute = {.rounds = 2048, .launches = 16};
      break;
    case TestLevel::kFull:  // At acceptance, and after repair.
      plan.memory = {.budget = 0, .rounds = 4};
      plan.compute = {.rounds = 8192, .launches = 128};
      plan.bandwidth = {.bytes = std::size_t{256} << 20, .repeats = 8};
      plan.launches = 1000;
      break;
  }
  std::int64_t budget = options.memory_budget;
  if (is_cpu && options.cpu_memory_budget > 0 && options.level != TestLevel::kQuick)
    budget = budget > 0 ? std::min(budget, options.cpu_memory_budget) : options.cpu_memory_budget;
  if (budget > 0) {
    plan.memory.budget = budget;
    const auto most = std::max<std::size_t>(static_cast<std::size_t>(budget) / 2, 4096);
    plan.bandwidth.bytes = std::min(plan.bandwidth.bytes, most / 64 * 64);
  }
  return plan;
}

// Where each part begins and ends in the whole, in hundredths. Memory is most of it on any device; vendors'
// tools say nothing while they run.
struct Extent {
  std::string_view part{};
  unsigned from = 0, to = 0;
};
constexpr std::array kExtents{Extent{"memory.walking_ones", 0, 25},
                              Extent{"memory.address", 25, 50},
                              Extent{"memory.random", 50, 75},
                              Extent{"compute.burn", 75, 93},
                              Extent{"bandwidth", 93, 98},
                              Extent{"latency", 98, 100}};

class Progress {
 public:
  Progress(TestListener listener, unsigned own_share) : listener_(std::move(listener)), share_(own_share) {}

  void at(const std::string& part, unsigned done = 0, unsigned steps = 1) const {
    if (!listener_) return;
    for (const Extent& one : kExtents)
      if (one.part == part)
        listener_((one.from + (one.to - one.from) * done / std::max(steps, 1U)) * share_ / 100, part);
  }
  void tools() const {
    if (listener_) listener_(share_, "tools of the vendor");
  }
  [[nodiscard]] StepListener steps() const {
    if (!listener_) return {};
    return [this](const std::string& part, unsigned done, unsigned of) { at(part, done, of); };
  }

 private:
  TestListener listener_;
  unsigned share_;
};

// Runs a part and adds its rows; a part that cannot run is one row that says why.
template <class Part>
void add_rows(std::vector<TestOutcome>& rows, const char* name, Part&& part) {
  try {
    for (TestOutcome& row : part()) rows.push_back(std::move(row));
  } catch (const CannotRun& problem) {
    rows.push_back({.name = name, .verdict = Verdict::kUnknown, .detail = problem.what()});
  }
}

void run_own_tests(DeviceSession& session,
                   Plan plan,
                   const Progress& progress,
                   std::vector<TestOutcome>& rows) {
  using Rows = std::vector<TestOutcome>;
  plan.memory.told = plan.compute.told = progress.steps();
  add_rows(rows, "memory", [&] { return test_memory(session, plan.memory); });
  add_rows(rows, "compute", [&] { return Rows{test_compute(session, plan.compute)}; });
  progress.at("bandwidth");
  add_rows(rows, "bandwidth", [&] { return test_bandwidth(session, plan.bandwidth); });
  progress.at("latency");
  add_rows(rows, "latency", [&] { return Rows{test_latency(session, plan.launches)}; });
}

}  // namespace

AcceptanceReceipt test_between_leases(DeviceSession& session, std::int64_t slice_bytes) {
  constexpr std::int64_t kMemoryMost = std::int64_t{16} << 20;
  const auto from = std::chrono::steady_clock::now();
  AcceptanceReceipt receipt{
      .level = TestLevel::kQuick, .at = wall_time(), .table_version = std::string(kFloorsVersion)};
  Plan plan{
      .memory = {.budget = std::clamp<std::int64_t>(slice_bytes / 2, 1 << 20, kMemoryMost), .rounds = 1},
      .compute = {.rounds = 128, .launches = 1},
      .bandwidth = {.bytes = std::size_t{4} << 20, .repeats = 2},
      .launches = 20};
  run_own_tests(session, plan, Progress({}, 100), receipt.tests);
  // So short a look tells right from wrong, and not fast from slow: neighbours, and the launch itself, weigh
  // too much.
  for (TestOutcome& row : receipt.tests)
    if (row.detail == kSlower) row.verdict = Verdict::kInfo;
  receipt.took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - from);
  receipt.verdict = verdict_of(receipt.tests);
  return receipt;
}

DeviceReport test_device(const OpenClDevice& device, const DeviceTestOptions& options) {
  DeviceReport report{.uuid = device.facts.uuid,
                      .model = device.facts.model,
                      .name = device.facts.name,
                      .simulated = device.facts.simulated};
  AcceptanceReceipt& receipt = report.receipt;
  receipt.level = options.level;
  receipt.at = wall_time();
  receipt.table_version = kFloorsVersion;
  const auto from = std::chrono::steady_clock::now();
  const bool tools = options.vendor_tools && device.facts.vendor == wire::GpuVendor::kNvidia;
  const Progress progress(options.told, tools ? 50 : 100);
  try {
    DeviceSession session(device);
    run_own_tests(session, plan_of(options, device.is_cpu), progress, receipt.tests);
  } catch (const CannotRun& problem) {
    receipt.tests.push_back({.name = "device", .verdict = Verdict::kUnknown, .detail = problem.what()});
  }
  if (tools) {
    progress.tools();
    for (TestOutcome& row : run_vendor_tools(device.facts.uuid, options.together, options.level))
      receipt.tests.push_back(std::move(row));
  }
  receipt.took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - from);
  receipt.verdict = verdict_of(receipt.tests);
  return report;
}

}  // namespace tranche::gpu

TRANCHE_WIRE_JSON(tranche::gpu::DeviceReport);
TRANCHE_WIRE_JSON(tranche::gpu::DeviceReports);
TRANCHE_WIRE_JSON(tranche::gpu::DeviceFactsList);
