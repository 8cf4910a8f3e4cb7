// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads what a job says of its progress, on stdout and in its progress file. However much it writes, a look
// costs a bounded read; lines that are not of the protocol are passed over.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "agent/host_time.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

class ProgressReader {
 public:
  // What is new since the last look; nothing when there is nothing to say.
  std::optional<wire::ProgressReport> look(const std::filesystem::path& folder, std::uint64_t stdout_written);

  [[nodiscard]] BootTime due() const { return due_; }
  // Looks become rarer the longer a job runs: a day of steps is not a hundred thousand records. The first
  // come soon, so that the server learns early how long a unit takes.
  void looked(BootTime now);

 private:
  struct Source {
    std::uint64_t offset = 0;
    std::string rest{};  // A line that is not whole yet.
  };
  void read(const std::filesystem::path& file, Source& source, std::uint64_t written, bool may_skip);
  void take(std::string_view line);

  Source stdout_{};
  Source file_{};
  wire::ProgressReport found_{};
  bool fresh_ = false;
  BootTime first_ = 0;
  BootTime due_ = 0;
};

}  // namespace tranche::agent
