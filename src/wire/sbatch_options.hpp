// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lines of a batch script that are for Slurm, taken apart. What options mean is for sbatch.cpp.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "wire/codec.hpp"

namespace tranche::wire::sbatch {

struct Option {
  std::string name{};   // Long form, without dashes.
  std::string value{};  // Empty: a flag.
  std::uint32_t line = 0;
};

// Lines of the script's head, in which Slurm looks for options, and those below that it ignores.
struct Head {
  std::string interpreter{};
  std::vector<std::pair<std::uint32_t, std::string_view>> lines{};
  std::vector<std::uint32_t> ignored{};
};

[[nodiscard]] Head head_of(std::string_view script);

// Refuses what is unknown, and by name what cannot be honoured.
[[nodiscard]] Result<std::vector<Option>, Problem> options_of(const Head& head);

[[nodiscard]] Problem wrong(const Option& option, std::string message, std::string hint = {});

}  // namespace tranche::wire::sbatch
