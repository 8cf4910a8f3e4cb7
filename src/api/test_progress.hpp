// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far the test of a device is, as its node said last.
#include <string>

#include "engine/state.hpp"
#include "server/agent_hub.hpp"

namespace tranche::api {

// Nothing: none was ordered, or its node has said nothing of it.
[[nodiscard]] const wire::TestProgress* progress_of(const engine::Device& device,
                                                    const server::LinkFacts& facts);
// "62 %: memory.random"; empty where nothing is known.
[[nodiscard]] std::string progress_words(const engine::Device& device, const server::LinkFacts& facts);

}  // namespace tranche::api
