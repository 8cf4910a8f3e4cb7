/* SPDX-License-Identifier: Apache-2.0
 * Preloaded into a server under test: its wall clock goes right, and stands SHIFT_SECONDS off. What a month
 * later looks like cannot be tested by waiting for it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* at) {
  const long failed = syscall(SYS_clock_gettime, clock, at);
  const char* shift = getenv("SHIFT_SECONDS");
  if (failed == 0 && clock == CLOCK_REALTIME && shift != NULL) at->tv_sec += atol(shift);
  return (int)failed;
}
