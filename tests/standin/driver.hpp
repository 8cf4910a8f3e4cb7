// SPDX-License-Identifier: Apache-2.0
#pragma once
// What does one process hold of the simulated driver? Contexts, streams, events, functions, graphs and
// memory, all behind one lock; only waiting happens outside it.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <sys/types.h>
#include <thread>
#include <unordered_map>
#include <vector>

#include "call_counts.hpp"
#include "device_state.hpp"
#include "standin_cuda.h"

#define STANDIN_API extern "C" __attribute__((visibility("default"))) CUresult
#define STANDIN_ENTRY(name) const ::standin::CallScope entry_scope(::standin::Call::name)

namespace standin {

enum class KernelKind { kBusy, kBusyArgument, kFill, kCopy, kCanaryWrite, kCanaryCheck, kCountNonzero, kAdd };

struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Engine engine = Engine::kCompute;
  std::uint64_t length_ns = 0;
  std::function<void()> effect;  // Happens when the work ends, not when it is queued.
  bool runs_host_code = false;
};

struct Capture {
  CUgraph graph = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUstream origin = nullptr;
  std::thread::id thread;
  std::uint64_t id = 0;
  bool invalidated = false;
  std::set<CUstream> streams;
};

enum class MemoryKind { kPlain, kManaged, kAsync, kMapped, kImported, kHost, kGraph, kExternal };

struct Allocation {
  CUdeviceptr base = 0;
  std::uint64_t size = 0;
  unsigned device = 0;
  std::uint32_t block = kNone;
  MemoryKind kind = MemoryKind::kPlain;
  CUmemoryPool pool = nullptr;
  CUcontext context = nullptr;
};

struct GraphMemory : Allocation {     // Behind an address that an allocation node gave out.
  std::uint64_t needed_until_ns = 0;  // Work that may use it is queued until then.
};

}  // namespace standin

struct CUctx_st {
  unsigned device = 0;
  unsigned flags = 0;
  std::uint64_t id = 0;
  std::uint32_t block = standin::kNone;
  CUstream legacy = nullptr;
  std::uint64_t blocking_tail_ns = 0;  // Latest end over all streams that synchronise with the legacy stream.
  std::uint64_t any_tail_ns = 0;
  std::set<CUstream> streams;
  std::size_t limits[16] = {1024, 1 << 20, 8 << 20};
};

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  std::uint64_t tail_ns = 0;
  std::vector<std::uint64_t> ring;  // Ends of the last queue_depth launches.
  std::size_t ring_next = 0;
  std::shared_ptr<standin::Capture> capture;
  std::vector<CUgraphNode> capture_tail;
};

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  std::uint64_t done_ns = 0;
  std::shared_ptr<standin::Capture> capture;
  std::vector<CUgraphNode> capture_tail;
};

struct CUfunc_st {
  std::string name;
  CUmodule module = nullptr;
  standin::KernelKind kind = standin::KernelKind::kBusy;
  std::uint64_t length_ns = 0;
  int block_shape[3] = {1, 1, 1};
};

struct CUkern_st {
  CUfunc_st function;  // First, because programs cast a CUkernel to a CUfunction.
  CUlibrary library = nullptr;
};

struct CUmod_st {
  unsigned device = 0;
  std::uint32_t block = standin::kNone;
  std::map<std::string, std::uint64_t> listed;  // Kernels named by the image, with their lengths.
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
  std::map<std::string, standin::Allocation> globals;
};

struct CUlib_st {
  CUmodule module = nullptr;
  std::map<std::string, std::unique_ptr<CUkern_st>> kernels;
};

struct CUmemPoolHandle_st {
  unsigned device = 0;
  std::uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  std::uint64_t id = 0;
  bool imported = false;
  struct Cached {
    std::uint32_t block;
    std::uint64_t size, free_at_ns;
    CUstream stream;
  };
  std::vector<Cached> cached;
};

struct CUarray_st {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  standin::Allocation memory;
  std::uint64_t row_bytes = 0;
  bool borrowed = false;  // A level of a mipmapped array.
};

struct CUmipmappedArray_st {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  standin::Allocation memory;
  std::vector<std::unique_ptr<CUarray_st>> levels;
  bool borrowed = false;
};

struct CUextMemory_st {
  standin::Allocation memory;
};

struct CUgraphNode_st {
  CUgraph graph = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::vector<CUgraphNode> after;
  bool enabled = true;
  // As given, so that it can be read back and replaced.
  CUDA_KERNEL_NODE_PARAMS kernel{};
  std::vector<std::uint64_t> arguments;
  std::vector<void*> argument_pointers;
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS fill{};
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
  CUdeviceptr freed = 0;
  CUgraph child = nullptr;
  CUevent event = nullptr;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // As added; in a copy, in an order that can run.
};

struct CUgraphExec_st {
  CUgraph graph = nullptr;                      // Own copy.
  std::map<CUgraphNode, CUgraphNode> own_node;  // From the caller's node to the copy.
  CUcontext context = nullptr;
  cuuint64_t flags = 0;
  std::set<CUdeviceptr> addresses;  // Of allocation nodes that ran.
};

namespace standin {

struct PhysicalMemory {  // Behind a CUmemGenericAllocationHandle.
  unsigned device = 0;
  std::uint32_t block = kNone;
  std::uint64_t size = 0;
  unsigned references = 1;
  CUmemAllocationProp properties{};
};

struct Driver {
  std::recursive_mutex mutex;
  SharedState* shared = nullptr;
  std::uint32_t slot = kNone;
  pid_t pid = 0;
  std::uint8_t* vram[kDevicesMax] = {};
  int vram_file[kDevicesMax] = {-1, -1, -1, -1, -1, -1, -1, -1};
  std::uint64_t next_id = 1;
  std::atomic<std::uint64_t> last_now_ns{0};  // Saves reading the clock twice in a launch.
  CUcontext primary[kDevicesMax] = {};
  unsigned primary_count[kDevicesMax] = {};
  std::set<CUcontext> contexts;
  std::set<std::shared_ptr<Capture>> captures;
  std::unordered_map<CUdeviceptr, Allocation> allocations;
  std::map<void*, std::size_t> host_registered;
  CUmemoryPool default_pool[kDevicesMax] = {};
  CUmemoryPool current_pool[kDevicesMax] = {};
  std::set<CUmemoryPool> pools;
  std::set<CUgraphExec> execs;
  std::map<CUdeviceptr, GraphMemory> graph_memory;
  std::uint64_t graph_used[kDevicesMax] = {}, graph_used_high[kDevicesMax] = {};
  std::uint64_t graph_reserved[kDevicesMax] = {}, graph_reserved_high[kDevicesMax] = {};

  const Config& config() const { return shared->config; }
};

Driver& driver();

// Holds the driver of this process. Waits while the process is locked for a checkpoint: nothing changes then.
class Guard {
 public:
  explicit Guard(std::recursive_mutex& mutex);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  std::recursive_mutex& mutex_;
};
void start_checkpoint_service();
// Shows every mapping of physical memory where its block is now.
void map_again();

// CUDA_SUCCESS when cuInit ran in this very process (a forked child is refused, as by the real driver).
CUresult ready();
CUcontext current_context();
std::uint8_t* device_memory(unsigned device);

// Memory.
CUresult allocate(CUcontext context, std::uint64_t bytes, MemoryKind kind, Allocation& out);
CUresult free_allocation(CUdeviceptr pointer);  // Without waiting.
const Allocation* find_allocation(CUdeviceptr pointer);
void trim_pools();
CUresult allocate_async(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool, CUstream stream);
void free_into_pool(CUdeviceptr pointer, CUstream stream);
CUmemoryPool default_pool(unsigned device);
CUresult map_block(
    CUdeviceptr at, unsigned device, std::uint32_t block, std::uint64_t offset, std::uint64_t bytes);
CUresult reserve_address(CUdeviceptr* out, std::uint64_t bytes);

// Streams and time.
CUstream resolve(CUstream stream);
std::uint64_t schedule(CUstream stream, const Work& work);  // Returns when it ends.
std::uint64_t run_at(CUcontext context, const Work& work, std::uint64_t ready_ns);
void advance(CUstream stream, std::uint64_t end_ns);
std::uint64_t stream_front(CUstream stream);                      // When everything before it is done.
CUgraphNode capture_node(CUstream stream, CUgraphNodeType type);  // Appends to a capturing stream.
bool is_device_pointer(CUdeviceptr pointer);
void wait_until_known(std::uint64_t done_ns);
bool is_known(std::uint64_t done_ns);
bool has_ended(std::uint64_t end_ns);  // Effects and all, whether or not the host could know.
void add_effect(std::uint64_t at_ns, std::function<void()> effect, bool runs_host_code);
void wait_for_room(CUstream stream);

// Capture rules.
CUresult refuse_unsafe_call();            // For calls that may synchronise implicitly.
CUresult refuse_sync(CUstream stream);    // For waits and queries of one stream.
CUresult capture_state(CUstream stream);  // Invalidated captures refuse everything.
CUgraphNode new_node(CUgraph graph, CUgraphNodeType type, const CUgraphNode* after, std::size_t count);

std::uint64_t image_memory(const char* image);  // Zero: its format says nothing.

// Work from descriptions.
Work kernel_work(CUfunction function, const std::vector<std::uint64_t>& arguments);
std::vector<std::uint64_t> kernel_arguments(CUfunction function, void** parameters, void** extra);
Work copy_work(const CUDA_MEMCPY3D& copy);
Work fill_work(const CUDA_MEMSET_NODE_PARAMS& fill);
CUresult check_copy(const CUDA_MEMCPY3D& copy);
CUDA_MEMCPY3D line_copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);

}  // namespace standin
