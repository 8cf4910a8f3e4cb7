// SPDX-License-Identifier: Apache-2.0
#pragma once
// From what is on disk to a state: the newest good snapshot, then the records after it.
#include <filesystem>
#include <functional>
#include <string>

#include "engine/state.hpp"
#include "journal/store.hpp"

namespace tranche::server {

using Log = std::function<void(const std::string&)>;

struct Recovered {
  engine::State state{};
  std::uint64_t snapshot_sequence = 0;  // Zero: the whole journal was replayed.
};

// Throws journal::Corrupt naming the first record that cannot be read.
[[nodiscard]] Recovered recover(const std::filesystem::path& folder,
                                const journal::Reader& store,
                                const Log& log);

}  // namespace tranche::server
