// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which system a job sees around its own places: the node's programs, or those of an image. Read-only.
#include <string>
#include <utility>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

struct SystemView {
  std::vector<Bind> binds{};
  std::vector<std::pair<std::string, std::string>> links{};  // Where it is inside, what it says.
};

// `rootfs` empty: the node's own programs, without its files, accounts and keys.
[[nodiscard]] SystemView system_view(const std::string& rootfs);

}  // namespace tranche::agent
