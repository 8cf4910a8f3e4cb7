// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job that lives as long as the command that a person runs in it.
#include <string>
#include <vector>

#include "cli/session.hpp"
#include "wire/job_spec.hpp"
#include "wire/session_frame.hpp"

namespace tranche::cli {

struct InteractiveJob {
  wire::JobSpec job{};
  std::string owner{};                 // Empty: whoever asks.
  std::vector<std::string> command{};  // Empty: a shell.
  Duration idle{};                     // Without a key or a byte of output so long it ends; zero: never.
};

// Submits the job, waits for it to run, runs the command in it with this terminal, and stops the job however
// that ends. The greeting follows the job's id.
wire::ExecEnd run_interactively(Session& session, InteractiveJob wish, const std::string& greeting);

}  // namespace tranche::cli
