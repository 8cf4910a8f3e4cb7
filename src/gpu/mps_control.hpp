// SPDX-License-Identifier: Apache-2.0
#pragma once
// NVIDIA's Multi-Process Service: one daemon for each device and group of programs (a tenant), in a folder of
// its own, so that a fault ends the programs of one tenant on one device alone.
#include <string>

#include "base/result.hpp"

namespace tranche::gpu {

constexpr const char* kMpsRoot = "/run/tranche/mps";

bool is_mps_installed();
// Where jobs on this device find the daemon: CUDA_MPS_PIPE_DIRECTORY.
std::string mps_pipe_folder(const std::string& uuid,
                            const std::string& group,
                            const std::string& root = kMpsRoot);
// One that runs already is as good as a new one.
Result<void, std::string> start_mps(const std::string& uuid,
                                    const std::string& group,
                                    const std::string& root = kMpsRoot);
// One that is gone already is ended.
Result<void, std::string> stop_mps(const std::string& uuid,
                                   const std::string& group,
                                   const std::string& root = kMpsRoot);

}  // namespace tranche::gpu
