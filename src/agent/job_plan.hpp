// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a grant to the plan of its sandbox: what is set, shown and limited, or why this node cannot do it.
#include <filesystem>
#include <string>
#include <vector>

#include "agent/sandbox_home.hpp"
#include "agent/sandbox_plan.hpp"
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "gpu/port.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

struct NodeRules {
  std::filesystem::path data{};
  std::filesystem::path images{};            // That jobs may name; empty: images/ of the data.
  std::uint32_t uid_base = 0;                // Jobs run as users from here on; zero: as the agent's own.
  NetworkKind network = NetworkKind::kNone;  // What jobs that ask for one get.
  std::vector<std::string> networks_allowed{};
  std::string no_network = "its operator chose --job-network none";  // Why they get none.
  bool sharing_daemons = false;  // Soft slices share through the vendor's daemon, where there is one.
  gpu::TimeSlice time_slice = gpu::TimeSlice::kDefault;  // Of soft slices that take turns.
  bool exclusive_devices = false;                        // Dedicated devices take one process at a time.
  Bytes log_quota = mebibytes(64);
  Bytes disk_default = gibibytes(16);  // For jobs that name none.
  std::uint64_t processes_max = 4096;
  std::uint64_t files_max = 1'000'000;
  std::string service_address = "127.0.0.1";  // Of the node, where the gateway reaches its services.
};

struct GrantedDevice {
  std::string uuid{};
  wire::GpuVendor vendor = wire::GpuVendor::kAny;
  std::vector<std::string> files{};  // "/dev/nvidia0"
};

struct PlanRefusal {
  wire::EndReason reason = wire::EndReason::kPlatformFault;
  std::string message{};
};

// `tenant_socket` empty: the lease has no device under the guard. An image is left to apply_image.
[[nodiscard]] Result<SandboxPlan, PlanRefusal> plan_job(const wire::LeaseGrant& grant,
                                                        const std::filesystem::path& folder,
                                                        const NodeRules& rules,
                                                        const SandboxHome& home,
                                                        const std::vector<GrantedDevice>& devices,
                                                        const std::string& tenant_socket);
// One of its own for every job; one of its tenant for those with volumes, so that they share their files, and
// for those on a sharing daemon, which serves one user at a time.
[[nodiscard]] std::uint32_t job_user(const NodeRules& rules, const wire::LeaseGrant& grant);
[[nodiscard]] NetworkKind job_network(const NodeRules& rules, const wire::LeaseGrant& grant);
[[nodiscard]] std::filesystem::path checkpoint_folder(const NodeRules& rules, JobId job);
[[nodiscard]] std::filesystem::path images_folder(const NodeRules& rules);

}  // namespace tranche::agent
