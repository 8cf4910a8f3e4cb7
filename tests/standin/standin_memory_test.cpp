// SPDX-License-Identifier: Apache-2.0
// The memory of the simulated device: what each path takes, when it comes back, and how dirty.
#include <atomic>
#include <cstring>
#include <doctest/doctest.h>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "standin_fixture.hpp"

using namespace standin_test;

namespace {

CUmemAllocationProp on_device() {
  CUmemAllocationProp property{};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return property;
}

CUDA_MEM_ALLOC_NODE_PARAMS graph_memory(std::size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = bytes;
  return parameters;
}

}  // namespace

TEST_CASE("stand-in memory: freed contents come back to the next owner, in another process too") {
  const std::string state = fresh_state("event_lag = 20us\nvram = 256MiB\ncontext = 1MiB\n");
  const Outcome writer = run(state, "canary --mode write --mib 64");
  REQUIRE(writer.status == 0);
  const Outcome reader = run(state, "canary --mode scan --mib 200");
  CHECK(number(reader.text, "nonzero_words") >= 64 * 1048576 / 8 * 0.99);
}

TEST_CASE("stand-in memory: the device refuses the first byte too many") {
  device();
  const std::size_t free = free_bytes();
  std::vector<CUdeviceptr> taken;
  std::size_t held = 0;
  for (const std::size_t size :
       {std::size_t{1} << 20, std::size_t{4096}}) {  // Free memory may lie in pieces.
    CUdeviceptr memory = 0;
    while (cuMemAlloc_v2(&memory, size) == CUDA_SUCCESS) {
      taken.push_back(memory);
      held += size;
    }
  }
  CHECK(held == free);
  CHECK(free_bytes() == 0);
  for (const CUdeviceptr memory : taken) REQUIRE(cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
}

TEST_CASE("stand-in memory: pitched memory takes its real pitch times its rows") {
  device();
  const std::size_t free = free_bytes();
  CUdeviceptr rows = 0;
  std::size_t pitch = 0;
  REQUIRE(cuMemAllocPitch_v2(&rows, &pitch, 1, 4096, 4) == CUDA_SUCCESS);
  CHECK(pitch == 512);
  CHECK(free - free_bytes() == 512 * 4096);
  CHECK(cuMemAllocPitch_v2(&rows, &pitch, 1, std::size_t{16} << 20, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAllocPitch_v2(&rows, &pitch, std::size_t{1} << 40, std::size_t{1} << 40, 4) ==
        CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemFree_v2(rows) == CUDA_SUCCESS);
}

TEST_CASE("stand-in memory: stream-ordered memory stays reserved until a synchronisation") {
  device();
  const std::size_t free = free_bytes();
  const CUstream stream = new_stream();
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAllocAsync(&memory, 1 << 20, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemFreeAsync(memory, stream) == CUDA_SUCCESS);
  CHECK(free_bytes() == free - (1 << 20));
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
  REQUIRE(cuMemAllocAsync(&memory, 1 << 20, stream) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
}

TEST_CASE("stand-in memory: a release threshold keeps reserved memory until it is trimmed") {
  device();
  const std::size_t free = free_bytes();
  const CUstream stream = new_stream();
  CUmemoryPool pool = nullptr;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
  cuuint64_t threshold = 64 << 20, reserved = 0;
  REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAllocFromPoolAsync(&memory, 8 << 20, pool, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemFreeAsync(memory, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS);
  CHECK(reserved == 8 << 20);
  CHECK(free_bytes() == free - (8 << 20));
  REQUIRE(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
  CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}

TEST_CASE("stand-in memory: a mapping holds physical memory after its handle is released") {
  device();
  const std::size_t free = free_bytes();
  const std::size_t size = 4 << 20;
  const CUmemAllocationProp property = on_device();
  CUmemGenericAllocationHandle handle = 0, retained = 0;
  CUdeviceptr at = 0;
  CHECK(cuMemCreate(&handle, size + 1, &property, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemCreate(&handle, size, &property, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressReserve(&at, size, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(at, size, 0, handle, 0) == CUDA_SUCCESS);
  const CUmemAccessDesc access = {property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE(cuMemSetAccess(at, size, &access, 1) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(free_bytes() == free - size);
  REQUIRE(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(at)) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8_v2(at, 7, size) == CUDA_SUCCESS);
  unsigned char byte = 0;
  REQUIRE(cuMemcpyDtoH_v2(&byte, at + size - 1, 1) == CUDA_SUCCESS);
  CHECK(byte == 7);
  REQUIRE(cuMemUnmap(at, size) == CUDA_SUCCESS);
  CHECK(free_bytes() == free - size);
  REQUIRE(cuMemRelease(retained) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
  CHECK(cuMemAddressFree(at, size) == CUDA_SUCCESS);
}

TEST_CASE(
    "stand-in memory: arrays, mipmaps, modules, contexts and external memory take VRAM and give it back") {
  device();
  const std::size_t free = free_bytes();
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR flat = {100, 10, CU_AD_FORMAT_FLOAT, 1};
  REQUIRE(cuArrayCreate_v2(&array, &flat) == CUDA_SUCCESS);
  CHECK(free - free_bytes() == 8192);  // 10 rows of 400 bytes, padded to 512, in whole pages.
  CUDA_ARRAY3D_DESCRIPTOR deep = {64, 64, 16, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
  CUmipmappedArray mipmap = nullptr;
  REQUIRE(cuMipmappedArrayCreate(&mipmap, &deep, 3) == CUDA_SUCCESS);
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadData(&module, "standin size 1MiB kernel one 5ms") == CUDA_SUCCESS);
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, module, "one") == CUDA_SUCCESS);
  CHECK(cuModuleGetFunction(&function, module, "two") == CUDA_ERROR_NOT_FOUND);
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
  CHECK(free - free_bytes() > (9 << 20));
  REQUIRE(cuCtxDestroy_v2(context) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(device()) == CUDA_SUCCESS);
  REQUIRE(cuModuleUnload(module) == CUDA_SUCCESS);
  REQUIRE(cuMipmappedArrayDestroy(mipmap) == CUDA_SUCCESS);
  REQUIRE(cuArrayDestroy(array) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
  deep.Width = std::size_t{1} << 40;
  CHECK(cuArray3DCreate_v2(&array, &deep) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("stand-in memory: a graph takes its memory when it runs and keeps it until trimmed") {
  device();
  const std::size_t free = free_bytes();
  const CUstream stream = new_stream();
  CUgraph graph = nullptr;
  CUgraphNode made = nullptr, freed = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = graph_memory(3 << 20);
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &parameters) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddMemFreeNode(&freed, graph, &made, 1, parameters.dptr) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
  REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  CHECK(free_bytes() == free - (4 << 20));  // In units of 2 MiB.
  REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE(
    "stand-in memory: a graph that is destroyed while it runs goes on, and keeps its memory until the end") {
  device();
  const std::size_t free = free_bytes();
  const CUstream stream = new_stream();
  static std::atomic<bool> go_on;
  go_on = false;
  CUgraph graph = nullptr;
  CUgraphNode made = nullptr, waits = nullptr, filled = nullptr, freed = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = graph_memory(4 << 20);
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &parameters) == CUDA_SUCCESS);
  const CUDA_HOST_NODE_PARAMS host = {[](void*) { go_on.wait(false); }, nullptr};
  REQUIRE(cuGraphAddHostNode(&waits, graph, &made, 1, &host) == CUDA_SUCCESS);
  const CUDA_MEMSET_NODE_PARAMS fill = {parameters.dptr, 0, 7, 1, parameters.bytesize, 1};
  REQUIRE(cuGraphAddMemsetNode(&filled, graph, &waits, 1, &fill, device()) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddMemFreeNode(&freed, graph, &filled, 1, parameters.dptr) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  CHECK(free_bytes() == free - (4 << 20));
  REQUIRE(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  CHECK(free_bytes() == free - (4 << 20));
  go_on = true;
  go_on.notify_all();
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);  // The fill found its memory, or this is a crash.
  REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
}

TEST_CASE("stand-in memory: what a graph did not free outlives it, and is freed by either call") {
  device();
  const std::size_t free = free_bytes();
  const CUstream stream = new_stream();
  for (const bool in_stream_order : {false, true}) {
    CUgraph graph = nullptr;
    CUgraphNode made = nullptr;
    CUgraphExec exec = nullptr;
    unsigned char byte = 0;
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = graph_memory(2 << 20);
    REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &parameters) == CUDA_SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    CHECK(cuGraphLaunch(exec, stream) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
    CHECK(free_bytes() == free - (2 << 20));
    REQUIRE(cuMemsetD8_v2(parameters.dptr, 9, 2 << 20) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyDtoH_v2(&byte, parameters.dptr, 1) == CUDA_SUCCESS);
    CHECK(byte == 9);
    const CUresult freed =
        in_stream_order ? cuMemFreeAsync(parameters.dptr, stream) : cuMemFree_v2(parameters.dptr);
    REQUIRE(freed == CUDA_SUCCESS);
    CHECK(cuMemFree_v2(parameters.dptr) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(free_bytes() == free - (2 << 20));
    REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
    CHECK(free_bytes() == free);
  }
}

TEST_CASE("stand-in memory: a graph that frees what it left behind can be launched again") {
  device();
  const std::size_t free = free_bytes();
  const CUstream stream = new_stream();
  CUgraph graph = nullptr;
  CUgraphNode made = nullptr;
  CUgraphExec exec = nullptr;
  cuuint64_t used = 0;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = graph_memory(2 << 20);
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &parameters) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) ==
          CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS);
  CHECK(used == 2 << 20);
  REQUIRE(cuMemFree_v2(parameters.dptr) == CUDA_SUCCESS);
  REQUIRE(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
}

TEST_CASE("stand-in memory: a graph that does not fit holds nothing, and can be launched when it does") {
  device();
  const std::size_t free = free_bytes();
  const CUstream stream = new_stream();
  CUgraph graph = nullptr;
  CUgraphNode made = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr in_the_way = 0, parts[2] = {};
  cuuint64_t used = 7;
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  for (CUdeviceptr& part : parts) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = graph_memory(free / 3);
    REQUIRE(cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &parameters) == CUDA_SUCCESS);
    part = parameters.dptr;
  }
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&in_the_way, free / 2) == CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) CHECK(cuGraphLaunch(exec, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS);
  CHECK(used == 0);
  REQUIRE(cuMemFree_v2(in_the_way) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  for (const CUdeviceptr part : parts) CHECK(cuMemFree_v2(part) == CUDA_SUCCESS);
  REQUIRE(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  CHECK(free_bytes() == free);
}

TEST_CASE("stand-in memory: what a killed process held comes back") {
  const std::string state = fresh_state("event_lag = 20us\nvram = 1GiB\ncontext = 8MiB\n");
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TRANCHE_STANDIN", state.c_str(), 1);
    const std::string program = std::string(STANDIN_BINARY_DIR) + "/churn";
    ::execl(program.c_str(), "churn", "--seconds", "60", "--live", "64", nullptr);
    ::_exit(1);
  }
  double held = 0;
  for (int tries = 0; tries < 3000 && held < 100e6; ++tries)
    held = number(run(state, "standin_stats").text, "vram");
  CHECK(held >= 100e6);
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(number(run(state, "standin_stats").text, "free") == 1073741824.0);
}

TEST_CASE("stand-in memory: 40 kills at any instruction leave the map of VRAM whole") {
  const std::string state = fresh_state("event_lag = 20us\nvram = 1GiB\ncontext = 8MiB\n");
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("TRANCHE_STANDIN", state.c_str(), 1);
      const std::string program = std::string(STANDIN_BINARY_DIR) + "/churn";
      ::execl(program.c_str(), "churn", "--seconds", "60", "--paths", "plain,vmm,pool", nullptr);
      ::_exit(1);
    }
    ::usleep(static_cast<useconds_t>(10'000 + round * 700));
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
  }
  CHECK(number(run(state, "standin_stats").text, "free") == 1073741824.0);
  CHECK(run(state, "churn --seconds 0.3").status == 0);
  CHECK(number(run(state, "standin_stats").text, "free") == 1073741824.0);
}
