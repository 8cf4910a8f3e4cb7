// SPDX-License-Identifier: Apache-2.0
#pragma once
// What somebody could change about a waiting job so that it might start sooner: a smaller shape, another
// class, leave to be preempted, another time. Whether it does is for a run ahead to say.
#include <string>
#include <vector>

#include "engine/state.hpp"

namespace tranche::server {

struct Change {
  std::string how{};  // As one would type it.
  wire::Ask ask{};
};

[[nodiscard]] std::vector<Change> changes_for(const engine::Job&);

// The job as if it had been submitted with the other ask; false when admission would not let it through.
[[nodiscard]] bool change_ask(engine::State&, JobId, const wire::Ask&);

}  // namespace tranche::server
