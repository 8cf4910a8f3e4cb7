// SPDX-License-Identifier: Apache-2.0
#include "agent/job_plan.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <iterator>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "agent/gang_carrier.hpp"
#include "agent/unit_loop.hpp"
#include "wire/mount_place.hpp"

namespace tranche::agent {
namespace {

using wire::EndReason;

constexpr std::uint32_t kUsers = 60'000;
constexpr std::uint32_t kTenantUsers = 30'000;
constexpr int kGangPort = 29'500;
// For the carrier of the job's network, which is in the job's control group. The job itself has no such file,
// and no right to make one or to use it.
constexpr const char* kTunnelDevice = "c 10:200";

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

std::string host_of(const std::string& address) {
  const auto colon = address.rfind(':');
  return colon == std::string::npos ? address : address.substr(0, colon);
}

void set_devices(wire::TextMap& environment, const std::vector<GrantedDevice>& devices) {
  std::vector<std::string> nvidia, amd;
  for (const GrantedDevice& device : devices) {
    if (device.vendor == wire::GpuVendor::kNvidia) nvidia.push_back(device.uuid);
    if (device.vendor == wire::GpuVendor::kAmd) amd.push_back(device.uuid);
  }
  // Set even when empty: a program that looks for devices it was not granted finds none.
  environment.set("CUDA_VISIBLE_DEVICES", joined(nvidia));
  environment.set("NVIDIA_VISIBLE_DEVICES", nvidia.empty() ? "void" : joined(nvidia));
  environment.set("ROCR_VISIBLE_DEVICES", joined(amd));
}

void set_gang(wire::TextMap& environment, const wire::LeaseGrant& grant, NetworkKind network) {
  std::vector<std::string> peers = grant.peers;
  if (network == NetworkKind::kGang)
    for (std::size_t rank = 0; rank < peers.size(); ++rank) peers[rank] = gang_address(rank);
  environment.set("MASTER_ADDR", peers.empty() ? "127.0.0.1" : host_of(peers.front()));
  environment.set("MASTER_PORT", std::to_string(kGangPort));
  environment.set("RANK", std::to_string(grant.rank));
  environment.set("LOCAL_RANK", "0");
  environment.set("NODE_RANK", std::to_string(grant.rank));
  environment.set("WORLD_SIZE", std::to_string(std::max<std::size_t>(1, grant.peers.size())));
  environment.set("TRANCHE_PEERS", joined(peers));
}

wire::TextMap environment_of(const wire::LeaseGrant& grant,
                             const std::vector<GrantedDevice>& devices,
                             const std::string& checkpoint,
                             NetworkKind network) {
  wire::TextMap environment = grant.spec.envs;
  for (const auto& [name, value] : grant.spec.secrets) environment.set(name, value);
  environment.add("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
  environment.add("HOME", "/work");
  environment.add("TMPDIR", "/tmp");
  environment.add("USER", "job");
  environment.add("LANG", "C.UTF-8");
  set_devices(environment, devices);
  set_gang(environment, grant, network);
  environment.set("TRANCHE_JOB", text(grant.job));
  environment.set("TRANCHE_LEASE", text(grant.lease));
  environment.set("TRANCHE_ATTEMPT", std::to_string(grant.attempt));
  environment.set("TRANCHE_CHECKPOINT_DIR", checkpoint);
  return environment;
}

Result<void, PlanRefusal> check_wishes(const wire::LeaseGrant& grant, const NodeRules& rules) {
  const wire::JobSpec& spec = grant.spec;
  if (!spec.file_mounts.empty())
    return refuse(PlanRefusal{EndReason::kSetupFailed, "file_mounts are not carried out; use a volume"});
  if (spec.volumes.size() != grant.volumes.size())
    return refuse(PlanRefusal{EndReason::kPlatformFault, "a volume of this job is not on this node"});
  for (const wire::VolumeGrant& volume : grant.volumes)
    if (!wire::may_be_covered(volume.path))
      return refuse(PlanRefusal{EndReason::kSetupFailed, "a volume cannot be shown at " + volume.path});
  if (spec.checkpoint && !spec.checkpoint->path.empty() && !wire::may_be_covered(spec.checkpoint->path))
    return refuse(
        PlanRefusal{EndReason::kSetupFailed, "checkpoints cannot be shown at " + spec.checkpoint->path});
  if (spec.port != 0 && job_network(rules, grant) == NetworkKind::kNode)
    return refuse(PlanRefusal{EndReason::kSetupFailed,
                              "a service has a network of its own, and this node has none with a way out: "
                              "leave network out"});
  const bool gang = spec.network == wire::Network::kGang && grant.peers.size() > 1;
  if (gang && rules.network == NetworkKind::kNone)
    return refuse(PlanRefusal{EndReason::kPlatformFault,
                              "this node has no network between the nodes of a gang: " + rules.no_network});
  if (gang && rules.network != NetworkKind::kNode &&
      (grant.members.size() != grant.peers.size() || grant.members.size() > kGangMembersMax))
    return refuse(PlanRefusal{EndReason::kPlatformFault, "the server did not say who is in the gang"});
  if (spec.network == wire::Network::kInternet && rules.network == NetworkKind::kNone)
    return refuse(
        PlanRefusal{EndReason::kPlatformFault, "this node gives jobs no network: " + rules.no_network});
  for (const wire::TextMap* map : {&spec.envs, &spec.secrets})
    for (const auto& [name, value] : *map)
      if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos ||
          value.find('\0') != std::string::npos)
        return refuse(PlanRefusal{EndReason::kSetupFailed, "not a name of an environment variable: " + name});
  return {};
}

void add_device_files(SandboxPlan& plan, const std::vector<GrantedDevice>& devices) {
  for (const GrantedDevice& device : devices) {
    for (const std::string& file : device.files) {
      struct stat info{};
      if (::stat(file.c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) continue;
      plan.binds.push_back({file, file, BindKind::kDevice});
      plan.devices.push_back("c " + std::to_string(major(info.st_rdev)) + ":" +
                             std::to_string(minor(info.st_rdev)));
    }
  }
}

}  // namespace

std::uint32_t job_user(const NodeRules& rules, const wire::LeaseGrant& grant) {
  if (rules.uid_base == 0) return 0;
  const bool soft = std::any_of(grant.slices.begin(), grant.slices.end(), [](const wire::SliceGrant& slice) {
    return slice.isolation == wire::Isolation::kSoft;
  });
  if (grant.volumes.empty() && !(soft && rules.sharing_daemons))
    return rules.uid_base + static_cast<std::uint32_t>(grant.job.value % kUsers);
  return rules.uid_base + kUsers + static_cast<std::uint32_t>((grant.tenant.value >> 3U) % kTenantUsers);
}

NetworkKind job_network(const NodeRules& rules, const wire::LeaseGrant& grant) {
  const wire::Network asked = grant.spec.network;
  if (asked == wire::Network::kNone) return NetworkKind::kNone;
  if (asked == wire::Network::kGang && rules.network == NetworkKind::kPrivate)
    return grant.peers.size() > 1 ? NetworkKind::kGang : NetworkKind::kNone;  // Alone it has its loopback.
  return rules.network;
}

std::filesystem::path checkpoint_folder(const NodeRules& rules, JobId job) {
  return rules.data / "checkpoints" / text(job);
}

std::filesystem::path images_folder(const NodeRules& rules) {
  return rules.images.empty() ? rules.data / "images" : rules.images;
}

Result<SandboxPlan, PlanRefusal> plan_job(const wire::LeaseGrant& grant,
                                          const std::filesystem::path& folder,
                                          const NodeRules& rules,
                                          const SandboxHome& home,
                                          const std::vector<GrantedDevice>& devices,
                                          const std::string& tenant_socket) {
  if (const auto wishes = check_wishes(grant, rules); !wishes) return refuse(wishes.error());
  const wire::JobSpec& spec = grant.spec;
  SandboxPlan plan{.lease = grant.lease, .folder = folder.string(), .agent_socket = rules.data.string()};
  plan.setup = spec.setup;
  plan.run = spec.run.empty() ? "exec sleep infinity" : spec.run;  // Interactive: sessions come beside it.
  plan.uid = job_user(rules, grant);
  plan.network = job_network(rules, grant);
  if (plan.network == NetworkKind::kPrivate) {
    plan.networks_allowed = rules.networks_allowed;
    plan.devices.emplace_back(kTunnelDevice);
  }
  if (plan.network == NetworkKind::kGang) {
    plan.gang = {.key = grant.gang_key, .rank = grant.rank};
    for (std::size_t rank = 0; rank < grant.members.size(); ++rank)
      plan.gang.members.push_back({host_of(grant.peers[rank]), gang_port(grant.members[rank].value)});
    plan.devices.emplace_back(kTunnelDevice);
  }
  plan.tenant = grant.tenant;
  plan.binds = home.binds();
  plan.binds_shared = static_cast<std::uint32_t>(plan.binds.size());
  if (!devices.empty()) {
    const bool cuda = std::any_of(devices.begin(), devices.end(), [](const GrantedDevice& device) {
      return device.vendor == wire::GpuVendor::kNvidia;
    });
    for (Bind& bind : home.device_binds(tenant_socket, cuda)) plan.binds.push_back(std::move(bind));
    add_device_files(plan, devices);
  }
  if (const std::string names = home.name_servers(plan.network); !names.empty())
    plan.binds.push_back({names, "/etc/resolv.conf", BindKind::kReadOnly});
  const std::string inside =
      spec.checkpoint && !spec.checkpoint->path.empty() ? spec.checkpoint->path : "/checkpoint";
  plan.binds.push_back({checkpoint_folder(rules, grant.job).string(), inside, BindKind::kWritable});
  plan.environment = environment_of(grant, devices, inside, plan.network);
  add_progress_files(plan, grant);
  if (spec.port != 0) plan.environment.set("PORT", std::to_string(spec.port));
  plan.cpu_milli =
      spec.resources.cpus.milli_max != 0 ? spec.resources.cpus.milli_max : spec.resources.cpus.milli_min;
  const Bytes memory =
      spec.resources.memory.max.count != 0 ? spec.resources.memory.max : spec.resources.memory.min;
  plan.memory_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, memory.count));
  plan.processes = rules.processes_max;
  const Bytes disk = spec.resources.disk.count > 0 ? spec.resources.disk : rules.disk_default;
  plan.disk_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, disk.count));
  plan.files = rules.files_max;
  plan.log_bytes = static_cast<std::uint64_t>(rules.log_quota.count);
  plan.time_limit = spec.limits.time.value_or(Duration{});
  if (spec.checkpoint) {
    plan.checkpoint_signal = wire::signal_number(spec.checkpoint->signal);
    plan.checkpoint_grace = spec.checkpoint->grace;
  }
  return plan;
}

}  // namespace tranche::agent
