#!/usr/bin/env python3
"""Jobs that try to get away from the guard, or to hurt their neighbours, on the simulated device. docs/isolation.md
lists every way; here are those that the guard itself closes."""
import random
import re

from guard_fixture import (check, device_stats, eventually, finish, folder, probe, run, standin, start, top)

# --- hostile jobs ---------------------------------------------------------------------------------------------
nowhere = probe(r"""int main() { CUcontext c; CUdevice d; CUdeviceptr p; int i = cuInit(0), g = cuDeviceGet(&d, 0);
  printf("%d %d %d\n", i != 0, g != 0 || cuCtxCreate_v2(&c, 0, d) != 0, cuMemAlloc_v2(&p, 1) != 0); return 0; }""")
forged = run("forged", ["--vram", "1GiB"], ["env", "TRANCHE_GUARD_SOCKET=/nonexistent", nowhere])
check("hostile: a socket that leads nowhere gives no device", forged.stdout.split() == ["1", "1", "1"], forged.stdout)
scribble = probe(r"""
#include <fcntl.h>
#include <sys/mman.h>
int main() { DEVICE char line[512]; int wrote = 0; FILE* m = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, m)) { unsigned long a, b; char perm[8];
    if (!strstr(line, "tranche-control") || sscanf(line, "%lx-%lx %7s", &a, &b, perm) != 3) continue;
    if (mprotect((void*)a, b - a, PROT_READ | PROT_WRITE) == 0) wrote |= 1;
    char link[64]; snprintf(link, 64, "/proc/self/map_files/%lx-%lx", a, b); int f = open(link, O_RDWR);
    if (f >= 0 && mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0) != MAP_FAILED) wrote |= 2;
    if (f >= 0 && pwrite(f, "x", 1, 64) == 1) wrote |= 4; }
  printf("%d\n", wrote); return 0; }""")
check("hostile: limits cannot be written, remapped or reopened",
      run("scribble", ["--vram", "1GiB"], [scribble]).stdout.strip() == "0")
fork = probe(r"""
#include <sys/wait.h>
int main() { DEVICE CUdeviceptr p; cuMemAlloc_v2(&p, 600 << 20);
  pid_t child = fork(); if (child == 0) { CUdeviceptr q; _exit(cuMemAlloc_v2(&q, 600 << 20) == 2 ? 0 : 1); }
  int s; waitpid(child, &s, 0); printf("%d\n", WEXITSTATUS(s)); return 0; }""")
check("hostile: a fork without exec is held to the same limit",
      run("fork", ["--vram", "1GiB"], [fork]).stdout.strip() == "0")

# --- a neighbour that must notice nothing ------------------------------------------------------------------------
neighbour = probe(r"""
int main() { DEVICE CUmodule m; CUfunction f; CUdeviceptr p; char line[8]; int wrong = 0; cuModuleLoadData(&m, "any");
  if (cuModuleGetFunction(&f, m, "busy_100us")) return 1;
  puts("ready"); fflush(stdout);
  while (fgets(line, sizeof line, stdin)) { for (int i = 0; i < 20; ++i) { size_t n = (1 << 20) * (i + 1), fr, t;
      wrong += cuMemAlloc_v2(&p, n) != 0; wrong += cuMemGetInfo_v2(&fr, &t) != 0 || t != 1ull << 30;
      wrong += cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0 || cuCtxSynchronize() != 0;
      wrong += cuMemFree_v2(p) != 0; } printf("%d\n", wrong); fflush(stdout); } return 0; }""")
beside = start("hurt", ["--vram", "1GiB", "--compute", "50%", "--mode", "fair", "--name", "beside"], [neighbour])
beside.stdout.readline()


def unharmed(claim) -> None:
    beside.stdin.write("go\n")
    beside.stdin.flush()
    told = beside.stdout.readline().strip()
    check(f"{claim}: the neighbour works on, its limits untouched", told == "0", told)
    row = top("hurt", "beside")
    check(f"{claim}: the broker answers", row[4:5] == ["1GiB"], row)


unharmed("hostile: nothing yet")
vandal = probe(r"""
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
int main() { DEVICE char line[512], junk[8192]; memset(junk, 0xff, sizeof junk); int spoiled = 0;
  FILE* m = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, m)) { unsigned long a, b; char perm[8];
    if (sscanf(line, "%lx-%lx %7s", &a, &b, perm) != 3 || !strstr(line, "memfd:tranche-")) continue;
    if (perm[1] == 'w') { memset((void*)(a + 16), 0xff, b - a - 16); ++spoiled; } else mprotect((void*)a, b - a, 3); }
  for (int fd = 3; fd < 256; ++fd) { char link[64], to[128] = ""; snprintf(link, 64, "/proc/self/fd/%d", fd);
    if (readlink(link, to, 127) < 0 || (!strstr(to, "memfd:tranche") && !strstr(to, "eventfd") && !strstr(to, "socket"))) continue;
    if (strstr(to, "memfd:tranche") && ftruncate(fd, 0) == 0) spoiled += 100;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 64; ++i) if (write(fd, junk, 8) < 0) break;
    for (int i = 0; i < 64; ++i) if (send(fd, junk, i * 128, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break; }
  CUdeviceptr p; cuMemAlloc_v2(&p, 1 << 20); cuMemFree_v2(p);
  printf("%d\n", spoiled); fflush(stdout); return 0; }""")
spoiled = run("hurt", ["--vram", "1GiB", "--compute", "50%", "--mode", "fair"], [vandal])
check("hostile: only its own ledger can be written", spoiled.stdout.strip() == "1", spoiled)
unharmed("hostile: every mapping and descriptor written")
ringer = probe(r"""
#include <pthread.h>
#include <stdint.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
static int bell = -1; static unsigned* words; static volatile int on = 1;
static void* ring(void* x) { uint64_t one = 1; while (on) { if (write(bell, &one, 8) < 0) usleep(1);
    if (words) syscall(SYS_futex, words, FUTEX_WAKE, 1000, 0, 0, 0); } return x; }
int main() { DEVICE char link[64], to[64], line[512]; FILE* m = fopen("/proc/self/maps", "r"); unsigned long a, b;
  for (int fd = 3; fd < 64; ++fd) { snprintf(link, 64, "/proc/self/fd/%d", fd); ssize_t n = readlink(link, to, 63);
    if (n > 0 && (to[n] = 0, strstr(to, "eventfd"))) bell = fd; }
  while (fgets(line, sizeof line, m)) if (strstr(line, "tranche-control") && sscanf(line, "%lx-%lx", &a, &b) == 2) words = (void*)a;
  pthread_t t[8]; for (int i = 0; i < 8; ++i) pthread_create(&t[i], 0, ring, 0);
  puts(bell >= 0 && words ? "ringing" : "no bell"); fflush(stdout); getchar(); on = 0; return 0; }""")
ringing = start("hurt", ["--vram", "1GiB", "--compute", "50%", "--mode", "fair"], [ringer])
check("hostile: the bell is found and rung by eight threads", ringing.stdout.readline().strip() == "ringing")
unharmed("hostile: bell and futex words without end")
ringing.communicate("\n", timeout=60)
beside.communicate(timeout=60)

# --- thousands of threads ------------------------------------------------------------------------------------------
threads = probe(r"""
#include <pthread.h>
static CUcontext ctx; static CUfunction f;
static void* work(void* x) { cuCtxSetCurrent(ctx);
  for (int i = 0; i < 4; ++i) if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, NULL)) return x; return NULL; }
int main() { DEVICE CUmodule m; ctx = c; cuModuleLoadData(&m, "any"); cuModuleGetFunction(&f, m, "busy_50us");
  pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 65536); static pthread_t t[2000]; int made = 0, wrong = 0;
  while (made < 2000 && pthread_create(&t[made], &a, work, &made) == 0) ++made;
  for (int i = 0; i < made; ++i) { void* r; pthread_join(t[i], &r); wrong += r != NULL; }
  cuCtxSynchronize(); printf("%d %d\n", made, wrong); fflush(stdout); return 0; }""")
many = run("threads", ["--vram", "1GiB", "--compute", "60%"], [threads])
made, wrong = map(int, many.stdout.split())
charged = float(re.search(r"device time ([0-9.]+) s", many.stderr).group(1))
check("hostile: thousands of threads launch", made == 2000 and wrong == 0, many)
check("hostile: thousands of threads are charged for all they run", charged >= 0.95 * made * 4 * 50e-6, charged)

# --- SIGKILL in the middle of anything ------------------------------------------------------------------------------
random.seed(4)
paths = "plain pitch managed async pool vmm array array3d mipmap graph module".split()
tenant = start("kills", ["--vram", "2GiB", "--name", "kills"], ["bash", "-c", f"""
while read -r path length; do
  {standin}/churn --announce 1 --seconds 60 --max-mib 16 --live 4 --paths $path --seed $RANDOM > {folder}/ready & child=$!
  until grep -q ready {folder}/ready || ! kill -0 $child; do sleep 0.01; done
  sleep $length; kill -9 $child; wait $child 2> /dev/null; echo done; : > {folder}/ready
done"""])
for path in paths * 4:
    tenant.stdin.write(f"{path} {random.uniform(0.001, 0.05):.3f}\n")
    tenant.stdin.flush()
    tenant.stdout.readline()
check("hostile: after 44 kills in the middle of allocating, the account is exact",
      eventually(lambda: top("kills", "kills")[2:3] == ["0B"]), top("kills", "kills"))
check("hostile: and so is the device", eventually(lambda: device_stats("kills")["free"] == 16 << 30))
peak = top("kills", "kills")[3]
tenant.communicate(timeout=60)
check("hostile: the killed had memory", peak != "0B", peak)

finish()
