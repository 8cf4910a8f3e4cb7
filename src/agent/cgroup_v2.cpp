// SPDX-License-Identifier: Apache-2.0
#include "agent/cgroup_devices.hpp"
#include "agent/cgroup_files.hpp"
#include "agent/cgroup_kinds.hpp"

namespace tranche::agent {
namespace {

constexpr std::uint64_t kWeightOfProcess = 100;
constexpr std::uint64_t kWeightMost = 10'000;

}  // namespace

CgroupsV2::CgroupsV2(const std::string& own_folder, const std::string& parent) {
  // A group that hands controllers on may hold no process itself: the agent moves to a group of its own.
  const std::string self = own_folder + "/" + parent + "-agent";
  const std::string folder = own_folder + "/" + parent;
  if (!make_group(folder)) {
    shortcomings_.push_back("no rights to make control groups in " + own_folder +
                            ": limits of CPU, memory and " +
                            "processes are not held (give the service Delegate=yes)");
    return;
  }
  folder_ = folder;
  for (const char* controller : {"cpu", "memory", "pids"}) {
    const std::string word = std::string("+") + controller;
    bool handed = put_control(own_folder + "/cgroup.subtree_control", word);
    if (!handed && make_group(self) && put_control(self + "/cgroup.procs", "0"))
      handed = put_control(own_folder + "/cgroup.subtree_control", word);
    if (handed && put_control(folder_ + "/cgroup.subtree_control", word)) {
      controllers_.insert(controller);
    } else {
      shortcomings_.push_back(std::string("the ") + controller +
                              " controller is not handed to the agent: such limits are not held");
    }
  }
  if (controllers_.contains("cpu") &&
      !put_control(folder_ + "/cpu.weight", std::to_string(node_weight(kWeightOfProcess, kWeightMost))))
    shortcomings_.push_back(
        "the kernel refused cpu.weight: what the machine does beside jobs takes of their CPUs");
  lists_devices_ = can_list_devices(folder_);
  if (!lists_devices_)
    shortcomings_.push_back(
        "the kernel takes no list of devices for a control group: device files are kept out by the sandbox's "
        "own "
        "/dev alone");
}

bool CgroupsV2::create(const std::string& name, const CgroupLimits& limits, std::string& problem) {
  if (folder_.empty()) return true;
  const std::string group = folder_ + "/" + name;
  if (!make_group(group)) {
    problem = "cannot make the control group";
    return false;
  }
  const auto put = [&](const char* controller, const char* file, const std::string& value) {
    if (controllers_.contains(controller) && !put_control(group + "/" + file, value))
      problem = std::string("the kernel refused ") + file;
  };
  put("cpu", "cpu.weight", std::to_string(job_weight(limits.cpu_milli, kWeightOfProcess, kWeightMost)));
  if (limits.cpu_milli != 0)
    put("cpu", "cpu.max", std::to_string(std::uint64_t{limits.cpu_milli} * 100) + " 100000");
  if (limits.memory_bytes != 0) {
    put("memory", "memory.max", std::to_string(limits.memory_bytes));
    put_control(group + "/memory.swap.max", "0");  // Absent without swap accounting.
    put("memory", "memory.oom.group", "1");
  }
  if (limits.processes != 0) put("pids", "pids.max", std::to_string(limits.processes));
  if (lists_devices_)
    if (const std::string refused = list_devices(group, limits.devices); !refused.empty())
      problem = "the kernel refused " + refused;
  return problem.empty();
}

bool CgroupsV2::enter(const std::string& name) {
  return folder_.empty() || put_control(folder_ + "/" + name + "/cgroup.procs", "0");
}

bool CgroupsV2::freeze(const std::string& name, bool frozen) {
  return !folder_.empty() && put_control(folder_ + "/" + name + "/cgroup.freeze", frozen ? "1" : "0");
}

bool CgroupsV2::kill(const std::string& name) {
  return !folder_.empty() && put_control(folder_ + "/" + name + "/cgroup.kill", "1");
}

std::uint64_t CgroupsV2::memory_kills(const std::string& name) const {
  return folder_.empty() ? 0 : control_field(folder_ + "/" + name + "/memory.events", "oom_kill");
}

std::vector<int> CgroupsV2::processes(const std::string& name) const {
  return folder_.empty() ? std::vector<int>{} : control_pids(folder_ + "/" + name + "/cgroup.procs");
}

CgroupUse CgroupsV2::use(const std::string& name) const {
  if (folder_.empty()) return {};
  const std::string group = folder_ + "/" + name;
  return {.processes_most = control_number(group + "/pids.peak"),
          .processes_refused = control_field(group + "/pids.events", "max"),
          .memory_most = control_number(group + "/memory.peak"),
          .cpu_microseconds = control_field(group + "/cpu.stat", "usage_usec"),
          .throttled_microseconds = control_field(group + "/cpu.stat", "throttled_usec")};
}

bool CgroupsV2::remove(const std::string& name) {
  return folder_.empty() || ::rmdir((folder_ + "/" + name).c_str()) == 0 || errno == ENOENT;
}

}  // namespace tranche::agent
