// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings a tenant's working directory to this node, piece by piece over HTTPS with the node's certificate,
// and believes it only when its bytes are what its name says.
#include <filesystem>
#include <string>

#include "base/ids.hpp"
#include "net/client.hpp"

namespace tranche::agent {

struct WorkdirWish {
  LeaseId lease{};                 // Under which the server gives it out.
  std::string digest{};            // "sha256:…"
  std::filesystem::path folder{};  // Of the tenant: what one has here is no sign of what another has.
};

[[nodiscard]] std::filesystem::path archive_path(const WorkdirWish& wish);
// Empty when the archive is there afterwards; otherwise why not.
[[nodiscard]] std::string fetch_workdir(const net::ClientOptions& server, const WorkdirWish& wish);

}  // namespace tranche::agent
