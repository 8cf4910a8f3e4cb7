// SPDX-License-Identifier: Apache-2.0
// On whatever OpenCL device the machine has, with a budget of memory; and the parts that need no device.
#include "gpu/device_tests.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "gpu/device_test_floors.hpp"
#include "gpu/scrub.hpp"

using namespace tranche;
using namespace tranche::gpu;

namespace {

constexpr std::int64_t kBudget = std::int64_t{8} << 20;

std::optional<OpenClDevice> any_device() {
  const auto devices = opencl_devices();
  if (devices.empty()) MESSAGE("no OpenCL device on this machine: skipped");
  return devices.empty() ? std::nullopt : std::optional(devices.front());
}

DeviceReport report_with(const char* model, std::int64_t speed) {
  DeviceReport report{.model = model};
  report.receipt.tests = {
      {.name = "bandwidth.within_device", .verdict = Verdict::kPass, .measured = speed, .unit = "MB/s"},
      {.name = "memory.random", .verdict = Verdict::kPass, .measured = speed, .unit = "MiB"}};
  return report;
}

// A folder with tools that say what we write into them, first on the PATH.
struct FakeTools {
  FakeTools() : folder((std::filesystem::temp_directory_path() / "tranche-tools-XXXXXX").string()) {
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    before = std::getenv("PATH") == nullptr ? "" : std::getenv("PATH");
    ::setenv("PATH", (folder + ":" + before).c_str(), 1);
  }
  ~FakeTools() {
    ::setenv("PATH", before.c_str(), 1);
    std::filesystem::remove_all(folder);
  }
  void add(const std::string& name, const std::string& says, int exit_code = 0) const {
    std::ofstream(folder + "/" + name) << "#!/bin/sh\ncat <<'END'\n"
                                       << says << "\nEND\nexit " << exit_code << "\n";
    std::filesystem::permissions(folder + "/" + name, std::filesystem::perms::owner_all);
  }
  std::string folder, before;
};

}  // namespace

TEST_CASE("a healthy device gives back what was written and computes what the host computes") {
  const auto device = any_device();
  if (!device) return;
  DeviceSession session(*device);
  for (const TestOutcome& row : test_memory(session, {.budget = kBudget})) {
    CHECK_MESSAGE(row.verdict == Verdict::kPass, row.name, ": ", row.detail);
    CHECK(row.measured == 8);
  }
  const TestOutcome compute = test_compute(session, {.rounds = 300, .launches = 2});
  CHECK_MESSAGE(compute.detail.find("wrong") == std::string::npos, compute.detail);
  const auto rows = test_bandwidth(session, {.bytes = std::size_t{1} << 20, .repeats = 1});
  REQUIRE(rows.size() == 4);
  CHECK(rows[3].verdict == Verdict::kPass);
  CHECK(test_latency(session, 5).measured > 0);
}

TEST_CASE("a scrub leaves nothing, says how much it wiped, and counts what it could not") {
  const auto device = any_device();
  if (!device) return;
  DeviceSession session(*device);
  const auto memory = take_free_memory(session, kBudget);
  for (const DeviceBuffer& buffer : memory) session.fill(buffer, 0x5A);
  const ScrubOutcome out = zero_and_verify(session, memory);
  CHECK(out.zeroed.count == kBudget);
  CHECK(out.nonzero_bytes == 0);
  CHECK(bytes_per_second(out) > 0);
  CHECK(wire::is_clean(receipt_of(out)));
  std::vector<unsigned char> read(memory[0].bytes(), 1);
  session.read(memory[0], read.data(), read.size());
  CHECK(std::all_of(read.begin(), read.end(), [](unsigned char byte) { return byte == 0; }));
  ScrubOutcome failed = out;
  failed.nonzero_bytes = 1;
  CHECK_FALSE(wire::is_clean(receipt_of(failed)));
}

TEST_CASE("all that a tenant had of a device is wiped; of a CPU, whose kernel zeroes it, a part") {
  constexpr std::int64_t kGigabyte = 1'000'000'000, kPart = std::int64_t{64} << 20;
  OpenClDevice device;
  CHECK(enough_to_wipe(device, kGigabyte) == kGigabyte);
  CHECK(enough_to_wipe(device, 0) == 0);
  CHECK(why_a_part(device, 0).empty());
  device.is_cpu = true;
  CHECK_FALSE(why_a_part(device, 0).empty());
  CHECK_FALSE(why_a_part(device, kGigabyte).empty());
  CHECK(why_a_part(device, kBudget).empty());
  CHECK(enough_to_wipe(device, kGigabyte) == kPart);
  CHECK(enough_to_wipe(device, kBudget) == kBudget);
  CHECK(enough_to_wipe(device, 0) == kPart);
}

TEST_CASE("a test says how far it is: from part to part, never back, and tools of vendors get their half") {
  const auto device = any_device();
  if (!device) return;
  for (const bool tools : {false, true}) {
    CAPTURE(tools);
    OpenClDevice tested = *device;
    if (tools) tested.facts.vendor = wire::GpuVendor::kNvidia;
    std::vector<unsigned> percents;
    std::vector<std::string> parts;
    DeviceTestOptions options{.memory_budget = kBudget, .vendor_tools = tools};
    options.told = [&](unsigned percent, const std::string& part) {
      percents.push_back(percent);
      if (parts.empty() || parts.back() != part) parts.push_back(part);
    };
    const DeviceReport report = test_device(tested, options);
    std::vector<std::string> wanted{
        "memory.walking_ones", "memory.address", "memory.random", "compute.burn", "bandwidth", "latency"};
    if (tools) wanted.emplace_back("tools of the vendor");
    CHECK(parts == wanted);
    CHECK(std::is_sorted(percents.begin(), percents.end()));
    CHECK(percents.front() == 0);
    CHECK(percents.back() == (tools ? 50 : 98));
    CHECK(percents.size() > parts.size());  // Steps within the long parts, too.
    CHECK_FALSE(report.receipt.tests.empty());
  }
}

TEST_CASE("the budget is kept") {
  const auto device = any_device();
  if (!device) return;
  DeviceSession session(*device);
  std::size_t taken = 0;
  for (const DeviceBuffer& buffer : take_free_memory(session, kBudget + 100)) taken += buffer.bytes();
  CHECK(taken == static_cast<std::size_t>(kBudget + 64));
}

TEST_CASE("floors judge: a warning below, critical far below, information where there is none") {
  CHECK(judged("x", 100, 100, "MB/s").verdict == Verdict::kPass);
  CHECK(judged("x", 99, 100, "MB/s").verdict == Verdict::kWarning);
  CHECK(judged("x", 49, 100, "MB/s").verdict == Verdict::kCritical);
  CHECK(judged("x", 1, 0, "MB/s").verdict == Verdict::kInfo);
  OpenClDevice h100;
  h100.facts.model = "H100";
  CHECK(floors_of(h100).within_device == 1'005'000);
  h100.facts.model = "unheard of";
  CHECK(floors_of(h100).within_device == 0);
}

TEST_CASE("the worst row is the verdict, and what cannot run is not a failure") {
  const auto verdict = [](std::vector<Verdict> found) {
    std::vector<TestOutcome> rows;
    for (const Verdict one : found) rows.push_back({.verdict = one});
    return verdict_of(rows);
  };
  CHECK(verdict({}) == Verdict::kUnknown);
  CHECK(verdict({Verdict::kPass, Verdict::kInfo}) == Verdict::kPass);
  CHECK(verdict({Verdict::kPass, Verdict::kUnknown}) == Verdict::kUnknown);
  CHECK(verdict({Verdict::kWarning, Verdict::kUnknown}) == Verdict::kWarning);
  CHECK(verdict({Verdict::kCritical, Verdict::kWarning}) == Verdict::kCritical);
}

TEST_CASE("a straggler is found among its peers, and nobody is judged by another model") {
  std::vector<DeviceReport> reports{report_with("H100", 1000),
                                    report_with("H100", 990),
                                    report_with("H100", 1010),
                                    report_with("H100", 899),
                                    report_with("A100", 500)};
  compare_with_peers(reports);
  CHECK(reports[0].receipt.verdict == Verdict::kPass);
  CHECK(reports[3].receipt.verdict == Verdict::kWarning);
  CHECK(reports[3].receipt.tests[0].detail == "a straggler: its peers reach 1000 MB/s");
  CHECK(reports[3].receipt.tests[1].verdict == Verdict::kPass);
  CHECK(reports[4].receipt.verdict == Verdict::kPass);
  std::vector<DeviceReport> pair{report_with("H100", 1000), report_with("H100", 100)};
  compare_with_peers(pair);
  CHECK(pair[1].receipt.verdict == Verdict::kPass);
}

TEST_CASE("verdicts of vendors' tools are taken in, and a tool that gives none is UNKNOWN") {
  const FakeTools tools;
  const std::vector<std::string> pair{"GPU-1", "GPU-2"};
  CHECK(run_vendor_tools("GPU-1", pair, TestLevel::kFull).empty());
  tools.add("dcgmi",
            R"({"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [
    {"name": "PCIe", "results": [{"gpu_id": "0", "status": "Pass"}]},
    {"name": "GPU Memory", "results": [{"gpu_id": "0", "status": "Fail", "warnings": ["bad page"]}]},
    {"name": "Diagnostic", "results": [{"gpu_id": "0", "status": "Skip"}]}]}]}})",
            226);
  tools.add("nvbandwidth", "CUDA driver version is insufficient", 1);
  tools.add("all_reduce_perf", "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 233.5");
  const auto rows = run_vendor_tools("GPU-1", pair, TestLevel::kStandard);
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].name == "dcgm.PCIe");
  CHECK(rows[0].verdict == Verdict::kPass);
  CHECK(rows[1].verdict == Verdict::kCritical);
  CHECK(rows[2].verdict == Verdict::kInfo);
  CHECK(rows[3].name == "nvbandwidth");
  CHECK(rows[3].verdict == Verdict::kUnknown);
  CHECK(rows[4].measured == 233500);
  CHECK(run_vendor_tools("GPU-1", pair, TestLevel::kQuick).size() == 3);
  // Both end with a failure: wrong results are the device's, a missing library is not.
  tools.add("all_reduce_perf", "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 233.5", 1);
  CHECK(run_vendor_tools("GPU-1", pair, TestLevel::kStandard)[4].verdict == Verdict::kCritical);
  tools.add("all_reduce_perf", "error while loading shared libraries: libnccl.so.2", 127);
  CHECK(run_vendor_tools("GPU-1", pair, TestLevel::kStandard)[4].verdict == Verdict::kUnknown);
  // It sees all that are tested; of one alone it would prove nothing, so it is not run, and nothing failed.
  tools.add("all_reduce_perf", "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0");
  const auto alone = run_vendor_tools("GPU-1", {"GPU-1"}, TestLevel::kStandard)[4];
  CHECK(alone.verdict == Verdict::kInfo);
  CHECK(alone.detail == "not run: it needs two devices, and this test is of one");
  // Of several it sees those very devices, and a wrong sum names them all.
  tools.add("all_reduce_perf", "# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 1", 1);
  CHECK(run_vendor_tools("GPU-1", pair, TestLevel::kFull)[4].detail ==
        "values out of bounds: 2 FAILED, between GPU-1,GPU-2");
}
