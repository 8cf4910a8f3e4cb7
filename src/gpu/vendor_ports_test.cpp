// SPDX-License-Identifier: Apache-2.0
// ROCm SMI and Level Zero against the fixed answers of tests/standin/vendors.c.
#include "gpu/vendor_ports.hpp"

#include <doctest/doctest.h>

#include "wire/health_codes.hpp"

using namespace tranche;
using namespace tranche::gpu;

namespace {
constexpr const char* kLibrary = TRANCHE_STANDIN_DIR "/libtranche-standin-vendors.so";
}  // namespace

TEST_CASE("AMD devices are found, and never offered as soft shares") {
  const auto port = open_rocm(kLibrary);
  REQUIRE(port != nullptr);
  const auto devices = port->discover();
  REQUIRE(devices.size() == 2);
  CHECK(devices[1].uuid == "GPU-abcdef0000000001");
  CHECK(devices[1].model == "MI300X");
  CHECK(devices[1].vendor == wire::GpuVendor::kAmd);
  CHECK(devices[1].vram.count == 206141652992);
  CHECK(devices[1].pci_address == "0002:c5:00.0");
  CHECK(devices[1].multiprocessors == 304);
  CHECK(devices[1].driver_version == "6.0 SIMULATED");
  CHECK_FALSE(devices[1].soft_capable);
  CHECK_FALSE(port->set_mode(devices[1].uuid, wire::DeviceMode::kShared));
  CHECK(port->set_mode(devices[1].uuid, wire::DeviceMode::kWhole));
}

TEST_CASE("AMD telemetry is in our units, and new memory errors are told") {
  const auto port = open_rocm(kLibrary);
  REQUIRE(port != nullptr);
  const auto samples = port->sample();
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].busy_milli == 400);
  CHECK(samples[0].vram_used.count == 1000000);
  CHECK(samples[0].power_milliwatts == 141500);
  CHECK(samples[0].temperature_celsius == 43);
  // What it has no call for is said to be missing, and what was read is not.
  CHECK((samples[0].missing & wire::kNoClock) != 0);
  CHECK((samples[0].missing & (wire::kNoBusy | wire::kNoPower | wire::kNoTemperature)) == 0);
  CHECK(port->signals().empty());  // The first reading is where counting begins.
  const auto signals = port->signals();
  REQUIRE(signals.size() == 1);
  CHECK(signals[0].uuid == "GPU-abcdef0000000001");
  CHECK(signals[0].code == wire::kEccUncorrected);
}

TEST_CASE("Intel devices are found") {
  const auto port = open_level_zero(kLibrary);
  REQUIRE(port != nullptr);
  const auto devices = port->discover();
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].uuid == "GPU-7e7e7e7e-7e7e-7e7e-7e7e-7e7e7e7e7e7e");
  CHECK(devices[0].model == "Max1550");
  CHECK(devices[0].vram.count == 137438953472);
  CHECK(devices[0].multiprocessors == 128);
  CHECK(devices[0].pci_address == "0000:9a:00.1");
  CHECK_FALSE(devices[0].soft_capable);
  CHECK(port->sample().at(0).vram_used.count == 5000);
  CHECK((port->sample().at(0).missing & wire::kNoPower) != 0);
  CHECK((port->sample().at(0).missing & wire::kNoMemory) == 0);
}

TEST_CASE("a library that is not there is no port") {
  CHECK(open_rocm("libno-such-library.so") == nullptr);
  CHECK(open_level_zero("libno-such-library.so") == nullptr);
}
