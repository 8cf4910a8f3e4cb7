// SPDX-License-Identifier: Apache-2.0
#pragma once
// When did work of this process really end on the device? Learned from events, without waiting for any.
#include "guard/cuda/objects.hpp"

namespace tranche::guard::cuda {

struct Measure {
  std::uint32_t place = UINT32_MAX;  // In the ring; UINT32_MAX: not measured.
};

// Before and after a launch that `ticket` chose for a measure. `stream` is explicit (never the twin's null).
// Moves the ticket's time of submission to the last moment before the launch.
Measure begin_measure(LaunchTicket& ticket, Stream stream);
void end_measure(const Measure& measure, const LaunchTicket& ticket, Stream stream, Result outcome);
// Before a launch may have to wait: the end of those of the same kernel just before it.
void end_batch(std::uint32_t device, std::uint64_t key, Stream stream);
// Collects what is ready; asks about one that is not at most.
void poll_measures();

}  // namespace tranche::guard::cuda
