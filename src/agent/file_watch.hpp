// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which files does a job use that are not its own? Its sandbox shows it a system that is not its place: the
// programs that it starts of it, and what it reads beside programs and their libraries, are noted. Asked of
// the kernel, which tells each opening in the job's own mounts; nothing waits for us, and what comes faster
// than we look is counted.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/descriptor.hpp"

namespace tranche::agent {

class FileWatch {
 public:
  FileWatch() = default;
  // In the job's mount namespace, as root, before anything of the job runs; it counts as the job's user's.
  // Invalid: the kernel does not tell.
  [[nodiscard]] static Descriptor begin(std::uint32_t uid, const std::vector<std::string>& own_places);

  void follow(Descriptor group, int job);  // Of a job whose first process it is.
  [[nodiscard]] bool watches() const { return group_.open(); }
  void take();  // What the kernel has told since, up to a bound.
  [[nodiscard]] std::vector<std::string> paths() const { return {seen_.begin(), seen_.end()}; }
  [[nodiscard]] std::uint64_t more() const { return more_; }  // At least so many openings are not in it.

 private:
  void note(const std::string& path);
  [[nodiscard]] std::string path_of(int file) const;
  Descriptor group_;
  std::map<std::string, std::string> points_;  // By the number of the mount, as the job sees it.
  std::set<std::string> seen_;
  std::uint64_t more_ = 0;
};

}  // namespace tranche::agent
