// SPDX-License-Identifier: Apache-2.0
#pragma once
// What does a graph find in the memory that its allocation nodes give it? On a dirty device zeros: behind
// each of them stands a memset node of ours, for which whatever used the memory first now waits. It is
// switched off while the device is clean.
#include <cstdint>

#include "guard/cuda/driver_types.hpp"

namespace tranche::guard::cuda {

enum Cleaning : std::uint32_t {
  kCleaningOff,
  kCleaningOn,
  kCleaningStays,    // On, and this driver cannot switch it.
  kCleaningLacking,  // Memory that cannot be zeroed: not to be launched on a dirty device.
};

// Before `graph` is instantiated, again when it was instantiated before.
Cleaning add_cleaners(void* graph);
// After it was: nodes are named by the graph they come from, so that lives as long as the executable does.
void keep_source(void* exec, void* graph);
// `graph`, which has its cleaners, took the place of what the executable was made from.
void follow_update(void* exec, void* graph);
// Before a launch. False: the device is dirty, and memory of this graph cannot be zeroed.
bool contents_ready(void* exec);
void forget_exec(void* exec);
// False: an executable needs the graph; it goes when that does.
bool may_destroy(void* graph);
// Nodes that programs did not make are not theirs to change.
bool is_cleaner(const void* node);

}  // namespace tranche::guard::cuda
