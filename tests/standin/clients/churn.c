// SPDX-License-Identifier: Apache-2.0
// Allocates and frees at random through every path: --seconds 5 --seed 1 --max-mib 64 --live 32 --paths all
// or a comma list of plain,pitch,managed,async,pool,vmm,array,array3d,mipmap,graph,module. Prints what it did
// and what it still holds (it frees all at the end unless --keep 1). --start-ns (CLOCK_MONOTONIC)
// --announce 1 prints a line when it begins.
#include "client.h"

enum Path { PLAIN, PITCH, MANAGED, ASYNC, POOL, VMM, ARRAY, ARRAY3D, MIPMAP, GRAPH, MODULE, PATHS };
static const char* const kNames[PATHS] = {
    "plain", "pitch", "managed", "async", "pool", "vmm", "array", "array3d", "mipmap", "graph", "module"};

struct Holding {
  enum Path path;
  int used;
  CUdeviceptr pointer;
  size_t bytes;
  CUmemGenericAllocationHandle handle;
  CUarray array;
  CUmipmappedArray mipmap;
  CUgraphExec exec;
  CUmodule module;
};

static CUstream stream;
static CUmemoryPool pool;
static uint64_t random_state;

static uint64_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static CUresult take_vmm(struct Holding* h, size_t bytes) {
  const size_t unit = 2u << 20;
  h->bytes = (bytes + unit - 1) / unit * unit;
  CUmemAllocationProp property = {0};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUresult status = cuMemCreate(&h->handle, h->bytes, &property, 0);
  if (status != CUDA_SUCCESS) return status;
  CUmemAccessDesc access = {property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemAddressReserve(&h->pointer, h->bytes, 0, 0, 0));
  CHECK(cuMemMap(h->pointer, h->bytes, 0, h->handle, 0));
  CHECK(cuMemSetAccess(h->pointer, h->bytes, &access, 1));
  return CUDA_SUCCESS;
}

static CUresult take_graph(struct Holding* h, size_t bytes) {
  CUgraph graph;
  CUgraphNode node;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters;
  memset(&parameters, 0, sizeof parameters);
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  parameters.bytesize = bytes;
  CUresult status = cuGraphCreate(&graph, 0);
  if (status == CUDA_SUCCESS) status = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters);
  if (status == CUDA_SUCCESS) status = cuGraphInstantiateWithFlags(&h->exec, graph, 0);
  if (status == CUDA_SUCCESS) {
    status = cuGraphLaunch(h->exec, stream);
    if (status != CUDA_SUCCESS) cuGraphExecDestroy(h->exec);
  }
  cuGraphDestroy(graph);
  h->pointer = parameters.dptr;
  return status;
}

static CUresult take(struct Holding* h, enum Path path, size_t bytes) {
  memset(h, 0, sizeof *h);
  h->path = path;
  h->bytes = bytes;
  CUDA_ARRAY_DESCRIPTOR flat = {1024, bytes / 4096 + 1, CU_AD_FORMAT_FLOAT, 1};
  CUDA_ARRAY3D_DESCRIPTOR deep = {256, 64, bytes / 65536 + 1, CU_AD_FORMAT_FLOAT, 1, 0};
  size_t pitch;
  char image[64];
  switch (path) {
    case PLAIN:
      return cuMemAlloc_v2(&h->pointer, bytes);
    case PITCH:
      return cuMemAllocPitch_v2(&h->pointer, &pitch, 1 + bytes % 700, bytes / 512 + 1, 4);
    case MANAGED:
      return cuMemAllocManaged(&h->pointer, bytes, CU_MEM_ATTACH_GLOBAL);
    case ASYNC:
      return cuMemAllocAsync(&h->pointer, bytes, stream);
    case POOL:
      return cuMemAllocFromPoolAsync(&h->pointer, bytes, pool, stream);
    case VMM:
      return take_vmm(h, bytes);
    case ARRAY:
      return cuArrayCreate_v2(&h->array, &flat);
    case ARRAY3D:
      return cuArray3DCreate_v2(&h->array, &deep);
    case MIPMAP:
      return cuMipmappedArrayCreate(&h->mipmap, &deep, 4);
    case GRAPH:
      return take_graph(h, bytes);
    case MODULE:
      snprintf(image, sizeof image, "standin size %zu", bytes);
      return cuModuleLoadData(&h->module, image);
    case PATHS:
      break;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

static void give_back(struct Holding* h) {
  switch (h->path) {
    case PLAIN:
    case PITCH:
    case MANAGED:
      CHECK(cuMemFree_v2(h->pointer));
      break;
    case ASYNC:
    case POOL:  // Either way of freeing must work for either kind of pointer.
      if (next_random() % 2 == 0) {
        CHECK(cuMemFree_v2(h->pointer));
      } else {
        CHECK(cuMemFreeAsync(h->pointer, stream));
      }
      break;
    case VMM:
      CHECK(cuMemUnmap(h->pointer, h->bytes));
      CHECK(cuMemAddressFree(h->pointer, h->bytes));
      CHECK(cuMemRelease(h->handle));
      break;
    case ARRAY:
    case ARRAY3D:
      CHECK(cuArrayDestroy(h->array));
      break;
    case MIPMAP:
      CHECK(cuMipmappedArrayDestroy(h->mipmap));
      break;
    case GRAPH:
      CHECK(cuMemFree_v2(h->pointer));
      CHECK(cuGraphExecDestroy(h->exec));
      break;
    case MODULE:
      CHECK(cuModuleUnload(h->module));
      break;
    case PATHS:
      break;
  }
  h->used = 0;
}

int main(int argc, char** argv) {
  const char* wanted = text_argument(argc, argv, "paths", "all");
  const size_t live = (size_t)number_argument(argc, argv, "live", 32);
  const size_t bytes_max = (size_t)(number_argument(argc, argv, "max-mib", 64) * 1048576);
  random_state = (uint64_t)number_argument(argc, argv, "seed", 1) * 0x9e3779b97f4a7c15ull + 1;
  enum Path paths[PATHS];
  size_t path_count = 0;
  for (int path = 0; path < PATHS; ++path)
    if (strcmp(wanted, "all") == 0 || strstr(wanted, kNames[path]) != NULL)
      paths[path_count++] = (enum Path)path;
  CUcontext context;
  open_device(&context);
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUmemPoolProps properties = {0};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuMemPoolCreate(&pool, &properties));
  struct Holding* holdings = calloc(live, sizeof *holdings);
  uint64_t taken[PATHS] = {0}, refused = 0;
  if (number_argument(argc, argv, "announce", 0) != 0) {
    printf("ready\n");
    fflush(stdout);
  }
  sleep_to((uint64_t)number_argument(argc, argv, "start-ns", 0));
  const uint64_t until = clock_ns() + (uint64_t)(number_argument(argc, argv, "seconds", 5) * 1e9);
  while (clock_ns() < until) {
    struct Holding* h = &holdings[next_random() % live];
    if (h->used) {
      give_back(h);
      continue;
    }
    const enum Path path = paths[next_random() % path_count];
    const CUresult status = take(h, path, 1 + next_random() % bytes_max);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
      ++refused;
      continue;
    }
    CHECK(status);
    h->used = 1;
    ++taken[path];
  }
  if (number_argument(argc, argv, "keep", 0) == 0) {
    for (size_t i = 0; i < live; ++i)
      if (holdings[i].used) give_back(&holdings[i]);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemPoolDestroy(pool));
  }
  printf("{\"refused\": %llu", (unsigned long long)refused);
  for (int path = 0; path < PATHS; ++path)
    printf(", \"%s\": %llu", kNames[path], (unsigned long long)taken[path]);
  printf("}\n");
  fflush(stdout);
  if (number_argument(argc, argv, "pause", 0) != 0) pause();
  _exit(0);
}
