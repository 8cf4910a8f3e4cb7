// SPDX-License-Identifier: Apache-2.0
// Names, versions and the outside view of the simulated device.
#include <cstring>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fstream>
#include <string>
#include <unistd.h>

#include "standin_fixture.hpp"

using namespace standin_test;

extern "C" {
int nvmlInit_v2();
int nvmlDeviceGetHandleByIndex_v2(unsigned, void**);
int nvmlDeviceGetName(void*, char*, unsigned);
int nvmlDeviceGetMemoryInfo(void*, unsigned long long*);
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned*, void*);
int nvmlDeviceGetUtilizationRates(void*, unsigned*);
int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*);
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned, void**);
}

namespace {

void* look_up(const char* name, int version, cuuint64_t flags = 0) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult result{};
  cuGetProcAddress_v2(name, &found, version, flags, &result);
  return found;
}

void* gpu() {
  device();
  void* handle = nullptr;
  REQUIRE(nvmlInit_v2() == 0);
  REQUIRE(nvmlDeviceGetHandleByIndex_v2(0, &handle) == 0);
  return handle;
}

}  // namespace

TEST_CASE("stand-in lookup: the version asked for decides which twin is found") {
  device();
  void* self = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(self != nullptr);
  CHECK(look_up("cuMemAlloc", 12000) == ::dlsym(self, "cuMemAlloc_v2"));
  CHECK(look_up("cuMemAlloc", 2000) == ::dlsym(self, "cuMemAlloc"));
  CHECK(look_up("cuGetProcAddress", 11040) == ::dlsym(self, "cuGetProcAddress"));
  CHECK(look_up("cuGetProcAddress", 12000) == ::dlsym(self, "cuGetProcAddress_v2"));
  CHECK(look_up("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) ==
        ::dlsym(self, "cuLaunchKernel_ptsz"));
  CHECK(look_up("cuNoSuchThing", 12000) == nullptr);
  CHECK(look_up("cuMemAllocAsync", 11000) == nullptr);
  const void* table = self;
  CHECK(cuGetExportTable(&table, nullptr) == CUDA_ERROR_NOT_FOUND);
  CHECK(table == nullptr);
}

TEST_CASE("stand-in lookup: every name of the table of entry points is exported") {
  void* self = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  std::ifstream names("../shared/data/cuda_entry_points.csv");
  if (!names) {
    MESSAGE("[skipped] ../shared/data/cuda_entry_points.csv is not here");
    return;
  }
  std::string line;
  std::getline(names, line);
  int checked = 0;
  while (std::getline(names, line)) {
    const std::string name = line.substr(0, line.find(','));
    CHECK_MESSAGE(::dlsym(self, name.c_str()) != nullptr, name);
    ++checked;
  }
  CHECK(checked > 450);
}

TEST_CASE("stand-in lookup: the old driver lacks what came after CUDA 11.4") {
  // A private namespace, so that the driver of this program does not answer for it.
  void* old = ::dlmopen(LM_ID_NEWLM, STANDIN_BINARY_DIR "/old/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (old == nullptr) {
    MESSAGE("[skipped] no second namespace here: " << ::dlerror());
    return;
  }
  CHECK(::dlsym(old, "cuLaunchKernel") != nullptr);
  CHECK(::dlsym(old, "cuLaunchKernelEx") == nullptr);
  CHECK(::dlsym(old, "cuCheckpointProcessLock") == nullptr);
  ::dlclose(old);
}

TEST_CASE("stand-in NVML: the device says that it is simulated") {
  char name[96] = "";
  REQUIRE(nvmlDeviceGetName(gpu(), name, sizeof name) == 0);
  CHECK(std::strstr(name, "SIMULATED") != nullptr);
}

TEST_CASE("stand-in NVML: memory and processes agree with the driver") {
  unsigned long long memory[3] = {};
  REQUIRE(nvmlDeviceGetMemoryInfo(gpu(), memory) == 0);
  CHECK(memory[0] == 256ull << 20);
  CHECK(memory[1] == free_bytes());
  struct {
    unsigned pid;
    unsigned long long used;
    unsigned instance, compute;
  } processes[8] = {};
  unsigned count = 8;
  REQUIRE(nvmlDeviceGetComputeRunningProcesses_v3(gpu(), &count, processes) == 0);
  REQUIRE(count == 1);
  CHECK(processes[0].pid == static_cast<unsigned>(::getpid()));
  CHECK(processes[0].used == memory[2]);
}

TEST_CASE("stand-in NVML: utilisation follows the last second") {
  const CUstream stream = new_stream();
  launch(kernel("busy_1200ms"), stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  unsigned rates[2] = {};
  REQUIRE(nvmlDeviceGetUtilizationRates(gpu(), rates) == 0);
  CHECK(rates[0] > 0);
  CHECK(rates[0] <= 100);
}

TEST_CASE("stand-in NVML: a MIG layout of the configuration is reported") {
  unsigned current = 0, pending = 0;
  REQUIRE(nvmlDeviceGetMigMode(gpu(), &current, &pending) == 0);
  CHECK(current == 1);
  void* instance = nullptr;
  REQUIRE(nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0, &instance) == 0);
  char name[96] = "";
  REQUIRE(nvmlDeviceGetName(instance, name, sizeof name) == 0);
  CHECK(std::strstr(name, "3g.40gb") != nullptr);
  CHECK(nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 1, &instance) != 0);
}
