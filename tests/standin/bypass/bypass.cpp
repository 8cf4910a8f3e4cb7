// SPDX-License-Identifier: Apache-2.0
// A job that tries to get away from the guard, one way at a time: `bypass WAY`. Its slice holds 1 GiB; it
// asks for three. "held" means that the way is closed; "taken" that it is open, and then the program goes on
// until somebody ends it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/region.hpp"
extern "C" {
#include "standin_cuda.h"
#include "standin_cuda_calls.h"
}

namespace {

constexpr std::size_t kPiece = 256U << 20U;
constexpr int kPieces = 12, kWithin = 4;

struct Calls {
  decltype(&cuInit) init = nullptr;
  decltype(&cuDeviceGet) device = nullptr;
  decltype(&cuCtxCreate_v2) context = nullptr;
  decltype(&cuMemAlloc_v2) allocate = nullptr;
};

[[noreturn]] void stay(const char* how) {
  std::printf("taken %s\n", how);
  std::fflush(stdout);
  for (;;) ::pause();
}

[[noreturn]] void held(const char* how) {
  std::printf("held %s\n", how);
  std::exit(0);
}

bool open_device(const Calls& calls) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  return calls.init != nullptr && calls.init(0) == CUDA_SUCCESS && calls.device(&device, 0) == CUDA_SUCCESS &&
         calls.context(&context, 0, device) == CUDA_SUCCESS;
}

[[noreturn]] void take(const Calls& calls, const char* how) {
  if (!open_device(calls)) held(how);
  int pieces = 0;
  for (CUdeviceptr at = 0; pieces < kPieces && calls.allocate(&at, kPiece) == CUDA_SUCCESS;) ++pieces;
  if (pieces > kWithin) stay(how);
  held(how);
}

#ifdef TRANCHE_BYPASS_STATIC

[[noreturn]] void choose(const std::string&) {
  take({&cuInit, &cuDeviceGet, &cuCtxCreate_v2, &cuMemAlloc_v2}, "static");
}

#else

const Calls kLinked{&cuInit, &cuDeviceGet, &cuCtxCreate_v2, &cuMemAlloc_v2};
constexpr const char* kDriver = "/volume/libcuda.so.1";

template <class Look>
Calls found_by(Look look) {
  const auto as = [&]<class Call>(Call*& place, const char* name) {
    place = reinterpret_cast<Call*>(look(name));
  };
  Calls calls;
  as(calls.init, "cuInit");
  as(calls.device, "cuDeviceGet");
  as(calls.context, "cuCtxCreate_v2");
  as(calls.allocate, "cuMemAlloc_v2");
  return calls;
}

[[noreturn]] void in_library(void* library, const char* how) {
  if (library == nullptr) held(how);
  take(found_by([&](const char* name) { return ::dlsym(library, name); }), how);
}

void* ask_driver(const char* name) {
  void* found = nullptr;
  // The driver gives the newest form of a name without a number.
  const std::string plain =
      std::string(name).substr(0, std::strlen(name) - (std::strstr(name, "_v2") ? 3 : 0));
  cuGetProcAddress(plain.c_str(), &found, 12000, 0);
  return found;
}

[[noreturn]] void with_false_broker() {
  sockaddr_un address{AF_UNIX, "/tmp/false.sock"};
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 8) != 0)
    std::exit(9);
  ::setenv("TRANCHE_GUARD_SOCKET", address.sun_path, 1);
  ::execl("/proc/self/exe", "bypass", "plain", nullptr);
  std::exit(9);
}

[[noreturn]] void in_a_child() {
  if (!open_device(kLinked)) held("fork");
  CUdeviceptr at = 0;
  cuMemAlloc_v2(&at, kPiece);
  if (::fork() == 0) take(kLinked, "fork");
  int status = 0;
  ::wait(&status);
  std::exit(status == 0 ? 0 : 9);
}

// A table of the driver's own entry points, as vendors' runtimes have them.
struct PrivateTable {
  std::size_t bytes;
  decltype(&cuMemAlloc_v2) allocate;
  decltype(&cuLaunchKernel) launch;
};
const PrivateTable* private_table() {
  CUuuid name{};
  std::memcpy(name.bytes, "SIMULATED TABLE1", sizeof name.bytes);
  const void* table = nullptr;
  return cuGetExportTable(&table, &name) == CUDA_SUCCESS ? static_cast<const PrivateTable*>(table) : nullptr;
}

[[noreturn]] void by_table() {
  if (!open_device(kLinked)) held("table");
  Calls calls = kLinked;
  if (const PrivateTable* table = private_table()) calls.allocate = table->allocate;
  int pieces = 0;
  for (CUdeviceptr at = 0; pieces < kPieces && calls.allocate(&at, kPiece) == CUDA_SUCCESS;) ++pieces;
  if (pieces > kWithin) stay("table");
  held("table");
}

CUfunction busy_kernel() {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  cuModuleLoadData(&module, "any");
  cuModuleGetFunction(&function, module, "busy_2ms");
  return function;
}

// No memory beyond its limit, only time.
[[noreturn]] void launch_by_table() {
  const PrivateTable* table = open_device(kLinked) ? private_table() : nullptr;
  if (table == nullptr) held("table-time");
  CUfunction function = busy_kernel();
  std::printf("taken table-time\n");
  std::fflush(stdout);
  for (;;) {
    table->launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
    cuCtxSynchronize();
  }
}

tranche::guard::LedgerRegion* own_ledger() {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long from = 0, to = 0;
    char rights[8] = "";
    if (std::strstr(line, "tranche-ledger") != nullptr &&
        std::sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[1] == 'w')
      return reinterpret_cast<tranche::guard::LedgerRegion*>(from);
  }
  return nullptr;
}

[[noreturn]] void forge_memory() {
  if (!open_device(kLinked)) held("ledger");
  tranche::guard::LedgerRegion* ledger = own_ledger();
  int pieces = 0;
  for (CUdeviceptr at = 0; ledger != nullptr && pieces < kPieces; ++pieces) {
    if (cuMemAlloc_v2(&at, kPiece) != CUDA_SUCCESS) break;
    std::memset(static_cast<void*>(&ledger->devices[0].head), 0, sizeof ledger->devices[0].head);
    for (auto& process : ledger->processes)
      std::memset(static_cast<void*>(process.used), 0, sizeof process.used);
  }
  if (pieces > kWithin) stay("ledger");
  held("ledger");
}

[[noreturn]] void forge_time() {
  if (!open_device(kLinked)) held("ledger-time");
  tranche::guard::LedgerRegion* ledger = own_ledger();
  if (ledger == nullptr) held("ledger-time");
  CUfunction function = busy_kernel();
  std::printf("taken ledger-time\n");
  std::fflush(stdout);
  for (;;) {
    cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
    ledger->devices[0].lanes[0].submitted_ns = 1;
    ledger->devices[0].lanes[0].corrected_ns = 0;
    cuCtxSynchronize();
  }
}

[[noreturn]] void by_linked_library() {
  void* library = ::dlmopen(LM_ID_NEWLM, "/volume/libbypass-plugin.so", RTLD_NOW);
  if (library == nullptr) held("dlmopen-linked");
  const auto run = reinterpret_cast<int (*)(int, std::size_t)>(::dlsym(library, "take_in_plugin"));
  if (run != nullptr && run(kPieces, kPiece) > kWithin) stay("dlmopen-linked");
  held("dlmopen-linked");
}

[[noreturn]] void by_tracing() {
  const int child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const bool traced = ::ptrace(PTRACE_ATTACH, child, nullptr, nullptr) == 0;
  ::kill(child, SIGKILL);
  if (traced) stay("ptrace");
  held("ptrace");
}

// As a job should be: within its limit, all work through the guard.
[[noreturn]] void behave() {
  CUdeviceptr at = 0;
  if (!open_device(kLinked) || cuMemAlloc_v2(&at, 2 * kPiece) != CUDA_SUCCESS) std::exit(9);
  CUfunction function = busy_kernel();
  std::printf("honest\n");
  std::fflush(stdout);
  for (;;) {
    if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) != CUDA_SUCCESS)
      std::exit(9);
    cuCtxSynchronize();
  }
}

[[noreturn]] void choose(const std::string& way) {
  if (way == "honest") behave();
  if (way == "dlopen") in_library(::dlopen(kDriver, RTLD_NOW | RTLD_LOCAL), "dlopen");
  if (way == "deepbind") in_library(::dlopen(kDriver, RTLD_NOW | RTLD_DEEPBIND), "deepbind");
  if (way == "dlmopen") in_library(::dlmopen(LM_ID_NEWLM, kDriver, RTLD_NOW), "dlmopen");
  if (way == "dlsym") take(found_by([](const char* name) { return ::dlsym(RTLD_NEXT, name); }), "dlsym");
  if (way == "procaddress") take(found_by(ask_driver), "procaddress");
  if (way == "false-broker") with_false_broker();
  if (way == "fork") in_a_child();
  if (way == "table") by_table();
  if (way == "table-time") launch_by_table();
  if (way == "ledger") forge_memory();
  if (way == "ledger-time") forge_time();
  if (way == "dlmopen-linked") by_linked_library();
  if (way == "ptrace") by_tracing();
  take(kLinked, "plain");
}

#endif

}  // namespace

int main(int argc, char** argv) {
  choose(argc > 1 ? argv[1] : "plain");
}
