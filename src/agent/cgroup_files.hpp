// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control files: one short write or read each.
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
inline bool make_group(const std::string& folder) {
  return ::mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST;
}

}  // namespace tranche::agent
