// SPDX-License-Identifier: Apache-2.0
#pragma once
// A directory on its way to a job: packed, named by its content, and sent unless the server has it.
#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/session.hpp"

namespace tranche::cli {

struct ArchiveLimits {
  std::uint64_t bytes_max = 256U << 20U;
};

// A tar archive of everything below `folder`, the same bytes for the same content. Links are kept as links;
// sockets, pipes and devices are left out. Throws Failure when it is too large or cannot be read.
std::string pack_folder(const std::filesystem::path& folder, ArchiveLimits limits = {});

// What the job file says under workdir from then on: "sha256:…". A text that is that already stays.
std::string upload_workdir(Session& session, const std::string& folder, const std::string& owner);

}  // namespace tranche::cli
