// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "agent/cgroup_devices.hpp"
#include "agent/cgroup_files.hpp"
#include "agent/cgroup_kinds.hpp"

namespace tranche::agent {
namespace {

constexpr std::array kUsed = {"cpu", "memory", "pids", "freezer", "devices"};
constexpr std::uint64_t kWeightOfProcess = 1024;
constexpr std::uint64_t kWeightMost = 262'144;

// The control file that the kernel refused; empty: none.
std::string allow_devices(const std::string& group, const std::vector<std::string>& granted) {
  if (!put_control(group + "/devices.deny", "a")) return "devices.deny";
  for (const std::string& device : harmless_devices())
    if (!put_control(group + "/devices.allow", device + " rw")) return "devices.allow";
  for (const std::string& device : granted)
    if (!put_control(group + "/devices.allow", device + " rw")) return "devices.allow";
  return {};
}

}  // namespace

CgroupsV1::CgroupsV1(const std::map<std::string, std::string>& folders, const std::string& parent) {
  for (const char* controller : kUsed) {
    const auto found = folders.find(controller);
    const std::string folder = found == folders.end() ? "" : found->second + "/" + parent;
    if (!folder.empty() && make_group(folder) && ::access(folder.c_str(), W_OK) == 0) {
      folders_[controller] = folder;
    } else {
      shortcomings_.push_back(std::string("no rights to the ") + controller +
                              " control groups: such limits are not held");
    }
  }
  // Counting has a tree of its own where it is not mounted together with the limits.
  const auto cpu = folders.find("cpu"), counting = folders.find("cpuacct");
  if (cpu != folders.end() && counting != folders.end() && cpu->second != counting->second) {
    const std::string folder = counting->second + "/" + parent;
    if (make_group(folder) && ::access(folder.c_str(), W_OK) == 0) folders_["cpuacct"] = folder;
  }
  if (folders_.contains("cpu") && !put_control(folders_["cpu"] + "/cpu.shares",
                                               std::to_string(node_weight(kWeightOfProcess, kWeightMost))))
    shortcomings_.push_back(
        "the kernel refused cpu.shares: what the machine does beside jobs takes of their CPUs");
  make_plain_devices();
}

void CgroupsV1::make_plain_devices() {
  const std::string group = at("devices", "without");
  if (group.empty() || !make_group(group)) return;
  // An earlier agent's jobs may be in it: they must not lose their devices even for a moment.
  const bool whole =
      get_control(group + "/devices.list").find(harmless_devices().back()) != std::string::npos;
  if (whole || allow_devices(group, {}).empty()) plain_devices_ = group;
}

std::string CgroupsV1::at(const char* controller, const std::string& name) const {
  const auto found = folders_.find(controller);
  return found == folders_.end() ? "" : found->second + "/" + name;
}

bool CgroupsV1::create(const std::string& name, const CgroupLimits& limits, std::string& problem) {
  const bool plain = limits.devices.empty() && !plain_devices_.empty();
  for (const auto& [controller, folder] : folders_) {
    if ((plain && controller == "devices") || make_group(folder + "/" + name)) continue;
    problem = "cannot make the " + controller + " control group";
    return false;
  }
  constexpr std::uint32_t kPeriodMicroseconds = 100'000;
  const auto put = [&](const char* controller, const char* file, const std::string& value) {
    const std::string folder = at(controller, name);
    if (folder.empty()) return;  // Said once, in the shortcomings.
    if (!put_control(folder + "/" + file, value)) problem = std::string("the kernel refused ") + file;
  };
  put("cpu", "cpu.shares", std::to_string(job_weight(limits.cpu_milli, kWeightOfProcess, kWeightMost)));
  if (limits.cpu_milli != 0) {
    put("cpu", "cpu.cfs_period_us", std::to_string(kPeriodMicroseconds));
    put("cpu",
        "cpu.cfs_quota_us",
        std::to_string(std::uint64_t{limits.cpu_milli} * (kPeriodMicroseconds / 1000)));
  }
  if (limits.memory_bytes != 0) {
    put("memory", "memory.limit_in_bytes", std::to_string(limits.memory_bytes));
    // Absent where swap is not accounted; then there is nothing to limit beside.
    put_control(at("memory", name) + "/memory.memsw.limit_in_bytes", std::to_string(limits.memory_bytes));
  }
  if (limits.processes != 0) put("pids", "pids.max", std::to_string(limits.processes));
  if (!plain && folders_.contains("devices"))
    if (const std::string refused = allow_devices(at("devices", name), limits.devices); !refused.empty())
      problem = "the kernel refused " + refused;
  return problem.empty();
}

bool CgroupsV1::enter(const std::string& name) {
  // One thread that moves itself: through `tasks` the kernel need not hold up every fork of the machine for
  // it.
  for (const auto& [controller, folder] : folders_) {
    if (put_control(folder + "/" + name + "/tasks", "0")) continue;
    if (controller != "devices" || plain_devices_.empty() || !put_control(plain_devices_ + "/tasks", "0"))
      return false;
  }
  return true;
}

bool CgroupsV1::freeze(const std::string& name, bool frozen) {
  const std::string folder = at("freezer", name);
  return !folder.empty() && put_control(folder + "/freezer.state", frozen ? "FROZEN" : "THAWED");
}

bool CgroupsV1::kill(const std::string&) {
  return false;
}

std::uint64_t CgroupsV1::memory_kills(const std::string& name) const {
  return control_field(at("memory", name) + "/memory.oom_control", "oom_kill");
}

std::vector<int> CgroupsV1::processes(const std::string& name) const {
  if (folders_.empty()) return {};
  return control_pids(folders_.begin()->second + "/" + name + "/cgroup.procs");
}

CgroupUse CgroupsV1::use(const std::string& name) const {
  constexpr std::uint64_t kNanosecondsEach = 1000;
  const char* counting = folders_.contains("cpuacct") ? "cpuacct" : "cpu";
  return {.processes_most = control_number(at("pids", name) + "/pids.peak"),
          .processes_refused = control_field(at("pids", name) + "/pids.events", "max"),
          .memory_most = control_number(at("memory", name) + "/memory.max_usage_in_bytes"),
          .cpu_microseconds = control_number(at(counting, name) + "/cpuacct.usage") / kNanosecondsEach,
          .throttled_microseconds =
              control_field(at("cpu", name) + "/cpu.stat", "throttled_time") / kNanosecondsEach};
}

bool CgroupsV1::remove(const std::string& name) {
  bool all = true;
  if (name.empty() && !plain_devices_.empty()) ::rmdir(plain_devices_.c_str());
  for (const auto& [controller, folder] : folders_)
    all = (::rmdir((folder + "/" + name).c_str()) == 0 || errno == ENOENT) && all;
  return all;
}

}  // namespace tranche::agent
