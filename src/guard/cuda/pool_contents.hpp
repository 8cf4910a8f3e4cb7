// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is in stream-ordered memory of a device that holds what others left.
#include "guard/cuda/objects.hpp"

namespace tranche::guard::cuda {

// Memory of the pool, zeroed before anybody learns its address, and valid on every stream.
Result take_zeroed(Pointer* out, std::size_t bytes, void* pool);
// The program's own wish about streams that wait for one another is put off while the guard takes memory.
Result set_pool_attribute(void* pool, int attribute, void* value);

}  // namespace tranche::guard::cuda
