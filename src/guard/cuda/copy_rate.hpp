// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast are copies between host and device here? Now and then a large one is taken between two events;
// nothing is waited for, the answer is read when a later copy passes.
#include "guard/cuda/real_driver.hpp"

namespace tranche::guard::cuda {

// True: the copy that follows is the sample, and end_copy_sample must be called after it.
bool begin_copy_sample(std::uint64_t bytes, Stream stream);
void end_copy_sample(Stream stream, Result outcome);

}  // namespace tranche::guard::cuda
