// SPDX-License-Identifier: Apache-2.0
#pragma once
// One opener per vendor interface. Each returns nothing when its library is absent or finds no driver.
#include <memory>
#include <string>
#include <vector>

#include "gpu/port.hpp"

namespace tranche::gpu {

// `library` replaces the usual name, for tests.
std::unique_ptr<DevicePort> open_nvml(const std::string& library = {});
std::unique_ptr<DevicePort> open_rocm(const std::string& library = {});
std::unique_ptr<DevicePort> open_level_zero(const std::string& library = {});
std::unique_ptr<DevicePort> open_opencl();

// Hides from each port the devices that an earlier one lists, by identifier or PCI address.
std::vector<std::unique_ptr<DevicePort>> without_repeats(std::vector<std::unique_ptr<DevicePort>> ports);

}  // namespace tranche::gpu
