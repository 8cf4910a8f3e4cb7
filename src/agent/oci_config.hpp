// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job with an image as the OCI runtime specification puts it (config.json): the same user, namespaces,
// filter, rights and limits that the agent's own sandbox has. What the job sees of files is put together
// before, by the agent; what belongs to its slice of a device comes in as CDI says.
#include <string>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

struct OciBundle {
  const SandboxPlan& plan;
  std::string root{};  // Where the file system stands.
  std::vector<std::string> command{};
  std::vector<Bind> mounts{};  // Of the slice, with the sources that the runtime will find.
};
[[nodiscard]] std::string oci_config(const OciBundle& bundle);

}  // namespace tranche::agent
