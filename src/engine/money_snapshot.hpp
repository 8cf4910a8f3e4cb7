// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a snapshot that is about money and the market, apart because its tables are flat.
#include <string>

#include "engine/state.hpp"
#include "wire/record.hpp"

namespace tranche::engine {

void encode_money(std::string& out, const State&);
// Reads it back and rebuilds what is derived.
[[nodiscard]] bool decode_money(wire::detail::RecordReader&, State&);

}  // namespace tranche::engine
