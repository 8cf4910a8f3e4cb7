// SPDX-License-Identifier: Apache-2.0
#pragma once
// One server for one data folder. The kernel drops the lock with its owner, so a killed server leaves none
// behind.
#include <filesystem>

#include "journal/durable_file.hpp"

namespace tranche::journal {

class DataLock {
 public:
  // Throws AlreadyOpen, naming the owner's process.
  explicit DataLock(const std::filesystem::path& folder);
  // In a forked child: the parent keeps the lock, and the child no longer does.
  void abandon_in_child() noexcept { file_.close(); }

 private:
  File file_{};
};

}  // namespace tranche::journal
