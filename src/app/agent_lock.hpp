// SPDX-License-Identifier: Apache-2.0
#pragma once
// One agent for one data folder: two would start, meter and end the same leases.
#include <filesystem>

namespace tranche::app {

class AgentLock {
 public:
  // One that was told to end, or whose server was killed, may need a moment: it is waited for. Throws
  // std::runtime_error, naming the other's process, when it stays.
  explicit AgentLock(const std::filesystem::path& data);
  ~AgentLock();
  AgentLock(const AgentLock&) = delete;
  AgentLock& operator=(const AgentLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace tranche::app
