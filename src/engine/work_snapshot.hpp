// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a snapshot that is about workloads.
#include <string>

#include "engine/state.hpp"
#include "wire/record.hpp"

namespace tranche::engine {

void encode_workloads(std::string& out, const State&);
[[nodiscard]] bool decode_workloads(wire::detail::RecordReader&, State&);

}  // namespace tranche::engine
