// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control groups, one for each lease, the same on the old (v1) and the new (v2) kernel interface.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tranche::agent {

struct CgroupLimits {
  std::uint32_t cpu_milli = 0;  // Zero: no limit, and none promised. Zero is no limit for the others, too.
  std::uint64_t memory_bytes = 0;
  std::uint64_t processes = 0;
  std::vector<std::string> devices{};  // "c 195:0": granted beside the harmless ones every program needs.
};

// What the kernel counted of a group. Zero where it does not count.
struct CgroupUse {
  std::uint64_t processes_most = 0;
  std::uint64_t processes_refused = 0;
  std::uint64_t memory_most = 0;
  std::uint64_t cpu_microseconds = 0;
  std::uint64_t throttled_microseconds = 0;
};

// Why something is not enforced here, in a sentence for the operator. Empty: everything is.
using Shortcomings = std::vector<std::string>;

class Cgroups {
 public:
  virtual ~Cgroups() = default;
  [[nodiscard]] virtual std::string version() const = 0;  // v1, v2, none
  [[nodiscard]] const Shortcomings& shortcomings() const { return shortcomings_; }
  // Makes the group with its limits. False with a reason when a limit that was asked for cannot be held.
  virtual bool create(const std::string& name, const CgroupLimits& limits, std::string& problem) = 0;
  virtual bool enter(const std::string& name) = 0;  // The calling process, and what it starts from now on.
  virtual bool freeze(const std::string& name, bool frozen) = 0;  // False: no freezer here.
  virtual bool kill(const std::string& name) = 0;                 // False: the kernel has no such button.
  [[nodiscard]] virtual std::uint64_t memory_kills(const std::string& name) const = 0;
  [[nodiscard]] virtual std::vector<int> processes(const std::string& name) const = 0;
  [[nodiscard]] virtual CgroupUse use(const std::string& name) const = 0;
  virtual bool remove(const std::string& name) = 0;  // False: something still runs in it.

 protected:
  Shortcomings shortcomings_;
};

struct CgroupPlaces {
  std::string root = "/sys/fs/cgroup";
  std::string own = "/proc/self/cgroup";  // Which groups the agent is in.
  std::string mounts = "/proc/self/mountinfo";
  std::string parent = "tranche";  // Of the leases' groups, inside the agent's own.
};
// Never null: where there are no rights, groups are never made and the shortcomings say so.
[[nodiscard]] std::unique_ptr<Cgroups> open_cgroups(const CgroupPlaces& places = {});

}  // namespace tranche::agent
