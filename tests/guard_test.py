#!/usr/bin/env python3
"""The guard from outside, on the simulated device: what programs see, what is refused, and who tries to get away."""
import json
import os
import pty
import re
import select
import signal
import subprocess

from guard_fixture import (MIB, build, check, device_stats, driver_calls, environment, eventually, finish, folder, guard,
                           guard_command, probe, run, standin, start, top)

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

nvml = probe(r"""
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Info;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; unsigned long long hidden; } Detail;
typedef struct { unsigned pid; unsigned long long at; unsigned busy[4]; } Sample;
typedef struct { unsigned long long at; unsigned pid, busy[6]; } Sample2;
typedef struct { unsigned version, mode, count; Detail* entries; } DetailList;
typedef struct { unsigned version, count; unsigned long long since; Sample2* entries; } SampleList;
static void* nvml; static void* gpu;
#define ASK(name) ((int (*)())dlsym(nvml, "nvmlDeviceGet" name))
#define EACH(what, n, value) printf("%s", what); for (unsigned i = 0; i < (n); ++i) printf(" %llu", (unsigned long long)(value)); puts("");
int main(int words, char** word) { unsigned long long memory[3], memory2[5] = {0x2000028}; Info list[64]; Sample samples[64];
  Detail details[64]; Sample2 newer[64]; unsigned pids[64], n;
  nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW); if (((int (*)())dlsym(nvml, "nvmlInit_v2"))()) return 1;
  if (((int (*)(unsigned, void**))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &gpu)) return 2;
  if (words > 1) { DEVICE CUdeviceptr p; if (cuMemAlloc_v2(&p, 100 << 20)) return 3; }
  printf("me %d\n", getpid()); if (ASK("MemoryInfo")(gpu, memory) || ASK("MemoryInfo_v2")(gpu, memory2)) return 4;
  EACH("memory", 3, memory[i]) printf("memory2 %llu %llu %llu\n", memory2[1], memory2[3], memory2[4]);
  n = 64; if (ASK("ComputeRunningProcesses_v3")(gpu, &n, list)) return 5; EACH("compute", n, list[i].pid)
  n = 64; if (ASK("AccountingPids")(gpu, &n, pids)) return 6; EACH("accounting", n, pids[i])
  DetailList d = {sizeof d | 1 << 24, 0, 64, details}; if (ASK("RunningProcessDetailList")(gpu, &d)) return 7;
  EACH("details", d.count, details[i].pid)
  n = 64; int told = ((int (*)(void*, void*, unsigned*, unsigned long long))ASK("ProcessUtilization"))(gpu, samples, &n, 0);
  EACH("samples", told ? 0 : n, samples[i].pid)
  SampleList u = {sizeof u | 1 << 24, 64, 0, newer}; told = ASK("ProcessesUtilizationInfo")(gpu, &u);
  EACH("newer", told ? 0 : u.count, newer[i].pid)
  d.version = 7; u.version = 7; n = 0; printf("bad %d %d %d\n", ASK("RunningProcessDetailList")(gpu, &d),
    ASK("ProcessesUtilizationInfo")(gpu, &u), ASK("ComputeRunningProcesses_v3")(gpu, &n, NULL)); return 0; }""")
holder = probe(r"""
int main() { DEVICE CUdeviceptr p; if (cuMemAlloc_v2(&p, 300 << 20)) return 1;
  printf("%d\n", getpid()); fflush(stdout); getchar(); return 0; }""")
LISTS = ["compute", "accounting", "details", "samples", "newer"]
neighbour = start("nvml", ["--vram", "1GiB", "--name", "holder"], [holder])
pid = neighbour.stdout.readline().strip()


def nvml_told(result):
    return {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}


bare = nvml_told(subprocess.run([nvml], env=environment("nvml"), text=True, stdout=subprocess.PIPE))
check("nvml: the neighbour is on the device, for whoever is not guarded", all(pid in bare.get(what, []) for what in LISTS), bare)
told = run("nvml", ["--vram", "1GiB", "--name", "looker"], [nvml, "on-the-device"])
seen = nvml_told(told)
slice_of = [str(1 << 30), str((1 << 30) - 164 * MIB), str(164 * MIB)]
check("nvml: memory is the slice's, and use the tenant's own", seen.get("memory") == seen.get("memory2") == slice_of, told)
check("nvml: every list of processes has the tenant's own, and nobody else",
      "me" in seen and all(seen.get(what) == seen["me"] for what in LISTS), seen)
check("nvml: lists of unknown versions are refused, and who gives no room is told", seen.get("bad") == ["25", "25", "7"], seen)
told = run("nvml", ["--vram", "1GiB", "--name", "idle-looker"], [nvml])
seen = nvml_told(told)
check("nvml: one that only looks sees an empty slice",
      seen.get("memory") == [str(1 << 30), str(1 << 30), "0"] and not any(seen.get(what, [1]) for what in LISTS), told)
neighbour.communicate("\n", timeout=60)

# --- every allocation path, many processes --------------------------------------------------------------------
limit = 2 << 30
jobs = " & ".join(f"{standin}/churn --seconds 2 --seed {i} --max-mib 24 --live 6" for i in range(1, 9))
churn = run("churn", ["--vram", "2GiB", "--name", "churn"], ["sh", "-c", f"{jobs} & wait"])
stats = device_stats("churn")
peak = int(churn.stderr.rsplit("peak VRAM ", 1)[1].split()[0])
check("vram: eight processes through every path stay inside the limit", 0 < peak <= limit, peak)
check("vram: the device never held a byte more than the limit", 0 < stats["asked_most"] <= limit, stats["asked_most"])
check("vram: the device is empty at the end", stats["free"] == 16 << 30, stats["free"])

# --- memory whose size only the driver knows ------------------------------------------------------------------
images = probe(r"""
int main() { DEVICE CUmodule m, again, other; CUdeviceptr p; size_t f, t;
  if (cuModuleLoadData(&m, "standin size 300MiB") || cuModuleUnload(m)) return 1;
  cuMemGetInfo_v2(&f, &t); if (cuMemAlloc_v2(&p, f - (200 << 20))) return 2;
  int known = cuModuleLoadData(&again, "standin size 300MiB"), unknown = cuModuleLoadData(&other, "standin size 299MiB");
  cuMemFree_v2(p); int fits = cuModuleLoadData(&again, "standin size 300MiB");
  size_t left; cuMemGetInfo_v2(&left, &t); printf("%d %d %d %zu\n", known, unknown, fits, f - left); return 0; }""")
loaded = run("images", ["--vram", "1GiB"], [images]).stdout.split()
check("modules: what an image took is reserved before it is loaded again, an unknown one needs the most so far",
      loaded[:3] == ["2", "2", "0"] and int(loaded[3]) == 300 * MIB, loaded)
check("modules: those that did not fit were never on the device",
      0 < device_stats("images")["asked_most"] <= 1 << 30, device_stats("images")["asked_most"])
formats = probe(r"""
#include <elf.h>
static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
  ".extern .global .align 4 .b8 other[1073741824];\n.visible .global .align 4 .b8 table[1024][409600];\n"
  ".visible .entry one(.param .u64 .ptr .global .align 8 one_0) { ret; }\n";
static char elf[sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Shdr)], fat[4096];
static void fat_of(int kind, const void* payload, size_t bytes) { memset(fat, 0, sizeof fat);
  *(unsigned*)fat = 0xba55ed50; *(unsigned short*)(fat + 4) = 1; *(unsigned short*)(fat + 6) = 16;
  *(size_t*)(fat + 8) = 64 + bytes; *(unsigned short*)(fat + 16) = kind; *(unsigned*)(fat + 20) = 64;
  *(size_t*)(fat + 24) = bytes; memcpy(fat + 80, payload, bytes); }
static int load(const void* image) { CUmodule m; int r = cuModuleLoadData(&m, image);
  return r ? r : 100 + cuModuleUnload(m); }
int main(int count, char** words) { DEVICE CUmodule m; Elf64_Ehdr* e = (Elf64_Ehdr*)elf;
  Elf64_Shdr* s = (Elf64_Shdr*)(e + 1); memcpy(elf, ELFMAG, SELFMAG); e->e_ident[EI_CLASS] = ELFCLASS64;
  e->e_ident[EI_DATA] = ELFDATA2LSB; e->e_shoff = sizeof *e; e->e_shentsize = sizeof *s; e->e_shnum = 2;
  s[1].sh_type = SHT_NOBITS; s[1].sh_flags = SHF_ALLOC | SHF_WRITE; s[1].sh_size = 400 << 20;
  printf("%d %d ", load(ptx), load(elf)); fat_of(1, ptx, sizeof ptx); printf("%d ", load(fat));
  fat_of(2, elf, sizeof elf); printf("%d ", load(fat));
  struct { unsigned magic, version; void* data; } wrapped = {0x466243b1, 1, fat};
  printf("%d ", load(&wrapped)); FILE* f = fopen(words[1], "w"); fwrite(fat, 80 + sizeof elf, 1, f); fclose(f);
  printf("%d ", cuModuleLoad(&m, words[1])); printf("%d\n", load(".version 8.0\n.target sm_80\n")); return 0; }""")
told = run("formats", ["--vram", "300MiB"], [formats, folder / "image"])
check("modules: an image that says how large it is, and is too large, never comes to the device, also the first one",
      told.stdout.split() == ["2", "2", "2", "2", "2", "2", "100"] and device_stats("formats")["asked_most"] <= 300 * MIB,
      (told.stdout, device_stats("formats")["asked_most"]))
told = run("formats-fit", ["--vram", "480MiB"], [formats, folder / "image"])
check("modules: the same images fit where there is room", told.stdout.split() == ["100"] * 5 + ["0", "100"], told.stdout)
packed = probe(r"""
#include <elf.h>
static char elf[sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Shdr)], fat[4096];
int main(int count, char** words) { DEVICE CUmodule m; Elf64_Ehdr* e = (Elf64_Ehdr*)elf; Elf64_Shdr* s = (Elf64_Shdr*)(e + 1);
  int zstd = !strcmp(words[1], "zstd"); unsigned head = sizeof elf << 3 | 1; memcpy(elf, ELFMAG, SELFMAG);
  e->e_ident[EI_CLASS] = ELFCLASS64; e->e_shoff = sizeof *e; e->e_shentsize = sizeof *s;
  e->e_shnum = 2; s[1].sh_type = SHT_NOBITS; s[1].sh_flags = SHF_ALLOC | SHF_WRITE; s[1].sh_size = 400 << 20;
  unsigned char* block = (unsigned char*)fat + 80;  // Literals only: one sequence of LZ4, or one raw block.
  if (zstd) { memcpy(block, "\x28\xb5\x2f\xfd\x00\x58", 6); memcpy(block + 6, &head, 3); block += 9; }
  else { *block++ = 0xf0; *block++ = sizeof elf - 15; }
  memcpy(block, elf, sizeof elf); *(unsigned*)fat = 0xba55ed50; *(unsigned short*)(fat + 6) = 16;
  size_t packed = block - (unsigned char*)fat - 80 + sizeof elf;
  *(size_t*)(fat + 8) = 64 + packed; *(unsigned short*)(fat + 16) = 2; *(unsigned*)(fat + 20) = 64;
  *(size_t*)(fat + 24) = *(unsigned*)(fat + 32) = packed; *(size_t*)(fat + 56) = zstd ? 0x8011 : 0x2011;
  *(size_t*)(fat + 72) = sizeof elf; printf("%d\n", cuModuleLoadData(&m, fat)); return 0; }""")
for way in ["lz4", "zstd"]:
    told = run(f"packed-{way}", ["--vram", "300MiB"], [packed, way])
    check(f"modules: nor does one that {way} compressed, whose variables its header does not tell",
          told.stdout.split() == ["2"] and driver_calls(f"packed-{way}", "cuModuleLoadData") == 0, told)
    told = run(f"packed-{way}-fits", ["--vram", "480MiB"], [packed, way])
    check(f"modules: one of {way} fits where there is room", told.stdout.split() == ["0"], told)
unsaid = probe(r"""
int main() { DEVICE CUmodule m; const char* images[] = {"standin size 500MiB", "standin size 500MiB", "standin size 20MiB"};
  for (int i = 0; i < 3; ++i) printf("%d ", cuModuleLoadData(&m, images[i]));
  return 0; }""")
told = run("unsaid", ["--vram", "300MiB"], [unsaid])
check("modules: one that says nothing and did not fit is refused before it is loaded again, and no other for its sake",
      told.stdout.split() == ["2", "2", "0"] and driver_calls("unsaid", "cuModuleLoadData") == 2, told.stdout)
at_once = probe(r"""
#include <sys/wait.h>
int main() { int go[2], told[2], end[2], made = 0; char byte; if (pipe(go) || pipe(told) || pipe(end)) return 1;
  for (int i = 0; i < 16; ++i) if (fork() == 0) { CUcontext c; CUdevice d; close(go[1]); close(end[1]);
    cuInit(0); cuDeviceGet(&d, 0); if (write(told[1], "r", 1) != 1 || read(go[0], &byte, 1) != 0) _exit(2);
    const char* made = cuCtxCreate_v2(&c, 0, d) ? "n" : "y";
    _exit(write(told[1], made, 1) != 1 || read(end[0], &byte, 1) != 0); }
  for (int i = 0; i < 16; ++i) if (read(told[0], &byte, 1) != 1) return 2;
  close(go[1]); for (int i = 0; i < 16; ++i) { if (read(told[0], &byte, 1) != 1) return 3; made += byte == 'y'; }
  close(end[1]); while (wait(NULL) > 0) {} printf("%d\n", made); return 0; }""")
told = run("crowd", ["--vram", "600MiB"], [at_once])
check("contexts: sixteen processes make their first ones at once, and no more come to the device than fit",
      told.stdout.split() == ["9"] and device_stats("crowd")["asked_most"] <= 600 * MIB,
      (told.stdout, told.stderr, device_stats("crowd")["asked_most"]))
small_slice = probe(r"""
int main() { CUcontext c; CUdevice d; cuInit(0); cuDeviceGet(&d, 0);
  int first = cuCtxCreate_v2(&c, 0, d); printf("%d %d\n", first, cuCtxCreate_v2(&c, 0, d)); return 0; }""")
told = run("small", ["--vram", "32MiB"], [small_slice])
makers = [process for process in device_stats("small")["processes"] if process["calls"].get("cuCtxCreate_v2")]
check("contexts: under a limit that is smaller than one the driver is never asked: its size was found out before",
      told.stdout.split() == ["2", "2"] and all(each["name"] == "tranche" for each in makers), (told, makers))
check("contexts: and the refusal says so", "limit 33554432 bytes, in use 0, asked for 67108864" in told.stderr, told.stderr)
graphs = probe(r"""
static size_t left() { size_t f, t; cuMemGetInfo_v2(&f, &t); return f; }
int main() { DEVICE CUgraph leaf, outer, copy; CUgraphNode node; CUgraphExec exec, second; CUstream s; CUdeviceptr p;
  CUDA_MEM_ALLOC_NODE_PARAMS a; memset(&a, 0, sizeof a); a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE; a.bytesize = (100 << 20) + 1;
  cuStreamCreate(&s, CU_STREAM_NON_BLOCKING); cuGraphCreate(&leaf, 0); cuGraphCreate(&outer, 0);
  if (cuGraphAddMemAllocNode(&node, leaf, NULL, 0, &a) || cuGraphAddChildGraphNode(&node, outer, NULL, 0, leaf)) return 1;
  if (cuGraphClone(&copy, outer) || cuGraphInstantiateWithFlags(&exec, copy, 0)) return 2;
  size_t before = left(); if (cuGraphUpload(exec, s)) return 3;
  size_t uploaded = before - left(); if (cuGraphLaunch(exec, s)) return 4;
  size_t held = before - left(); if (cuMemFree_v2(a.dptr) || cuGraphLaunch(exec, s) || cuMemFree_v2(a.dptr)) return 5;
  size_t twice = before - left(); if (cuDeviceGraphMemTrim(d)) return 6;
  size_t trimmed = before - left(); if (cuMemAlloc_v2(&p, left() - (101 << 20))) return 7;
  int full = cuGraphLaunch(exec, s); cuMemFree_v2(p); int fits = cuGraphLaunch(exec, s);
  if (cuGraphExecDestroy(exec) || cuMemFree_v2(a.dptr) || cuDeviceGraphMemTrim(d)) return 8;
  printf("%zu %zu %zu %zu %d %d %zu\n", uploaded, held, twice, trimmed, full, fits, before - left()); return 0; }""")
told = run("graphs", ["--vram", "1GiB"], [graphs])
check("graphs: memory of nodes inside children and copies is charged as the driver rounds it, and given back",
      told.stdout.split() == ["0", str(102 * MIB), str(102 * MIB), "0", "2", "0", "0"], (told.stdout, told.returncode))
check("graphs: one that did not fit never was on the device",
      0 < device_stats("graphs")["asked_most"] <= 1 << 30, device_stats("graphs")["asked_most"])

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

streams = probe(r"""
int main(int count, char** words) { DEVICE CUmodule m; CUfunction f; CUstream s[4]; cuModuleLoadData(&m, "any");
  if (cuModuleGetFunction(&f, m, words[1])) return 1;
  for (int i = 0; i < 4; ++i) if (cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING)) return 2;
  for (int i = 0; i < atoi(words[2]); ++i) if (cuLaunchKernel(f, 64, 1, 1, 1, 1, 1, 0, s[i % 4], NULL, NULL)) return 3;
  return cuCtxSynchronize(); }""")
for what, options, kernel, count in [("submitted before they are known", [], "busy_200us", "4000"),
                                     ("that alternate between streams", ["--compute", "100%", "--mode", "cap"],
                                      "busy_50us", "16000")]:  # 800 ms of work each.
    told = run("streams", ["--vram", "1GiB", *options], [streams, kernel, count])
    charged = re.search(r"device time ([0-9.]+) s", told.stderr)
    check(f"charge: kernels {what} are charged what they take", charged and 0.75 < float(charged[1]) < 1.1, told.stderr)

# --- contents -------------------------------------------------------------------------------------------------
other = subprocess.Popen(guard_command(["--vram", "1GiB", "--name", "neighbour"],
                                       [standin / "tenant", "--seconds", "60", "--kernel", "1ms"]),
                         env=environment("secrets"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
eventually(lambda: top("secrets", "neighbour")[8:9] not in ([], ["0"]))  # It launches.
run("secrets", ["--vram", "4GiB", "--name", "writer"], [standin / "canary", "--mode", "write", "--mib", "32"])
arrays = probe(r"""
int main() { DEVICE const size_t side = 1024, deep = 4; char* bytes = malloc(side * 4 * side * deep); CUarray a;
  memset(bytes, 0xa5, side * 4 * side * deep);
  CUDA_ARRAY3D_DESCRIPTOR shape = {side, side, deep, CU_AD_FORMAT_FLOAT, 1, 0};
  CUDA_MEMCPY3D copy; memset(&copy, 0, sizeof copy);
  copy.srcMemoryType = CU_MEMORYTYPE_HOST; copy.srcHost = bytes; copy.srcPitch = side * 4; copy.srcHeight = side;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY; copy.WidthInBytes = side * 4; copy.Height = side; copy.Depth = deep;
  if (cuArray3DCreate_v2(&a, &shape)) return 1;
  copy.dstArray = a; if (cuMemcpy3D_v2(&copy)) return 2;
  if (cuArrayDestroy(a)) return 3;
  CUmipmappedArray m; if (cuMipmappedArrayCreate(&m, &shape, 3)) return 4;
  if (cuMipmappedArrayGetLevel(&a, m, 0)) return 5;
  copy.dstArray = a; if (cuMemcpy3D_v2(&copy)) return 6;
  return cuMipmappedArrayDestroy(m) ? 7 : 0; }""")
wrote = run("secrets", ["--vram", "4GiB", "--name", "arrays"], [arrays])
check("contents: arrays are written and destroyed", wrote.returncode == 0, (wrote.returncode, wrote.stderr))
scan = run("secrets", ["--vram", "15GiB", "--name", "reader"], [standin / "canary", "--mode", "scan", "--mib", "128"])
shares = other.poll() is None
other.terminate()
other.wait(60)
nonzero = [value for key, value in json.loads(scan.stdout or "{}").items() if "zero" in key or "found" in key]
check("contents: what a tenant wrote is not there for the next",
      shares and scan.returncode == 0 and nonzero and not any(nonzero), scan.stdout + scan.stderr)

# Contexts that leave room for what others left, and copies that take long without moving much.
CLOSE = {"TRANCHE_STANDIN_SET": "context=2MiB,host_copy_bytes_per_us=50"}


def found_by_the_next(device, leaves, reader=(standin / "canary", "--mode", "scan", "--mib", "96")):
    """Non-zero words that a tenant finds which came while the one before it was there, and had freed its memory alone."""
    broker = f"{device}.sock"  # One that has seen nothing dirty yet.
    first = start(device, ["--vram", "4GiB", "--name", "first"], [probe(leaves)], broker, **CLOSE)
    ready = first.stdout.readline()
    second = start(device, ["--vram", "4GiB", "--name", "second"], reader, broker, **CLOSE)
    told, log = second.communicate(timeout=60)
    first.communicate("\n", timeout=60)
    return json.loads(told)["nonzero_words"] if ready == "ready\n" and first.returncode == 0 else (ready, log)


READY = 'puts("ready"); fflush(stdout); getchar(); return 0; }'
LEAVES = r"""
int main() { DEVICE CUdeviceptr p; const size_t n = 64 << 20;
  if (cuMemAlloc_v2(&p, n) || cuMemsetD8_v2(p, 0x5a, n) || cuMemFree_v2(p)) return 1; """ + READY
found = found_by_the_next("alone", LEAVES)
check("contents: what was freed while nobody shared the device is not there for whoever comes later", found == 0, found)
# Reads from a stream that waits for no other, while the stream of the allocation has copies in front of it.
hasty = probe(r"""
int main(int count, char** words) { DEVICE CUmodule m; CUfunction f; CUdeviceptr result, big, p; CUstream s, slow; void* host;
  size_t n = 16 << 20, piece = 1 << 20; unsigned long long nonzero = 7; int async = words[1][0] != 'p'; CUmemoryPool pool;
  CUmemPoolProps kind; memset(&kind, 0, sizeof kind); kind.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE; cuModuleLoadData(&m, "any"); cuModuleGetFunction(&f, m, "count_nonzero");
  cuStreamCreate(&s, CU_STREAM_NON_BLOCKING); cuStreamCreate(&slow, CU_STREAM_NON_BLOCKING);
  if (cuMemAlloc_v2(&result, 4096) || cuMemAlloc_v2(&big, piece) || cuMemHostAlloc(&host, piece, 0)) return 1;
  if (words[1][0] == 'o' && (cuMemPoolCreate(&pool, &kind) || cuDeviceSetMemPool(d, pool))) return 6;
  for (int i = 0; i < 12; ++i) if (cuMemcpyHtoDAsync_v2(big, host, piece, async ? slow : NULL)) return 2;
  if (async ? cuMemAllocAsync(&p, n, slow) : cuMemAlloc_v2(&p, n)) return 3;
  void* arguments[] = {&p, &n, &result}; if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, arguments, NULL)) return 4;
  if (cuStreamSynchronize(s) || cuMemcpyDtoHAsync_v2(&nonzero, result, 8, s) || cuStreamSynchronize(s)) return 5;
  printf("{\"nonzero_words\": %llu}\n", nonzero); return 0; }""")
for way in ["plain", "async", "own-pool"]:
    found = found_by_the_next(f"hasty-{way}", LEAVES, [hasty, way])
    check(f"contents: nor is it for whoever reads from a stream that waits for no other ({way})", found == 0, found)
found = found_by_the_next("contexts", r"""
int main() { DEVICE CUdeviceptr p; CUcontext other; const size_t n = 64 << 20;
  if (cuCtxCreate_v2(&other, 0, d) || cuMemAlloc_v2(&p, n) || cuMemsetD8_v2(p, 0x5a, n)) return 1;
  if (cuCtxSynchronize() || cuCtxDestroy_v2(other)) return 2; """ + READY)
check("contents: nor what a context took with it", found == 0, found)
found = found_by_the_next("graph-memory", r"""
int main() { DEVICE CUgraph graph; CUgraphNode node; CUgraphExec exec; CUstream s; const size_t n = 64 << 20;
  CUDA_MEM_ALLOC_NODE_PARAMS a; memset(&a, 0, sizeof a); a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE; a.bytesize = n;
  cuStreamCreate(&s, CU_STREAM_NON_BLOCKING); cuGraphCreate(&graph, 0);
  if (cuGraphAddMemAllocNode(&node, graph, NULL, 0, &a) || cuGraphInstantiateWithFlags(&exec, graph, 0)) return 1;
  if (cuGraphLaunch(exec, s) || cuMemsetD8Async(a.dptr, 0x5a, n, s) || cuStreamSynchronize(s)) return 2;
  if (cuMemFree_v2(a.dptr) || cuDeviceGraphMemTrim(d)) return 3; """ + READY)
check("contents: nor what a graph allocated", found == 0, found)

# Counts what is in the memory that a graph gives itself, made by hand (in a child too) or by capture.
reader = probe(r"""
static CUgraph by_hand(CUfunction f, CUdeviceptr result, size_t n) {
  CUgraph leaf, outer; CUgraphNode taken, counted, freed, child; CUdeviceptr p;
  CUDA_MEM_ALLOC_NODE_PARAMS a; memset(&a, 0, sizeof a); a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE; a.bytesize = n;
  cuGraphCreate(&leaf, 0); cuGraphCreate(&outer, 0); if (cuGraphAddMemAllocNode(&taken, leaf, NULL, 0, &a)) exit(1);
  p = a.dptr; void* arguments[] = {&p, &n, &result};
  CUDA_KERNEL_NODE_PARAMS k; memset(&k, 0, sizeof k); k.func = f; k.gridDimX = k.gridDimY = k.gridDimZ = 1;
  k.blockDimX = k.blockDimY = k.blockDimZ = 1; k.kernelParams = arguments;
  if (cuGraphAddKernelNode_v2(&counted, leaf, &taken, 1, &k) || cuGraphAddMemFreeNode(&freed, leaf, &counted, 1, p)) exit(2);
  if (cuGraphAddChildGraphNode(&child, outer, NULL, 0, leaf)) exit(3);
  return outer; }
static CUgraph captured(CUfunction f, CUdeviceptr result, size_t n, CUstream s) {
  CUgraph graph; CUdeviceptr p; cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
  if (cuMemAllocAsync(&p, n, s)) exit(4);
  void* arguments[] = {&p, &n, &result}; if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, arguments, NULL)) exit(5);
  if (cuMemFreeAsync(p, s) || cuStreamEndCapture(s, &graph)) exit(6);
  return graph; }
int main(int count, char** words) { DEVICE CUmodule m; CUfunction f; CUdeviceptr result; CUstream s; CUgraphExec exec[2];
  const size_t n = (16 << 20) + 8; unsigned long long nonzero = 0, found[2] = {0, 0};
  cuModuleLoadData(&m, "any"); cuModuleGetFunction(&f, m, "count_nonzero"); cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
  if (cuMemAlloc_v2(&result, 4096)) return 7;
  for (int i = 0; i < 2; ++i) { CUgraph graph = i ? captured(f, result, n, s) : by_hand(f, result, n); CUgraphNode nodes[16];
    size_t all = 16; if (cuGraphInstantiateWithFlags(&exec[i], graph, 0)) return 8;
    if (cuGraphGetNodes(graph, nodes, &all)) return 9;
    for (size_t j = 0; i && j < all; ++j) { CUgraphNodeType type; cuGraphNodeGetType(nodes[j], &type);
      if (type == CU_GRAPH_NODE_TYPE_MEMSET && cuGraphNodeSetEnabled(exec[i], nodes[j], 0)) return 10; }
    if (cuGraphDestroy(graph)) return 11; }
  if (count > 1) {
    for (int i = 0; i < 2; ++i) if (cuGraphLaunch(exec[i], s) || cuStreamSynchronize(s)) return 15;
    cuDeviceGraphMemTrim(d); puts("ready"); fflush(stdout); getchar(); }
  for (int i = 0; i < 2; ++i) { if (cuGraphLaunch(exec[i], s) || cuStreamSynchronize(s)) return 12;
    if (cuMemcpyDtoH_v2(&found[i], result, 8)) return 13;
    nonzero += found[i]; }
  for (int i = 0; i < 2; ++i) if (cuGraphExecDestroy(exec[i])) return 14;
  printf("{\"nonzero_words\": %llu}\n", nonzero); return 0; }""")
found = found_by_the_next("graph-readers", LEAVES, [reader])
check("contents: nor does a graph find it in the memory of its nodes, captured or not, whatever it switches off",
      found == 0, found)
early = start("graph-early", ["--vram", "4GiB", "--name", "early"], [reader, "wait"], "graph-early.sock", **CLOSE)
ready = early.stdout.readline()
dies = probe(r"""
int main() { DEVICE CUdeviceptr p; if (cuMemAlloc_v2(&p, 64 << 20) || cuMemsetD8_v2(p, 0x5a, 64 << 20) || cuCtxSynchronize())
    return 1;
  raise(SIGKILL); return 2; }""")
start("graph-early", ["--vram", "4GiB", "--name", "dies"], [dies], "graph-early.sock", **CLOSE).communicate(timeout=60)
eventually(lambda: top("graph-early", "dies", broker="graph-early.sock") == [])
told, log = early.communicate("\n", timeout=60)
check("contents: nor one that ran before anything was left, and whose graph is gone",
      ready == "ready\n" and json.loads(told or "{}").get("nonzero_words") == 0, (told, log, early.returncode))
updated = probe(r"""
static CUgraph graph_of(size_t n, CUfunction f, CUdeviceptr result) { CUgraph graph; CUgraphNode taken, counted, freed;
  CUDA_MEM_ALLOC_NODE_PARAMS a; memset(&a, 0, sizeof a); a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE; a.bytesize = n; cuGraphCreate(&graph, 0);
  if (cuGraphAddMemAllocNode(&taken, graph, NULL, 0, &a)) exit(1);
  CUdeviceptr p = a.dptr; void* arguments[] = {&p, &n, &result}; CUDA_KERNEL_NODE_PARAMS k; memset(&k, 0, sizeof k);
  k.func = f; k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1; k.kernelParams = arguments;
  if (cuGraphAddKernelNode_v2(&counted, graph, &taken, 1, &k) || cuGraphAddMemFreeNode(&freed, graph, &counted, 1, p)) exit(2);
  return graph; }
int main() { DEVICE CUmodule m; CUfunction f; CUdeviceptr result; CUstream s; CUgraphExec exec; CUgraphExecUpdateResultInfo info;
  unsigned long long nonzero = 7; cuModuleLoadData(&m, "any"); cuModuleGetFunction(&f, m, "count_nonzero");
  cuStreamCreate(&s, CU_STREAM_NON_BLOCKING); if (cuMemAlloc_v2(&result, 4096)) return 3;
  CUgraph small = graph_of(2 << 20, f, result), large = graph_of(32 << 20, f, result);
  if (cuGraphInstantiateWithFlags(&exec, small, 0) || cuGraphExecUpdate_v2(exec, large, &info)) return 4;
  if (cuGraphLaunch(exec, s) || cuStreamSynchronize(s) || cuMemcpyDtoH_v2(&nonzero, result, 8)) return 5;
  if (cuGraphExecDestroy(exec) || cuGraphDestroy(small) || cuGraphDestroy(large)) return 6;
  printf("{\"nonzero_words\": %llu}\n", nonzero); return 0; }""")
found = found_by_the_next("graph-update", LEAVES, [updated])
check("contents: nor one that took the place of another in its executable", found == 0, found)
kept = probe(r"""
int main() { DEVICE CUgraph graph; CUgraphNode node; CUgraphExec exec; CUstream s; const size_t n = 2 << 20;
  unsigned char byte[2]; CUDA_MEM_ALLOC_NODE_PARAMS a; memset(&a, 0, sizeof a);
  a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED; a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  a.bytesize = n; cuStreamCreate(&s, CU_STREAM_NON_BLOCKING); cuGraphCreate(&graph, 0);
  if (cuGraphAddMemAllocNode(&node, graph, NULL, 0, &a) || cuGraphInstantiateWithFlags(&exec, graph, 0)) return 1;
  for (int i = 0; i < 2; ++i) { if (cuGraphLaunch(exec, s) || cuStreamSynchronize(s)) return 2;
    if (cuMemcpyDtoH_v2(&byte[i], a.dptr, 1) || cuMemsetD8_v2(a.dptr, 0x5a, n) || cuMemFree_v2(a.dptr)) return 3; }
  printf("%d\n", byte[1]); return 0; }""")
found = start("graph-alone", ["--vram", "1GiB"], [kept], "graph-alone.sock").communicate(timeout=60)[0]
check("contents: a graph alone on a clean device pays for no zeroing", found.strip() == str(0x5a), found)

zeroed = probe(r"""
#include <stdint.h>
typedef int (*Zero)(uint64_t, size_t, uint64_t*);
int main() { DEVICE const size_t n = (40 << 20) + 3; CUdeviceptr p; uint64_t left = 7, none; char* back = calloc(n, 1);
  Zero zero = (Zero)dlsym(RTLD_DEFAULT, "tranche_guard_cuda_zero_and_verify");
  if (!zero || cuMemAlloc_v2(&p, n) || cuMemsetD8_v2(p, 0x5a, n)) return 1;
  int done = zero(p + 1, n - 2, &left), bad = zero(p, 0, &none);
  if (cuMemcpyDtoH_v2(back, p, n)) return 2;
  size_t nonzero = 0; for (size_t i = 0; i < n; ++i) nonzero += back[i] != 0;
  printf("%d %d %llu %zu\n", done, bad, (unsigned long long)left, nonzero); return 0; }""")
words = run("zeroed", ["--vram", "1GiB"], [zeroed]).stdout.split()
check("contents: zero_and_verify zeroes exactly its range and counts what is left", words == ["0", "1", "0", "2"], words)

# --- pause ----------------------------------------------------------------------------------------------------
small, whole = {"TRANCHE_STANDIN_SET": "vram=256MiB"}, 256 * MIB
keep = start("pause", ["--vram", "1GiB", "--name", "keep"], [standin / "canary", "--mode", "keep", "--mib", "96"], **small)
keep.stdout.readline()
before = device_stats("pause")["free"]
told = guard("pause", "pause", "keep")
held = whole - before
check("pause: all of its VRAM is given back", f"{held} of {held} bytes given back" in told.stdout, told)
check("pause: the account says so", top("pause", "keep")[2] == "0B", top("pause", "keep"))
check("pause: the device says so", held > 96 * MIB and device_stats("pause")["free"] == whole, before)
other = start("pause", ["--vram", "1GiB", "--name", "other"], [standin / "canary", "--mode", "keep", "--mib", "110"], **small)
other.stdout.readline()
full = guard("pause", "resume", "keep")
check("pause: a device without room keeps it paused, and says why",
      full.returncode != 0 and "no room" in full.stderr and top("pause", "keep")[2] == "0B", full)
other.communicate("go\n", timeout=60)
told = guard("pause", "resume", "keep")
check("pause: it goes on when there is room", told.returncode == 0, told)
check("pause: what it holds is charged again", device_stats("pause")["free"] == whole - held)
out, err = keep.communicate("go\n", timeout=60)
check("pause: every word is as it was", json.loads(out or "{}").get("wrong_words") == 0, (out, err))

first = start("names", ["--vram", "1GiB", "--name", "same"], ["cat"])
eventually(lambda: top("names", "same") != [])
fed = json.loads(guard("names", "top", "--once", "-o", "json").stdout or "[]")
fed = {row["tenant"]: row for row in fed}.get("same", {})
check("top: the feed is JSON, in bytes and nanoseconds",
      [fed.get(key) for key in ("vram_limit_bytes", "device", "state", "used_percent")] == [1 << 30, 0, "running", None], fed)
second = run("names", ["--vram", "2GiB", "--name", "same"], ["true"])
check("names: one that runs already is refused, and its limits stay",
      second.returncode != 0 and "same runs already" in second.stderr and top("names", "same")[4] == "1GiB", second)
first.communicate("", timeout=60)

wrong = [(["--vram", "0"], "without VRAM"), (["--vram", "two"], "not a size: two"), (["--compute", "0%"], "more than 0 %"),
         (["--compute", "0.001%"], "least share"), (["--compute", "0x10%"], "not a share"), (["--mode", "most"], "cap or fair"), (["--time", "0s"], "no time"),
         (["--checkpoint-signal", "99"], "checkpoint-signal"), (["--devices", "20"], "--devices"),
         (["--name", "a/b"], "a name has letters"), (["--vram", "1GiB", "--vram", "2GiB"], "--vram")]
for words, why in wrong:
    told = run("wrong", ["--vram", "1GiB"] * ("--vram" not in words) + words, ["true"])
    check(f"usage: {' '.join(words)} is refused, and why", told.returncode == 2 and why in told.stderr, told)
told = run("wrong", ["--vram", "1GiB"], ["/etc/passwd"])
check("usage: what cannot be run ends as in a shell", told.returncode == 126 and "Permission denied" in told.stderr, told)
told = guard("wrong", "limit", "any", "--compute", "5%")
check("usage: who is not there is told, and where to look", told.returncode == 1 and "guard top" in told.stderr, told)
told = guard("wrong", "top", "--once", broker="nobody.sock")
check("usage: no broker at all is told, and how there would be one", told.returncode == 1 and "guard run" in told.stderr, told)
told = subprocess.run([build / "tranche", "guard", "top", "--once"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                      env=environment("wrong", XDG_RUNTIME_DIR=str(folder / "not-there")))
check("usage: a runtime folder that is not there is told, and what would do", "set XDG_RUNTIME_DIR" in told.stderr, told)
told = guard("wrong", "limit", "any")
check("usage: a change of nothing is refused", told.returncode == 2 and "nothing to change" in told.stderr, told)

# --- at a terminal ----------------------------------------------------------------------------------------------
def at_a_terminal(script, *typed):
    """What a terminal shows of `guard run -- sh -c SCRIPT`: each of `typed` is a line to wait for and the keys then pressed."""
    child, terminal = pty.fork()
    if child == 0:  # In the place of a shell: what it shows is lost when it ends.
        words = guard_command(["--vram", "1GiB", "--quiet"], ["sh", "-c", script])
        print("ended", subprocess.run(words, env=environment("terminal")).returncode, input(), flush=True)
        signal.pause()
    shown = ""
    for awaited, keys in typed:
        while awaited not in shown and select.select([terminal], [], [], 60)[0]:
            shown += os.read(terminal, 4096).decode()
        os.write(terminal, keys.encode())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    return shown


shown = at_a_terminal("echo name?; read name; echo hello $name", ("name?", "ada\n"), ("hello ada", "back\n"),
                      ("ended 0 back", ""))
check("terminal: a program reads what is typed, and then whoever started it", "hello ada" in shown and "ended 0 back" in shown, shown)
shown = at_a_terminal("trap 'echo asked to end; exit 3' INT; echo works; while :; do sleep 1; done", ("works", "\x03"),
                      ("asked to end", "back\n"), ("ended 3 back", ""))
check("terminal: Ctrl-C reaches the program, once", shown.count("asked to end") == 1 and "ended 3 back" in shown, shown)

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

# --- a broker that is silent, and one that dies -----------------------------------------------------------------
broker = subprocess.Popen([build / "tranche", "broker", "--socket", folder / "mortal.sock"])
eventually(lambda: (folder / "mortal.sock").exists())
job = start("silent", ["--vram", "1GiB", "--compute", "30%", "--mode", "fair", "--name", "silent"],
            [standin / "tenant", "--seconds", "3", "--lead-seconds", "3"], "mortal.sock")
eventually(lambda: top("silent", "silent", broker="mortal.sock")[8:9] not in ([], ["0"]))  # It launches.
broker.send_signal(signal.SIGSTOP)
out, _ = job.stdout.readline(), None
broker.send_signal(signal.SIGCONT)
job.communicate(timeout=60)
figures = json.loads(out) if out.strip() else {"kernels": -1}
share = figures["kernels"] * 2 / 3000
check("broker: its silence leaves the share as a ceiling", 0 < share < 0.36, figures)  # A busy host may give less.

watcher = probe(r"""
int main() { DEVICE CUmodule m; CUfunction f; CUdeviceptr p; size_t total = 0; cuModuleLoadData(&m, "any");
  if (cuModuleGetFunction(&f, m, "busy_1ms") || cuMemAlloc_v2(&p, 300 << 20)) return 1;
  puts("held"); fflush(stdout);
  do { if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) || cuCtxSynchronize()) return 2;
    cuDeviceTotalMem_v2(&total, d); } while (total == 1ull << 30);
  printf("%zu %d\n", total, cuMemAlloc_v2(&p, 200 << 20)); return 0; }""")
job = start("mortal", ["--vram", "1GiB", "--compute", "50%", "--mode", "fair", "--name", "watcher"], [watcher], "mortal.sock")
job.stdout.readline()
account = top("mortal", "watcher", broker="mortal.sock")[2]
broker.kill()
broker.wait()
check("broker: another takes over with the account as it stood",
      eventually(lambda: top("mortal", "watcher", broker="mortal.sock")[2:3] == [account]), account)
lowered = guard("mortal", "limit", "watcher", "--vram", "512MiB", broker="mortal.sock")
out, err = job.communicate(timeout=90)
check("broker: running jobs join the new one and see its limits, with what they hold still charged",
      lowered.returncode == 0 and out.split() == [str(512 * MIB), "2"], (out, err, lowered))
check("broker: the change is told", "another one took over" in err, err)

finish()
