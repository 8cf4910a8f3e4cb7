// SPDX-License-Identifier: Apache-2.0
#pragma once
// Is this device fit for a tenant? Our own tests, as kernels that run on any OpenCL device, and the vendors'
// where they are installed. A pass speaks for the checks that ran and for nothing else; a test that cannot
// run is UNKNOWN and never a failure.
#include <boost/describe/class.hpp>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device_session.hpp"
#include "wire/receipt.hpp"

namespace tranche::gpu {

using wire::AcceptanceReceipt;
using wire::TestLevel;
using wire::TestOutcome;
using wire::Verdict;

// Told how far a test is, in hundredths, and what is being done.
using TestListener = std::function<void(unsigned percent, const std::string& part)>;
// The same of one part of it: so many of so many steps.
using StepListener = std::function<void(const std::string& part, unsigned done, unsigned steps)>;

struct DeviceTestOptions {
  TestLevel level = TestLevel::kQuick;
  std::int64_t memory_budget =
      0;                     // Bytes; zero: what the level says, which from standard on is all there is.
  bool vendor_tools = true;  // DCGM, nvbandwidth and NCCL tests, where installed.
  // The memory of a CPU device is the machine's own, and its kernel hands out other pages next time: at most
  // so much of it. Zero: as of any other device.
  std::int64_t cpu_memory_budget = 0;
  std::vector<std::string> together{};  // All NVIDIA devices that are free for this test, by identifier.
  TestListener told{};
};

// One device and what was found.
struct DeviceReport {
  std::string uuid{};
  std::string model{};
  std::string name{};
  bool simulated = false;
  AcceptanceReceipt receipt{};
  wire::ScrubReceipt scrub{};  // Where a wipe was asked for.
};
BOOST_DESCRIBE_STRUCT(DeviceReport, (), (uuid, model, name, simulated, receipt, scrub))
struct DeviceReports {
  std::vector<DeviceReport> items{};
};
BOOST_DESCRIBE_STRUCT(DeviceReports, (), (items))
struct DeviceFactsList {
  std::vector<wire::DeviceFacts> items{};
};
BOOST_DESCRIBE_STRUCT(DeviceFactsList, (), (items))

DeviceReport test_device(const OpenClDevice& device, const DeviceTestOptions& options);

// The quick level on an open device, cut to what takes milliseconds: between two leases, on what the next
// will get. Others may be at work on the device; speeds are measured, and not judged.
AcceptanceReceipt test_between_leases(DeviceSession& session, std::int64_t slice_bytes);

// Marks those that are more than a tenth slower than the median of at least three of their model.
void compare_with_peers(std::vector<DeviceReport>& reports);
// The worst that was found; UNKNOWN only when nothing worse was, and something could not run.
Verdict verdict_of(std::span<const TestOutcome> outcomes);

// The parts, each on an open device.
struct MemoryTestPlan {
  std::int64_t budget = 0;
  unsigned rounds = 1;
  StepListener told{};
};
std::vector<TestOutcome> test_memory(DeviceSession& session, const MemoryTestPlan& plan);
struct ComputeTestPlan {
  unsigned rounds = 1024;  // Of each chain.
  unsigned launches = 8;
  StepListener told{};
};
TestOutcome test_compute(DeviceSession& session, const ComputeTestPlan& plan);
struct BandwidthTestPlan {
  std::size_t bytes = std::size_t{64} << 20;
  unsigned repeats = 3;  // The best counts.
};
std::vector<TestOutcome> test_bandwidth(DeviceSession& session, const BandwidthTestPlan& plan);
TestOutcome test_latency(DeviceSession& session, unsigned launches);
// The verdicts of vendors' tools that are installed, for the device of this identifier, and for those
// `together`.
std::vector<TestOutcome> run_vendor_tools(const std::string& uuid,
                                          const std::vector<std::string>& together,
                                          TestLevel level);

}  // namespace tranche::gpu
