// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control files: one short write or read each.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "agent/files.hpp"

namespace tranche::agent {

inline bool put_control(const std::string& file, std::string_view value) {
  const Descriptor descriptor(::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_TRUNC));
  return descriptor.open() &&
         ::write(descriptor.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}
inline std::string get_control(const std::string& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return descriptor.open() ? read_descriptor(descriptor.get()) : std::string();
}
// "oom_kill 3" in a file of names and numbers.
inline std::uint64_t control_field(const std::string& file, std::string_view name) {
  std::istringstream words(get_control(file));
  std::string key;
  std::uint64_t value = 0;
  while (words >> key >> value)
    if (key == name) return value;
  return 0;
}
// A file that holds one number; zero when it is not there.
inline std::uint64_t control_number(const std::string& file) {
  return std::strtoull(get_control(file).c_str(), nullptr, 10);
}
inline std::vector<int> control_pids(const std::string& file) {
  std::istringstream words(get_control(file));
  std::vector<int> pids;
  for (int pid = 0; words >> pid;) pids.push_back(pid);
  return pids;
}
// What a promised CPU weighs against an ordinary process, which weighs one. The kernel works for whoever
// writes to disk or network in threads of its own, outside every group: with no more weight than one of them,
// all jobs together would make room for it, and a job would lose what its neighbour causes. Limits bound what
// jobs take of it.
inline constexpr std::uint64_t kWeightOfCpu = 4;
// Of a job that was promised `milli`; what was promised nothing weighs as much as a process.
inline std::uint64_t job_weight(std::uint32_t milli, std::uint64_t process, std::uint64_t most) {
  constexpr std::uint64_t kMilli = 1000;
  if (milli == 0) return process;
  return std::clamp<std::uint64_t>(milli * kWeightOfCpu * process / kMilli, 2, most);
}
// Of all jobs together: whatever is promised of this machine.
inline std::uint64_t node_weight(std::uint64_t process, std::uint64_t most) {
  const auto cpus = static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return std::min(cpus * kWeightOfCpu * process, most);
}
inline bool make_group(const std::string& folder) {
  return ::mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST;
}

}  // namespace tranche::agent
