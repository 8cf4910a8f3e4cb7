/* SPDX-License-Identifier: Apache-2.0
 * Preloaded into a program under test: its wall clock goes right, and stands off by SHIFT_SECONDS, or by what
 * the file SHIFT_FILE says at that moment. What a month later looks like cannot be tested by waiting for it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long seconds_off(void) {
  const char* fixed = getenv("SHIFT_SECONDS");
  const char* path = getenv("SHIFT_FILE");
  char text[32] = {0};
  if (path == NULL) return fixed == NULL ? 0 : atol(fixed);
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const long size = syscall(SYS_read, file, text, sizeof text - 1);
  syscall(SYS_close, file);
  return size > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec* at) {
  const long failed = syscall(SYS_clock_gettime, clock, at);
  if (failed == 0 && clock == CLOCK_REALTIME) at->tv_sec += seconds_off();
  return (int)failed;
}
