// SPDX-License-Identifier: Apache-2.0
#pragma once
// A batch script of Slurm as a job: the options in its #SBATCH lines, and the script as what runs. Options
// that cannot be honoured are refused by name; docs/job-file.md lists them all.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "wire/codec.hpp"
#include "wire/job_spec.hpp"

namespace tranche::wire {

struct BatchScript {
  JobSpec job{};
  std::vector<std::string> notes{};  // What is done differently from Slurm, for people.
};

// Whether there are #SBATCH lines in the head of the text.
[[nodiscard]] bool is_batch_script(std::string_view text);

[[nodiscard]] Result<BatchScript, Problem> read_batch_script(std::string_view text,
                                                             const std::vector<std::string>& arguments = {});

}  // namespace tranche::wire
