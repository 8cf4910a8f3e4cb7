// SPDX-License-Identifier: Apache-2.0
#pragma once
// The slice of a lease in the words of the Container Device Interface, for container runtimes of the operator
// that are started beside: device files, the guard, and the names of devices.
#include <string>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

[[nodiscard]] std::string cdi_specification(const SandboxPlan& plan);

}  // namespace tranche::agent
