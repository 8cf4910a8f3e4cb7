// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a server does in the operator's name when it starts: founds the platform, and keeps the operator's
// wishes.
#include <filesystem>
#include <optional>
#include <string>

#include "server/loop.hpp"
#include "wire/receipt.hpp"

namespace tranche::app {

// The first start founds the platform; the operator's token is written to the data folder, and nowhere else.
void found_platform(server::Loop& loop, const std::filesystem::path& data, const std::string& operator_name);

// Invites a machine as a node of that name, for an hour; what it joins with.
std::string invite_node(server::Loop& loop, const std::filesystem::path& data, const std::string& name);

// How new devices are tested, in a sentence. A shorter test is the operator's wish, in the journal and on the
// board, and never a default.
std::string set_acceptance(server::Loop& loop,
                           const std::filesystem::path& data,
                           std::optional<wire::TestLevel> wanted);

}  // namespace tranche::app
