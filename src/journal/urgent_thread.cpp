// SPDX-License-Identifier: Apache-2.0
#include "journal/urgent_thread.hpp"

#include <sched.h>

namespace tranche::journal {

bool make_this_thread_urgent() noexcept {
  sched_param priority{};
  priority.sched_priority = sched_get_priority_min(SCHED_RR);
  // Children, such as the one that writes a snapshot, start at the ordinary priority.
  return sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority) == 0;
}

void make_this_thread_ordinary() noexcept {
  const sched_param priority{};
  sched_setscheduler(0, SCHED_OTHER, &priority);
}

}  // namespace tranche::journal
