// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a job waits, for whoever may see it. Names of jobs ahead are shown as far as the reader may see those.
#include "engine/access.hpp"
#include "engine/state.hpp"
#include "wire/why.hpp"

namespace tranche::engine {

[[nodiscard]] wire::Why explain(const State&, const Actor&, const Job&);

// The reason in a few words, cheap enough for every row of a list.
[[nodiscard]] std::string wait_summary(const State&, const Job&);
[[nodiscard]] std::string held_summary(const Job&);   // Of a job that is held, and what to do.
[[nodiscard]] std::string pause_summary(const Job&);  // Of one that is paused by request, or is to be.

}  // namespace tranche::engine
