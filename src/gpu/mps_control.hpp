// SPDX-License-Identifier: Apache-2.0
#pragma once
// NVIDIA's Multi-Process Service: one daemon a device, in a folder of its own, so that one tenant's fault
// ends the clients of one device alone.
#include <string>

#include "base/result.hpp"

namespace tranche::gpu {

constexpr const char* kMpsRoot = "/run/tranche/mps";

bool is_mps_installed();
// Where jobs on this device find the daemon: CUDA_MPS_PIPE_DIRECTORY.
std::string mps_pipe_folder(const std::string& uuid, const std::string& root = kMpsRoot);
Result<void, std::string> start_mps(const std::string& uuid, const std::string& root = kMpsRoot);
Result<void, std::string> stop_mps(const std::string& uuid, const std::string& root = kMpsRoot);

}  // namespace tranche::gpu
