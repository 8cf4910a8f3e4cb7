// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which device is this? Names, addresses and identifiers that drivers write in different ways, in one way.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "wire/agent_message.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::gpu {

// "NVIDIA H100 80GB HBM3" is H100-SXM5-80GB; nullptr when the catalogue has no such chip.
const wire::GpuModel* model_of(std::string_view driver_name, Bytes vram);
// Fills vendor, model and, where the driver is silent, multiprocessors.
void describe_from_catalog(wire::DeviceFacts& facts);
// The profiles that the built-in table gives the model, for drivers that do not list theirs.
std::vector<wire::ProfileFacts> planned_profiles(std::string_view model);

// 00000000:3B:00.0 and 3b:00.0 are both 0000:3b:00.0.
std::string normal_pci_address(std::string_view address);
std::string pci_address_text(std::uint32_t domain,
                             std::uint32_t bus,
                             std::uint32_t device,
                             std::uint32_t function);
// As the kernel knows it; -1 when it does not, or there is one node alone.
std::int32_t numa_node_of(std::string_view pci_address);
// /dev/dri/renderD128 and such, of a device on the PCI bus.
std::vector<std::string> render_files_of(std::string_view pci_address);
std::vector<std::string> those_that_exist(std::vector<std::string> paths);

// 8-4-4-4-12 digits.
std::string uuid_text(const std::array<std::uint8_t, 16>& bytes);
// The same for the same text, for devices that have no identifier of their own.
std::string uuid_from(std::string_view text);
// Tells this machine from others; survives reboots.
std::string machine_identity();
Instant wall_time();

}  // namespace tranche::gpu
