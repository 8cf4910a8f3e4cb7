// SPDX-License-Identifier: Apache-2.0
// A tenant that keeps the device full: --kernel 2ms --path plain|ex|cooperative|grid|graph|ptsz|copy --stream
// own|null|legacy|per-thread --lookup plt|dlsym|procaddress --in-flight 16 --seconds 10 --grid 1024 --nodes 1
// --copy-bytes 1000000 --start-ns (CLOCK_MONOTONIC) --lead-seconds 0. Prints how many kernels, or copies to
// the device, ended inside the window, and in each second of it, by its own events.
#include "client.h"

typedef CUresult (*LaunchKernel)(CUfunction,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 CUstream,
                                 void**,
                                 void**);

struct Tenant {
  const char* path;
  CUfunction function;
  CUstream stream;
  CUgraphExec exec;
  LaunchKernel launch;
  unsigned grid_x, grid_y;
  uint64_t kernels_per_launch;
  CUdeviceptr copy_to;
  void* copy_from;
  size_t copy_bytes;
};

static LaunchKernel find_launch(const char* lookup, const char* name) {
  if (strcmp(lookup, "dlsym") == 0) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    return (LaunchKernel)dlsym(library, name);
  }
  void* found = NULL;
  CUdriverProcAddressQueryResult result;
  CHECK(cuGetProcAddress_v2("cuLaunchKernel",
                            &found,
                            12000,
                            strstr(name, "_ptsz") ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0,
                            &result));
  return (LaunchKernel)found;
}

static void launch_once(struct Tenant* t) {
  if (strcmp(t->path, "plain") == 0 || strcmp(t->path, "ptsz") == 0) {
    CHECK(t->launch(t->function, t->grid_x, t->grid_y, 1, 128, 1, 1, 0, t->stream, NULL, NULL));
  } else if (strcmp(t->path, "ex") == 0) {
    CUlaunchConfig config = {t->grid_x, t->grid_y, 1, 128, 1, 1, 0, t->stream, NULL, 0};
    CHECK(cuLaunchKernelEx(&config, t->function, NULL, NULL));
  } else if (strcmp(t->path, "cooperative") == 0) {
    CHECK(cuLaunchCooperativeKernel(t->function, t->grid_x, t->grid_y, 1, 128, 1, 1, 0, t->stream, NULL));
  } else if (strcmp(t->path, "grid") == 0) {
    CHECK(cuLaunchGridAsync(t->function, (int)t->grid_x, (int)t->grid_y, t->stream));
  } else if (strcmp(t->path, "graph") == 0) {
    CHECK(cuGraphLaunch(t->exec, t->stream));
  } else if (strcmp(t->path, "copy") == 0) {
    CHECK(cuMemcpyHtoDAsync_v2(t->copy_to, t->copy_from, t->copy_bytes, t->stream));
  } else {
    fprintf(stderr, "unknown path %s\n", t->path);
    exit(2);
  }
}

static CUgraphExec make_graph(CUfunction function, unsigned nodes) {
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (unsigned i = 0; i < nodes; ++i)
    CHECK(cuLaunchKernel(function, 64, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

int main(int argc, char** argv) {
  struct Tenant tenant = {0};
  tenant.path = text_argument(argc, argv, "path", "plain");
  const char* stream = text_argument(argc, argv, "stream", "own");
  const char* lookup = text_argument(argc, argv, "lookup", "plt");
  const unsigned in_flight = (unsigned)number_argument(argc, argv, "in-flight", 16);
  const unsigned nodes = (unsigned)number_argument(argc, argv, "nodes", 1);
  tenant.grid_x = (unsigned)number_argument(argc, argv, "grid", 1024);
  tenant.grid_y = (unsigned)number_argument(argc, argv, "grid-y", 1);
  char name[64];
  snprintf(name, sizeof name, "busy_%s", text_argument(argc, argv, "kernel", "2ms"));

  CUcontext context;
  CUmodule module = open_device(&context);
  CHECK(cuModuleGetFunction(&tenant.function, module, name));
  if (strcmp(stream, "own") == 0) CHECK(cuStreamCreate(&tenant.stream, CU_STREAM_NON_BLOCKING));
  if (strcmp(stream, "legacy") == 0) tenant.stream = CU_STREAM_LEGACY;
  if (strcmp(stream, "per-thread") == 0) tenant.stream = CU_STREAM_PER_THREAD;
  const int twin = strcmp(tenant.path, "ptsz") == 0;
  tenant.launch = strcmp(lookup, "plt") == 0
                      ? (twin ? cuLaunchKernel_ptsz : cuLaunchKernel)
                      : find_launch(lookup, twin ? "cuLaunchKernel_ptsz" : "cuLaunchKernel");
  if (strcmp(tenant.path, "graph") == 0) tenant.exec = make_graph(tenant.function, nodes);
  tenant.kernels_per_launch = strcmp(tenant.path, "graph") == 0 ? nodes : 1;
  if (strcmp(tenant.path, "copy") == 0) {
    tenant.copy_bytes = (size_t)number_argument(argc, argv, "copy-bytes", 1000000);
    CHECK(cuMemAlloc_v2(&tenant.copy_to, tenant.copy_bytes));
    CHECK(cuMemHostAlloc(&tenant.copy_from, tenant.copy_bytes, 0));
  }
  // The events go to the stream the work went to.
  CUstream event_stream = tenant.stream;
  if (twin && tenant.stream == NULL) event_stream = CU_STREAM_PER_THREAD;

  CUevent* events = calloc(in_flight, sizeof *events);
  for (unsigned i = 0; i < in_flight; ++i) CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
  const uint64_t start = (uint64_t)number_argument(argc, argv, "start-ns", (double)clock_ns());
  sleep_to(start);
  const uint64_t from = start + (uint64_t)(number_argument(argc, argv, "lead-seconds", 0) * 1e9);
  const uint64_t until = from + (uint64_t)(number_argument(argc, argv, "seconds", 10) * 1e9);
  uint64_t launched = 0, ended_inside = 0, now = 0, windows[64] = {0};
  while ((now = clock_ns()) < until) {
    if (launched >= in_flight) {
      CHECK(cuEventSynchronize(events[launched % in_flight]));
      now = clock_ns();
      if (now >= from && now < until) {
        ended_inside += tenant.kernels_per_launch;
        windows[(now - from) / 1000000000ull % 64] += tenant.kernels_per_launch;
      }
    }
    launch_once(&tenant);
    CHECK(cuEventRecord(events[launched % in_flight], event_stream));
    ++launched;
  }
  printf("{\"kernels\": %llu, \"launched\": %llu, \"seconds\": %.6f, \"from_ns\": %llu, \"until_ns\": %llu",
         (unsigned long long)ended_inside,
         (unsigned long long)launched,
         (double)(until - from) / 1e9,
         (unsigned long long)from,
         (unsigned long long)until);
  for (uint64_t i = 0; i < 64 && i < (until - from) / 1000000000ull; ++i)
    printf(", \"window_%llu\": %llu", (unsigned long long)i, (unsigned long long)windows[i]);
  printf("}\n");
  fflush(stdout);
  _exit(0);
}
