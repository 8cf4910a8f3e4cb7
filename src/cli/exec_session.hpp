// SPDX-License-Identifier: Apache-2.0
#pragma once
// A command inside a running job, with this terminal or these pipes as its own.
#include <string>
#include <vector>

#include "base/time.hpp"
#include "cli/session.hpp"
#include "wire/session_frame.hpp"

namespace tranche::cli {

struct ExecOptions {
  std::uint32_t rank = 0;  // Of a gang.
  Duration idle{};         // Without a byte either way so long it is left; zero: never.
};
wire::ExecEnd run_in_job(Session& session,
                         const std::string& job,
                         const std::vector<std::string>& command,
                         const ExecOptions& options = {});
// Leaves with the command's own exit code, and says what went wrong if it was not the command.
void end_with(const wire::ExecEnd& end);

}  // namespace tranche::cli
