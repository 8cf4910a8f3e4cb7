// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a vendor's tool and keeps what it said. No shell is involved.
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace tranche::gpu {

struct ProgramEnd {
  bool started = false;
  bool timed_out = false;
  int exit_code = -1;
  int exit_signal = 0;
  std::string output{};  // Both streams, up to a megabyte.
};

struct ProgramStart {
  std::vector<std::string> command{};
  std::map<std::string, std::string> environment{};  // Added to our own.
  std::string input{};
  std::chrono::seconds limit{60};  // Then it is killed.
};

ProgramEnd run_program(const ProgramStart& start);
// The full path; empty when it is not installed.
std::string find_program(const std::string& name);

}  // namespace tranche::gpu
