// SPDX-License-Identifier: Apache-2.0
#pragma once
// From nothing to a running job of a new tenant, with one command.
#include <string>

#include "cli/session.hpp"

namespace tranche::cli {

struct TenantStart {
  std::string tenant{};
  std::string time_zone{};
  std::string user = "admin";  // Its first, with the rights of an administrator.
  std::string gpus{};
  std::string run{};  // A line for a shell.
};

// Creates tenant, user and token, submits the job, and stays until it runs or has ended. What was made stays
// made when a later step fails; the failure says how far it got.
void start_tenant(Session& session, const TenantStart& wish);

}  // namespace tranche::cli
