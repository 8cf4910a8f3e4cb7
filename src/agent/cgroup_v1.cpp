// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "agent/cgroup_files.hpp"
#include "agent/cgroup_kinds.hpp"

namespace tranche::agent {
namespace {

constexpr std::array kUsed = {"cpu", "memory", "pids", "freezer", "devices"};
// null, zero, full, random, urandom, tty, ptmx, terminals.
constexpr std::array kHarmless = {"c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2", "c 136:*"};

}  // namespace

CgroupsV1::CgroupsV1(const std::map<std::string, std::string>& folders, const std::string& parent) {
  for (const char* controller : kUsed) {
    const auto found = folders.find(controller);
    const std::string folder = found == folders.end() ? "" : found->second + "/" + parent;
    if (!folder.empty() && make_group(folder)) {
      folders_[controller] = folder;
    } else {
      shortcomings_.push_back(std::string("no rights to the ") + controller +
                              " control groups: such limits are not held");
    }
  }
}

std::string CgroupsV1::at(const char* controller, const std::string& name) const {
  const auto found = folders_.find(controller);
  return found == folders_.end() ? "" : found->second + "/" + name;
}

bool CgroupsV1::create(const std::string& name, const CgroupLimits& limits, std::string& problem) {
  for (const auto& [controller, folder] : folders_) {
    if (make_group(folder + "/" + name)) continue;
    problem = "cannot make the " + controller + " control group";
    return false;
  }
  constexpr std::uint32_t kPeriodMicroseconds = 100'000;
  const auto put = [&](const char* controller, const char* file, const std::string& value) {
    const std::string folder = at(controller, name);
    if (folder.empty()) return;  // Said once, in the shortcomings.
    if (!put_control(folder + "/" + file, value)) problem = std::string("the kernel refused ") + file;
  };
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
  put("devices", "devices.deny", "a");
  for (const char* device : kHarmless) put("devices", "devices.allow", std::string(device) + " rw");
  for (const std::string& device : limits.devices) put("devices", "devices.allow", device + " rw");
  return problem.empty();
}

bool CgroupsV1::enter(const std::string& name) {
  for (const auto& [controller, folder] : folders_)
    if (!put_control(folder + "/" + name + "/cgroup.procs", "0")) return false;
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
  return {.processes_most = control_number(at("pids", name) + "/pids.peak"),
          .processes_refused = control_field(at("pids", name) + "/pids.events", "max"),
          .memory_most = control_number(at("memory", name) + "/memory.max_usage_in_bytes"),
          // Beside the CPU controller where the two are mounted together, as they are nearly everywhere.
          .cpu_microseconds = control_number(at("cpu", name) + "/cpuacct.usage") / kNanosecondsEach,
          .throttled_microseconds =
              control_field(at("cpu", name) + "/cpu.stat", "throttled_time") / kNanosecondsEach};
}

bool CgroupsV1::remove(const std::string& name) {
  bool all = true;
  for (const auto& [controller, folder] : folders_)
    all = (::rmdir((folder + "/" + name).c_str()) == 0 || errno == ENOENT) && all;
  return all;
}

}  // namespace tranche::agent
