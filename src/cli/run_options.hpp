// SPDX-License-Identifier: Apache-2.0
#pragma once
// `tranche run --gpus 10GB --time 30m -- cmd`: flags to a job, alone or on top of a job file.
#include <optional>
#include <string>
#include <vector>

#include "cli/size_options.hpp"
#include "wire/job_spec.hpp"

namespace tranche::cli {

struct RunOptions {
  std::string file{};  // "-": stdin.
  std::optional<std::string> gpus{}, name{}, kind{}, time{}, priority{}, isolation{}, sku{}, spend{}, cpus{},
      memory{}, image{}, workdir{}, infra{}, frames{}, chunk{}, retry{}, deadline{}, window{}, window_end{},
      zone{}, workers{}, setup{}, network{};
  std::vector<std::string> labels{}, envs{};  // key=value
  std::vector<std::string> secrets{};         // Names of variables of the caller's environment.
  std::vector<std::string> volumes{};         // name:/path or name:/path:ro
  std::vector<std::string> after{};
  bool preemptible = false;
  bool cheapest = false;
  SizeOptions size{};  // What it does, where it does not say what it needs.
  std::vector<std::string> command{};
};

struct JobRead {
  wire::JobSpec job{};
  std::vector<std::string> notes{};  // What is done differently from what the file says, for people.
};

// Throws Failure (usage) that names the flag, or file and line, and what would do.
wire::JobSpec job_of(const RunOptions& options, const std::optional<std::string>& file_text);
// The same; a file may also be a batch script of Slurm.
JobRead read_job(const RunOptions& options, const std::optional<std::string>& file_text);

}  // namespace tranche::cli
