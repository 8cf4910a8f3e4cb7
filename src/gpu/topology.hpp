// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where in the machine a device is: its memory node, the processors next to it, and the PCI bridge that it
// shares with its nearest neighbours. By hwloc, which knows the quirks of firmware; by the kernel's own files
// where hwloc finds nothing.
#include <string>

#include "wire/agent_message.hpp"

namespace tranche::gpu {

// Fills numa_node, near_cpus and behind of a device with a PCI address.
void place_in_machine(wire::DeviceFacts& facts);
// The same in a machine that was written down: `file` as hwloc writes it (XML). Throws std::runtime_error.
void place_in_machine(wire::DeviceFacts& facts, const std::string& file);

}  // namespace tranche::gpu
