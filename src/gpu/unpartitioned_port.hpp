// SPDX-License-Identifier: Apache-2.0
#pragma once
// What ports have in common whose devices we do not cut: they can be granted whole, or shared under the guard
// where it covers their API.
#include <string>

#include "gpu/port.hpp"

namespace tranche::gpu {

class UnpartitionedPort : public DevicePort {
 public:
  [[nodiscard]] std::vector<DeviceProcess> processes() override { return {}; }
  [[nodiscard]] std::vector<HealthSignal> signals() override { return {}; }
  [[nodiscard]] std::vector<std::string> files_of(const std::string& /*uuid*/) override { return {}; }
  Result<Partition, std::string> create_partition(const std::string& /*uuid*/,
                                                  const std::string& /*profile*/,
                                                  std::uint8_t /*start*/) override {
    return refuse("devices of " + name() + " cannot be partitioned: grant them whole, or as a soft share");
  }
  Result<void, std::string> destroy_partition(const std::string& partition_uuid) override {
    return refuse("no partition " + partition_uuid);
  }
  Result<void, std::string> set_mode(const std::string& uuid, wire::DeviceMode mode) override {
    if (mode == wire::DeviceMode::kPartitioned)
      return refuse("devices of " + name() + " cannot be partitioned: use whole or shared");
    for (const DeviceFacts& device : discover()) {
      if (device.uuid != uuid) continue;
      if (mode == wire::DeviceMode::kShared && !device.soft_capable)
        return refuse(std::string("the guard does not cover this device's API: grant it whole"));
      return {};  // Nothing of the driver's: sharing is between the guard and its tenants.
    }
    return refuse("no device " + uuid);
  }
  Result<void, std::string> reset(const std::string& /*uuid*/) override {
    return refuse("devices of " + name() + " have no reset: reboot the node");
  }
};

}  // namespace tranche::gpu
