// SPDX-License-Identifier: Apache-2.0
// Initialisation, devices and contexts of the stand-in driver.
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.hpp"

namespace standin {
namespace {
std::atomic<std::uint64_t> counts_before_init[kCallCount];
thread_local std::vector<CUcontext> context_stack;
}  // namespace

std::atomic<std::uint64_t>* call_counts = counts_before_init;
thread_local bool default_stream_is_per_thread = false;
thread_local bool inside_call = false;

Driver& driver() {
  static Driver* const one = new Driver;
  return *one;
}

CUresult ready() {
  const Driver& all = driver();
  return all.shared != nullptr && all.pid == ::getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUcontext current_context() {
  return context_stack.empty() ? nullptr : context_stack.back();
}

std::uint8_t* device_memory(unsigned device) {
  Driver& all = driver();
  if (all.vram[device] != nullptr) return all.vram[device];
  const std::string path = state_path() + ".vram" + std::to_string(device);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(all.config().vram_bytes)) != 0) return nullptr;
  void* memory =
      ::mmap(nullptr, all.config().vram_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  all.vram_file[device] = file;
  all.vram[device] = static_cast<std::uint8_t*>(memory);
  return all.vram[device];
}

namespace {

CUresult make_context(CUcontext* out, unsigned flags, CUdevice device) {
  Driver& all = driver();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || static_cast<unsigned>(device) >= all.config().device_count)
    return CUDA_ERROR_INVALID_DEVICE;
  if (device_memory(static_cast<unsigned>(device)) == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  auto context = std::make_unique<CUctx_st>();
  context->device = static_cast<unsigned>(device);
  context->flags = flags;
  context->id = all.next_id++;
  if (all.config().context_bytes != 0) {
    const StateLock lock(*all.shared);
    context->block = take_block(*all.shared, context->device, all.config().context_bytes, all.slot);
    if (context->block == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->legacy = new CUstream_st;
  context->legacy->context = context.get();
  context->legacy->id = all.next_id++;
  all.contexts.insert(context.get());
  *out = context.release();
  return CUDA_SUCCESS;
}

// As the real driver: destroying a context releases everything made in it.
CUresult end_context(CUcontext context) {
  Driver& all = driver();
  if (!all.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
  wait_until_known(context->any_tail_ns);
  std::vector<CUdeviceptr> held;
  for (const auto& [base, allocation] : all.allocations)
    if (allocation.context == context && allocation.kind != MemoryKind::kMapped) held.push_back(base);
  for (const CUdeviceptr base : held) free_allocation(base);
  if (context->block != kNone) {
    const StateLock lock(*all.shared);
    drop_block(*all.shared, context->device, context->block, all.slot);
  }
  all.contexts.erase(context);
  std::erase(context_stack, context);
  return CUDA_SUCCESS;  // The object itself stays: handles of the program may still point to it.
}

bool valid(CUdevice device) {
  return device >= 0 && static_cast<unsigned>(device) < driver().config().device_count;
}

}  // namespace
}  // namespace standin

using namespace standin;

STANDIN_API cuInit(unsigned int flags) {
  STANDIN_ENTRY(cuInit);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& all = driver();
  const Guard guard(all.mutex);
  if (all.shared != nullptr) return all.pid == ::getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  SharedState* shared = attach_state();
  if (shared == nullptr) return CUDA_ERROR_NO_DEVICE;
  all.slot = attach_slot(*shared);
  if (all.slot == kNone) return CUDA_ERROR_OPERATING_SYSTEM;
  for (unsigned call = 0; call < kCallCount; ++call)
    shared->slots[all.slot].calls[call].fetch_add(call_counts[call].load());
  call_counts = shared->slots[all.slot].calls;
  all.pid = ::getpid();
  all.shared = shared;
  if (shared->config.checkpoint_supported != 0) start_checkpoint_service();
  return CUDA_SUCCESS;
}

STANDIN_API cuDriverGetVersion(int* version) {
  STANDIN_ENTRY(cuDriverGetVersion);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const SharedState* shared = attach_state();
  if (shared == nullptr) return CUDA_ERROR_NO_DEVICE;
  *version = shared->config.driver_version;
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetCount(int* count) {
  STANDIN_ENTRY(cuDeviceGetCount);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(driver().config().device_count);
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGet(CUdevice* device, int ordinal) {
  STANDIN_ENTRY(cuDeviceGet);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetName(char* name, int length, CUdevice device) {
  STANDIN_ENTRY(cuDeviceGetName);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<std::size_t>(length), "Tranche stand-in (SIMULATED)");
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  STANDIN_ENTRY(cuDeviceGetUuid_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, "SIMULATED-DEV-0", 16);  // Sixteen bytes with the closing zero.
  uuid->bytes[14] = static_cast<char>('0' + device);
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  STANDIN_ENTRY(cuDeviceGetUuid);
  return cuDeviceGetUuid_v2(uuid, device);
}

STANDIN_API cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  STANDIN_ENTRY(cuDeviceTotalMem_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = driver().config().vram_bytes;
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  STANDIN_ENTRY(cuDeviceGetAttribute);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::map<int, int> known = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, static_cast<int>(driver().config().multiprocessors)},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
       static_cast<int>(driver().config().threads_per_multiprocessor)},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1}};
  const auto found = known.find(attribute);
  *value = found == known.end() ? 0 : found->second;
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  STANDIN_ENTRY(cuDeviceComputeCapability);
  if (!valid(device) || major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = 9;
  *minor = 0;
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  STANDIN_ENTRY(cuDeviceGetProperties);
  if (!valid(device) || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = {
      1024, {1024, 1024, 64}, {2147483647, 65535, 65535}, 49152, 65536, 32, 2147483647, 65536, 1, 512};
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  STANDIN_ENTRY(cuDeviceGetPCIBusId);
  if (!valid(device) || text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  STANDIN_ENTRY(cuDeviceGetByPCIBusId);
  unsigned bus = 0;
  if (device == nullptr || text == nullptr || std::sscanf(text, "%*x:%x:", &bus) != 1 || bus == 0 ||
      !valid(static_cast<int>(bus) - 1))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = static_cast<int>(bus) - 1;
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  STANDIN_ENTRY(cuDeviceCanAccessPeer);
  *can = 0;
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  STANDIN_ENTRY(cuCtxCreate_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  if (const CUresult status = make_context(context, flags, device); status != CUDA_SUCCESS) return status;
  context_stack.push_back(*context);
  return CUDA_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) CUresult
cuCtxCreate_v3(CUcontext* context, void*, int, unsigned int flags, CUdevice device) {
  STANDIN_ENTRY(cuCtxCreate_v3);
  return cuCtxCreate_v2(context, flags, device);
}

extern "C" __attribute__((visibility("default"))) CUresult cuCtxCreate_v4(CUcontext* context,
                                                                          void*,
                                                                          unsigned int flags,
                                                                          CUdevice device) {
  STANDIN_ENTRY(cuCtxCreate_v4);
  return cuCtxCreate_v2(context, flags, device);
}

STANDIN_API cuCtxDestroy_v2(CUcontext context) {
  STANDIN_ENTRY(cuCtxDestroy_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  return end_context(context);
}

STANDIN_API cuCtxDestroy(CUcontext context) {
  STANDIN_ENTRY(cuCtxDestroy);
  return cuCtxDestroy_v2(context);
}

STANDIN_API cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc, CUdevice device, unsigned int flags) {
  STANDIN_ENTRY(cuGreenCtxCreate);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  CUcontext context = nullptr;
  const CUresult status = make_context(&context, flags, device);
  *out = reinterpret_cast<CUgreenCtx>(context);
  return status;
}

STANDIN_API cuGreenCtxDestroy(CUgreenCtx green) {
  STANDIN_ENTRY(cuGreenCtxDestroy);
  const Guard guard(driver().mutex);
  return end_context(reinterpret_cast<CUcontext>(green));
}

STANDIN_API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  STANDIN_ENTRY(cuDevicePrimaryCtxRetain);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  Driver& all = driver();
  const Guard guard(all.mutex);
  CUcontext& primary = all.primary[device];
  if (all.primary_count[device] == 0)
    if (const CUresult status = make_context(&primary, 0, device); status != CUDA_SUCCESS) return status;
  ++all.primary_count[device];
  *context = primary;
  return CUDA_SUCCESS;
}

STANDIN_API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  STANDIN_ENTRY(cuDevicePrimaryCtxRelease_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  Driver& all = driver();
  const Guard guard(all.mutex);
  if (!valid(device) || all.primary_count[device] == 0) return CUDA_ERROR_INVALID_CONTEXT;
  return --all.primary_count[device] == 0 ? end_context(all.primary[device]) : CUDA_SUCCESS;
}

STANDIN_API cuDevicePrimaryCtxRelease(CUdevice device) {
  STANDIN_ENTRY(cuDevicePrimaryCtxRelease);
  return cuDevicePrimaryCtxRelease_v2(device);
}

STANDIN_API cuDevicePrimaryCtxReset_v2(CUdevice device) {
  STANDIN_ENTRY(cuDevicePrimaryCtxReset_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  Driver& all = driver();
  const Guard guard(all.mutex);
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (all.primary_count[device] == 0) return CUDA_SUCCESS;
  all.primary_count[device] = 0;
  return end_context(all.primary[device]);
}

STANDIN_API cuDevicePrimaryCtxReset(CUdevice device) {
  STANDIN_ENTRY(cuDevicePrimaryCtxReset);
  return cuDevicePrimaryCtxReset_v2(device);
}

STANDIN_API cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  STANDIN_ENTRY(cuDevicePrimaryCtxGetState);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = driver().primary_count[device] != 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

STANDIN_API cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned int) {
  STANDIN_ENTRY(cuDevicePrimaryCtxSetFlags_v2);
  return ready();
}

STANDIN_API cuDevicePrimaryCtxSetFlags(CUdevice, unsigned int) {
  STANDIN_ENTRY(cuDevicePrimaryCtxSetFlags);
  return ready();
}

STANDIN_API cuCtxPushCurrent_v2(CUcontext context) {
  STANDIN_ENTRY(cuCtxPushCurrent_v2);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack.push_back(context);
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxPushCurrent(CUcontext context) {
  STANDIN_ENTRY(cuCtxPushCurrent);
  return cuCtxPushCurrent_v2(context);
}

STANDIN_API cuCtxPopCurrent_v2(CUcontext* context) {
  STANDIN_ENTRY(cuCtxPopCurrent_v2);
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = context_stack.back();
  context_stack.pop_back();
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxPopCurrent(CUcontext* context) {
  STANDIN_ENTRY(cuCtxPopCurrent);
  return cuCtxPopCurrent_v2(context);
}

STANDIN_API cuCtxSetCurrent(CUcontext context) {
  STANDIN_ENTRY(cuCtxSetCurrent);
  if (!context_stack.empty()) context_stack.pop_back();
  if (context != nullptr) context_stack.push_back(context);
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxGetCurrent(CUcontext* context) {
  STANDIN_ENTRY(cuCtxGetCurrent);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = current_context();
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxGetDevice(CUdevice* device) {
  STANDIN_ENTRY(cuCtxGetDevice);
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = static_cast<int>(current_context()->device);
  return CUDA_SUCCESS;
}
