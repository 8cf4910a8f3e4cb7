// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole state as bytes and back. Equal states give equal bytes, so their hash is the hash of the state.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// Raised when the encoding changes in a way that old bytes cannot be read; such snapshots are passed over.
constexpr std::uint32_t kStateFormat = 3;

[[nodiscard]] std::string encode_state(const State&);
[[nodiscard]] Result<State, std::string> decode_state(std::string_view bytes);

}  // namespace tranche::engine
