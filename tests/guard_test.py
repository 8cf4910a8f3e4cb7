#!/usr/bin/env python3
"""The guard from outside, on the simulated device: what programs see, what is refused, and who tries to get away."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

root = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", root / "build/dev"))
standin = build / "standin"
scratch = tempfile.TemporaryDirectory(prefix="tranche-guard-")
folder = pathlib.Path(scratch.name)
passed = failed = 0
MIB = 1 << 20


def check(claim: str, holds, detail="") -> None:
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {claim} {detail}", flush=True)


def environment(device: str, **more) -> dict:
    return {**os.environ, "TRANCHE_STANDIN": str(folder / device), "LD_LIBRARY_PATH": str(standin),
            "TRANCHE_GUARD_LIBRARY": str(build / "libtranche-guard.so"), **more}


def guard_command(options, command, broker="broker.sock"):
    return [build / "tranche", "guard", "run", "--socket", folder / broker, *options, "--", *command]


def run(device, options, command, timeout=120, **more):
    return subprocess.run(guard_command(options, command), env=environment(device, **more), text=True, timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def probe(source: str, *libraries) -> pathlib.Path:
    """A small C program against the stand-in's header, linked to the driver like any CUDA program."""
    name = folder / f"probe{abs(hash(source))}"
    text = '#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n' \
           '#include <string.h>\n#include "standin_cuda.h"\n#include "standin_cuda_calls.h"\n' \
           '#define DEVICE CUcontext c; CUdevice d; cuInit(0); cuDeviceGet(&d,0); cuCtxCreate_v2(&c,0,d);\n' + source
    name.with_suffix(".c").write_text(text)
    subprocess.run(["cc", "-O1", f"-I{root / 'tests/standin'}", name.with_suffix(".c"), "-o", name, f"-L{standin}",
                    "-lcuda", "-ldl", "-lpthread", *libraries], check=True)
    return name


# --- what a program sees -------------------------------------------------------------------------------------
views = probe(r"""
int main() { DEVICE size_t f, t, w; cuMemGetInfo_v2(&f, &t); cuDeviceTotalMem_v2(&w, d);
  CUresult null = cuMemGetInfo_v2(NULL, NULL);
  CUdeviceptr p; CUresult a = cuMemAlloc_v2(&p, f), b, over = cuMemAlloc_v2(&p, 1);
  b = cuMemFree_v2(p); printf("%zu %zu %zu %d %d %d %d\n", f, t, w, null, a, over, b); return 0; }""")
seen = run("views", ["--vram", "1GiB"], [views])
free, total, whole, null, exact, over, freed = map(int, seen.stdout.split())
check("view: total is the slice", total == whole == 1 << 30, seen.stdout)
check("view: the context is charged", free == (1 << 30) - 64 * MIB, free)
check("view: null pointers are taken", null == 0)
check("vram: all that is free can be had, and not one byte more", exact == 0 and over == 2, seen.stdout)
check("vram: the refusal names limit, use and request",
      "limit 1073741824 bytes, in use 1073741824, asked for 1" in seen.stderr, seen.stderr)

# --- every allocation path, many processes --------------------------------------------------------------------
limit = 2 << 30
jobs = " & ".join(f"{standin}/churn --seconds 2 --seed {i} --max-mib 24 --live 6" for i in range(1, 9))
churn = run("churn", ["--vram", "2GiB", "--name", "churn"], ["sh", "-c", f"{jobs} & wait"])
stats = json.loads(subprocess.run([standin / "standin_stats", "1"], env=environment("churn"), text=True,
                                  stdout=subprocess.PIPE).stdout)
peak = int(churn.stderr.rsplit("peak VRAM ", 1)[1].split()[0])
check("vram: eight processes through every path stay inside the limit", 0 < peak <= limit, peak)
check("vram: the device is empty at the end", stats["free"] == 16 << 30, stats["free"])

# --- lookups --------------------------------------------------------------------------------------------------
lookups = probe(r"""
typedef CUresult (*A)(CUdeviceptr*, size_t); typedef CUresult (*G)(const char*, void**, int, cuuint64_t, void*);
int main() { DEVICE CUdeviceptr p; size_t big = 8ULL << 30; void* f = NULL; char path[512] = "";
  void* h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND); snprintf(path, 512, "%s/libcuda.so.1", getenv("LD_LIBRARY_PATH"));
  printf("plt=%d ", cuMemAlloc_v2(&p, big));
  printf("dlsym=%d ", ((A)dlsym(h, "cuMemAlloc_v2"))(&p, big));
  printf("default=%d ", ((A)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"))(&p, big));
  printf("path=%d ", ((A)dlsym(dlopen(path, RTLD_NOW), "cuMemAlloc_v2"))(&p, big));
  printf("dlmopen=%d ", ((A)dlsym(dlmopen(LM_ID_NEWLM, path, RTLD_NOW), "cuMemAlloc_v2"))(&p, big));
  cuGetProcAddress_v2("cuMemAlloc", &f, 12000, 0, NULL); printf("proc=%d ", ((A)f)(&p, big));
  void* g = NULL; cuGetProcAddress_v2("cuGetProcAddress", &g, 12000, 0, NULL);
  ((G)g)("cuMemAlloc", &f, 13000, 0, NULL); printf("itself=%d ", ((A)f)(&p, big));
  void* unknown = dlsym(h, "cuNoSuchThing"); printf("unknown=%d\n", unknown != NULL); return 0; }""")
found = dict(pair.split("=") for pair in run("lookups", ["--vram", "1GiB"], [lookups]).stdout.split())
for way in ["plt", "dlsym", "default", "path", "dlmopen", "proc", "itself"]:
    check(f"lookup: {way} meets the limit", found.get(way) == "2", found)
check("lookup: a symbol the driver lacks stays unknown", found.get("unknown") == "0", found)
old = run("old", ["--vram", "1GiB"], [standin / "tenant", "--seconds", "0.5", "--kernel", "1ms"],
          LD_LIBRARY_PATH=f"{standin}/old:{standin}")
check("old driver: a driver without the newer symbols works", old.returncode == 0, old.stderr)

# --- compute and time -----------------------------------------------------------------------------------------
ended = run("time", ["--vram", "1GiB", "--time", "2s", "--grace", "1s"],
            [standin / "tenant", "--seconds", "60", "--kernel", "1ms"])
check("time: a job that ignores nothing ends at the checkpoint signal or the limit",
      ended.returncode in (124, 128 + signal.SIGTERM), ended.returncode)
check("time: it is warned first", "asking the job to checkpoint" in ended.stderr, ended.stderr)
graph = run("capture", ["--vram", "1GiB", "--compute", "50%"],
            [standin / "tenant", "--seconds", "1", "--path", "graph", "--nodes", "4"])
check("capture: graphs are captured and launched under a cap", graph.returncode == 0, graph.stderr)

# --- contents -------------------------------------------------------------------------------------------------
other = subprocess.Popen(guard_command(["--vram", "1GiB", "--name", "neighbour"],
                                       [standin / "tenant", "--seconds", "6", "--kernel", "1ms"]),
                         env=environment("secrets"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(2)
run("secrets", ["--vram", "4GiB", "--name", "writer"], [standin / "canary", "--mode", "write", "--mib", "64"])
scan = run("secrets", ["--vram", "15GiB", "--name", "reader"], [standin / "canary", "--mode", "scan", "--mib", "64"])
other.wait(60)
nonzero = [value for key, value in json.loads(scan.stdout or "{}").items() if "zero" in key or "found" in key]
check("contents: what a tenant wrote is not there for the next", scan.returncode == 0 and nonzero and not any(nonzero),
      scan.stdout + scan.stderr)

# --- hostile jobs ---------------------------------------------------------------------------------------------
forged = run("forged", ["--vram", "1GiB"], ["env", "TRANCHE_GUARD_SOCKET=/nonexistent", views])
check("hostile: a socket that leads nowhere gives no device", forged.stdout.split()[:1] in ([], ["0"]), forged.stdout)
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

# --- deaths ---------------------------------------------------------------------------------------------------
holder = probe(r"""int main() { DEVICE CUdeviceptr p; if (cuMemAlloc_v2(&p, 700 << 20)) return 9; puts("held"); fflush(stdout);
  for (;;) pause(); }""")
script = f"""
for i in 1 2 3 4 5 6 7 8; do
  {holder} > {folder}/held.$i & child=$!
  until grep -q held {folder}/held.$i || ! kill -0 $child; do sleep 0.02; done
  grep -q held {folder}/held.$i || {{ echo refused $i; exit 1; }}
  kill -9 $child; wait $child 2>/dev/null
done; echo all"""
deaths = run("deaths", ["--vram", "1GiB"], ["bash", "-c", script])
check("deaths: what a killed process held is free for the next", deaths.stdout.strip().endswith("all"), deaths.stdout)

# --- a broker that dies -----------------------------------------------------------------------------------------
broker = subprocess.Popen([build / "tranche", "broker", "--socket", folder / "mortal.sock"])
while not (folder / "mortal.sock").exists():
    time.sleep(0.01)
job = subprocess.Popen(guard_command(["--vram", "1GiB", "--compute", "30%", "--mode", "fair"],
                                     [standin / "tenant", "--seconds", "6", "--lead-seconds", "3"], "mortal.sock"),
                       env=environment("mortal"), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
time.sleep(1.5)
broker.kill()
broker.wait()
out, _ = job.communicate(timeout=60)
figures = json.loads(out.splitlines()[0]) if out.strip() else {"kernels": -1}
share = figures["kernels"] * 2 / 6000
check("broker: its death leaves the share as a ceiling", 0 < share < 0.36, figures)  # A busy host may give less.

print(f"{passed} passed, {failed} failed, 0 skipped")
raise SystemExit(bool(failed))
