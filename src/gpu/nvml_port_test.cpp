// SPDX-License-Identifier: Apache-2.0
// Against the stand-in's NVML: two simulated devices, the second cut into partitions.
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <unistd.h>

#include "gpu/vendor_ports.hpp"

using namespace tranche;
using namespace tranche::gpu;

namespace {

// One machine for all cases: the library keeps its state for the life of the process.
struct StandinState {
  StandinState() : folder((std::filesystem::temp_directory_path() / "tranche-gpu-XXXXXX").string()) {
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    ::setenv("TRANCHE_STANDIN", (folder + "/state").c_str(), 1);
    ::setenv("TRANCHE_STANDIN_SET", "devices=3,vram=1GiB,mig=1:3g.40gb@4,mig=1:1g.10gb@0", 1);
  }
  ~StandinState() { std::filesystem::remove_all(folder); }
  std::string folder;
};

std::unique_ptr<DevicePort> open_standin() {
  static const StandinState state;
  auto port = open_nvml(TRANCHE_STANDIN_DIR "/libnvidia-ml.so.1");
  REQUIRE(port != nullptr);
  return port;
}

}  // namespace

TEST_CASE("devices are found, and say that they are simulated") {
  const auto port = open_standin();
  const auto devices = port->discover();
  REQUIRE(devices.size() == 3);
  for (const DeviceFacts& device : devices) {
    CHECK(device.uuid.starts_with("GPU-"));
    CHECK(device.vendor == wire::GpuVendor::kNvidia);
    CHECK(device.vram == gibibytes(1));
    CHECK(device.simulated);
    CHECK(device.soft_capable);
    CHECK(device.driver_version == "0.0 SIMULATED");
  }
  CHECK(devices[0].mode == wire::DeviceMode::kWhole);
  CHECK(devices[1].mode == wire::DeviceMode::kPartitioned);
  CHECK(port->sample().size() == 3);
  CHECK(port->processes().empty());
}

TEST_CASE("partitions that exist are listed with profile and start") {
  const auto port = open_standin();
  const auto devices = port->discover();
  const auto partitions = port->partitions(devices[1].uuid);
  REQUIRE(partitions.size() == 2);
  CHECK(partitions[0].profile == "3g.40gb");
  CHECK(partitions[0].start == 4);
  CHECK(partitions[0].uuid.starts_with("MIG-"));
  CHECK(partitions[1].profile == "1g.10gb");
  CHECK(port->partitions(devices[0].uuid).empty());
}

TEST_CASE("partitions are created and destroyed through the driver") {
  const auto port = open_standin();
  const std::string uuid = port->discover()[2].uuid;
  CHECK(port->create_partition(uuid, "3g.40gb", 0).error().find("set its mode") != std::string::npos);
  REQUIRE(port->set_mode(uuid, wire::DeviceMode::kPartitioned));
  CHECK(port->discover()[2].mode == wire::DeviceMode::kPartitioned);
  CHECK(port->create_partition(uuid, "3g.40gb", 1).error() ==
        "3g.40gb cannot start at 1: it may start at 0, 4");
  const auto made = port->create_partition(uuid, "3g.40gb", 4);
  REQUIRE(made);
  CHECK(made->profile == "3g.40gb");
  CHECK(made->start == 4);
  CHECK_FALSE(port->create_partition(uuid, "3g.40gb", 4));
  CHECK(port->create_partition(uuid, "8g.80gb", 0).error() == "the device has no profile 8g.80gb");
  CHECK(port->set_mode(uuid, wire::DeviceMode::kWhole).error().find("partitions") != std::string::npos);
  REQUIRE(port->destroy_partition(made->uuid));
  CHECK(port->partitions(uuid).empty());
  REQUIRE(port->set_mode(uuid, wire::DeviceMode::kWhole));
  CHECK(port->discover()[2].mode == wire::DeviceMode::kWhole);
}

TEST_CASE("profiles come from the driver with their starts") {
  const auto port = open_standin();
  const auto profiles = port->discover()[0].profiles;
  REQUIRE(profiles.size() == 5);
  for (const wire::ProfileFacts& profile : profiles) {
    if (profile.name != "3g.40gb") continue;
    CHECK(profile.starts == 0b00010001);
    CHECK(profile.memory_slices == 4);
    CHECK(profile.count_max == 2);
  }
}

TEST_CASE("what a driver cannot do is refused in words") {
  const auto port = open_standin();
  CHECK(port->set_exclusive("GPU-nobody", true).error() == "no device GPU-nobody");
  CHECK_FALSE(port->set_exclusive(port->discover()[0].uuid, true));
  CHECK(port->signals().empty());
  CHECK(open_nvml("libno-such-library.so.1") == nullptr);
}
