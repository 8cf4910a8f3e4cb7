// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lets the thread that appends be woken at once when its sync is done.
namespace tranche::journal {

// On a busy machine a thread whose sync has ended waits for the next timer tick before it gets a core: up to
// 4 ms for a sync of 0.1 ms. The lowest real-time priority ends that wait. Only for a thread that mostly
// waits; false when the system does not permit it (it takes root, CAP_SYS_NICE or an rtprio limit), and
// nothing has changed.
[[nodiscard]] bool make_this_thread_urgent() noexcept;
void make_this_thread_ordinary() noexcept;

}  // namespace tranche::journal
