// SPDX-License-Identifier: Apache-2.0
// Against whatever OpenCL driver the machine has: PoCL on one without a GPU.
#include <doctest/doctest.h>

#include "gpu/opencl_api.hpp"
#include "gpu/vendor_ports.hpp"

using namespace tranche;
using namespace tranche::gpu;

TEST_CASE("OpenCL devices are found with an identifier that stays the same") {
  const auto port = open_opencl();
  if (port == nullptr) {
    MESSAGE("no OpenCL device on this machine: skipped");
    return;
  }
  const auto devices = port->discover();
  REQUIRE_FALSE(devices.empty());
  CHECK(devices == open_opencl()->discover());
  for (const DeviceFacts& device : devices) {
    CHECK_FALSE(device.simulated);
    CHECK(device.soft_capable);
    CHECK(device.vram.count > 0);
    CHECK(device.multiprocessors > 0);
    CHECK(device.uuid.size() == 40);
    CHECK(port->set_mode(device.uuid, wire::DeviceMode::kShared));
    CHECK_FALSE(port->set_mode(device.uuid, wire::DeviceMode::kPartitioned));
    CHECK_FALSE(port->create_partition(device.uuid, "1g.10gb", 0));
  }
  CHECK_FALSE(port->set_mode("OCL-nobody", wire::DeviceMode::kShared));
  CHECK(port->sample().size() == devices.size());
}

TEST_CASE("a device reachable through two ports is listed by the first alone") {
  const auto count = opencl_devices().size();
  std::vector<std::unique_ptr<DevicePort>> twice;
  if (count == 0) return;
  twice.push_back(open_opencl());
  twice.push_back(open_opencl());
  const auto ports = without_repeats(std::move(twice));
  CHECK(ports[0]->discover().size() == count);
  CHECK(ports[1]->discover().empty());
  CHECK(ports[1]->sample().empty());
}
