// SPDX-License-Identifier: Apache-2.0
// Virtual memory management and memory shared between processes: physical handles, mappings, IPC,
// descriptors, external memory. A shared block stays until its last holder lets go.
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.hpp"

namespace standin {
namespace {

constexpr std::uint64_t kGranularity = 2ULL << 20;
constexpr std::uint64_t kTicketMagic = 0x544943534e415254;

struct Ticket {  // What an IPC handle or an exported descriptor carries.
  std::uint64_t magic = kTicketMagic;
  std::uint32_t device = 0, block = 0, generation = 0, slot = 0;
  std::uint64_t size = 0;
};
static_assert(sizeof(Ticket) <= 64);

Ticket make_ticket(unsigned device, std::uint32_t block, std::uint64_t size) {
  const Driver& all = driver();
  Ticket ticket;
  ticket.device = device;
  ticket.block = block;
  ticket.generation = all.shared->devices[device].blocks[block].generation;
  ticket.slot = all.slot;
  ticket.size = size;
  return ticket;
}

CUresult redeem(const Ticket& ticket) {
  Driver& all = driver();
  if (ticket.magic != kTicketMagic || ticket.device >= all.config().device_count ||
      ticket.block >= kBlocksMax)
    return CUDA_ERROR_INVALID_VALUE;
  const StateLock lock(*all.shared);
  const Block& block = all.shared->devices[ticket.device].blocks[ticket.block];
  if (block.state.load() != BlockState::kUsed || block.generation != ticket.generation)
    return CUDA_ERROR_INVALID_HANDLE;
  hold_block(*all.shared, ticket.device, ticket.block, all.slot);
  return CUDA_SUCCESS;
}

int write_descriptor(const Ticket& ticket) {
  const int file = ::memfd_create("standin-shared", MFD_CLOEXEC);
  if (file >= 0 && ::write(file, &ticket, sizeof ticket) != static_cast<ssize_t>(sizeof ticket)) return -1;
  return file;
}

PhysicalMemory* physical(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<PhysicalMemory*>(handle);  // NOLINT: a handle is this pointer.
}

void unreference(PhysicalMemory* memory) {
  if (--memory->references != 0) return;
  Driver& all = driver();
  {
    const StateLock lock(*all.shared);
    drop_block(*all.shared, memory->device, memory->block, all.slot);
  }
  delete memory;
}

struct Mapping {
  std::uint64_t size;
  PhysicalMemory* memory;
  std::uint64_t offset;
};
std::map<CUdeviceptr, Mapping>& mappings() {
  static auto* const all = new std::map<CUdeviceptr, Mapping>;
  return *all;
}

CUresult adopt(const Ticket& ticket, MemoryKind kind, CUdeviceptr* out) {
  Driver& all = driver();
  if (device_memory(ticket.device) == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  Allocation made;
  made.device = ticket.device;
  made.block = ticket.block;
  made.size = ticket.size;
  made.kind = kind;
  made.context = current_context();
  made.base = reinterpret_cast<CUdeviceptr>(device_memory(ticket.device) +
                                            all.shared->devices[ticket.device].blocks[ticket.block].offset);
  all.allocations[made.base] = made;
  *out = made.base;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult reserve_address(CUdeviceptr* out, std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult map_block(
    CUdeviceptr at, unsigned device, std::uint32_t block, std::uint64_t offset, std::uint64_t bytes) {
  Driver& all = driver();
  if (device_memory(device) == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  void* where = ::mmap(reinterpret_cast<void*>(at),
                       bytes,
                       PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                       all.vram_file[device],
                       static_cast<off_t>(all.shared->devices[device].blocks[block].offset + offset));
  return where == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void map_again() {
  for (const auto& [at, mapping] : mappings())
    map_block(at, mapping.memory->device, mapping.memory->block, mapping.offset, mapping.size);
}

}  // namespace standin

using namespace standin;

STANDIN_API cuMemGetAllocationGranularity(size_t* out,
                                          const CUmemAllocationProp*,
                                          CUmemAllocationGranularity_flags) {
  STANDIN_ENTRY(cuMemGetAllocationGranularity);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = kGranularity;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemCreate(CUmemGenericAllocationHandle* out,
                        size_t bytes,
                        const CUmemAllocationProp* properties,
                        unsigned long long) {
  STANDIN_ENTRY(cuMemCreate);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || properties == nullptr || bytes == 0 || bytes % kGranularity != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      static_cast<unsigned>(properties->location.id) >= driver().config().device_count)
    return CUDA_ERROR_INVALID_DEVICE;
  Driver& all = driver();
  const Guard guard(all.mutex);
  auto memory = std::make_unique<PhysicalMemory>();
  memory->device = static_cast<unsigned>(properties->location.id);
  memory->size = bytes;
  memory->properties = *properties;
  {
    const StateLock lock(*all.shared);
    memory->block = take_block(*all.shared, memory->device, bytes, all.slot);
  }
  if (memory->block == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(memory.release());
  return CUDA_SUCCESS;
}

STANDIN_API cuMemRelease(CUmemGenericAllocationHandle handle) {
  STANDIN_ENTRY(cuMemRelease);
  if (handle == 0) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  unreference(physical(handle));
  return CUDA_SUCCESS;
}

STANDIN_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  STANDIN_ENTRY(cuMemRetainAllocationHandle);
  const Guard guard(driver().mutex);
  const auto pointer = reinterpret_cast<CUdeviceptr>(address);
  for (const auto& [base, mapping] : mappings()) {
    if (pointer < base || pointer >= base + mapping.size) continue;
    ++mapping.memory->references;
    *out = reinterpret_cast<CUmemGenericAllocationHandle>(mapping.memory);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

STANDIN_API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                   CUmemGenericAllocationHandle handle) {
  STANDIN_ENTRY(cuMemGetAllocationPropertiesFromHandle);
  if (handle == 0 || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = physical(handle)->properties;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  STANDIN_ENTRY(cuMemAddressReserve);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || bytes == 0 || bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  return reserve_address(out, bytes);
}

STANDIN_API cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  STANDIN_ENTRY(cuMemAddressFree);
  return ::munmap(reinterpret_cast<void*>(at), bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_API cuMemMap(
    CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long) {
  STANDIN_ENTRY(cuMemMap);
  if (handle == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& all = driver();
  const Guard guard(all.mutex);
  PhysicalMemory* memory = physical(handle);
  if (offset + bytes > memory->size || mappings().contains(at)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult status = map_block(at, memory->device, memory->block, offset, bytes);
      status != CUDA_SUCCESS)
    return status;
  ::mprotect(reinterpret_cast<void*>(at), bytes, PROT_NONE);  // Until access is granted.
  ++memory->references;
  mappings()[at] = {bytes, memory, offset};
  Allocation made;
  made.base = at;
  made.size = bytes;
  made.device = memory->device;
  made.kind = MemoryKind::kMapped;
  all.allocations[at] = made;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc*, size_t) {
  STANDIN_ENTRY(cuMemSetAccess);
  return ::mprotect(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_API cuMemGetAccess(unsigned long long* flags, const CUmemLocation*, CUdeviceptr) {
  STANDIN_ENTRY(cuMemGetAccess);
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemUnmap(CUdeviceptr at, size_t bytes) {
  STANDIN_ENTRY(cuMemUnmap);
  Driver& all = driver();
  const Guard guard(all.mutex);
  auto found = mappings().lower_bound(at);
  if (found == mappings().end() || found->first != at) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() != nullptr) wait_until_known(current_context()->any_tail_ns);
  while (found != mappings().end() && found->first < at + bytes) {
    void* where = reinterpret_cast<void*>(found->first);
    if (::mmap(where,
               found->second.size,
               PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
               -1,
               0) == MAP_FAILED)
      return CUDA_ERROR_OPERATING_SYSTEM;
    all.allocations.erase(found->first);
    unreference(found->second.memory);
    found = mappings().erase(found);
  }
  return CUDA_SUCCESS;
}

STANDIN_API cuMemExportToShareableHandle(void* out,
                                         CUmemGenericAllocationHandle handle,
                                         CUmemAllocationHandleType type,
                                         unsigned long long) {
  STANDIN_ENTRY(cuMemExportToShareableHandle);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || handle == 0) return CUDA_ERROR_NOT_SUPPORTED;
  const PhysicalMemory* memory = physical(handle);
  const int file = write_descriptor(make_ticket(memory->device, memory->block, memory->size));
  if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = file;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out,
                                           void* descriptor,
                                           CUmemAllocationHandleType type) {
  STANDIN_ENTRY(cuMemImportFromShareableHandle);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Ticket ticket;
  const auto file = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
  if (::pread(file, &ticket, sizeof ticket, 0) != static_cast<ssize_t>(sizeof ticket))
    return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  if (const CUresult status = redeem(ticket); status != CUDA_SUCCESS) return status;
  auto memory = std::make_unique<PhysicalMemory>();
  memory->device = ticket.device;
  memory->block = ticket.block;
  memory->size = ticket.size;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(memory.release());
  return CUDA_SUCCESS;
}

STANDIN_API cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  STANDIN_ENTRY(cuIpcGetMemHandle);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  const Allocation* found = find_allocation(pointer);
  if (found == nullptr || found->kind != MemoryKind::kPlain) return CUDA_ERROR_INVALID_VALUE;
  const Ticket ticket = make_ticket(found->device, found->block, found->size);
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &ticket, sizeof ticket);
  return CUDA_SUCCESS;
}

STANDIN_API cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int) {
  STANDIN_ENTRY(cuIpcOpenMemHandle_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Ticket ticket;
  std::memcpy(static_cast<void*>(&ticket), &handle, sizeof ticket);
  const Guard guard(driver().mutex);
  if (ticket.slot == driver().slot) return CUDA_ERROR_INVALID_CONTEXT;  // Not in the process that made it.
  if (const CUresult status = redeem(ticket); status != CUDA_SUCCESS) return status;
  return adopt(ticket, MemoryKind::kImported, out);
}

STANDIN_API cuIpcCloseMemHandle(CUdeviceptr pointer) {
  STANDIN_ENTRY(cuIpcCloseMemHandle);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  return free_allocation(pointer);
}

STANDIN_API cuMemPoolExportToShareableHandle(void* out,
                                             CUmemoryPool pool,
                                             CUmemAllocationHandleType,
                                             unsigned long long) {
  STANDIN_ENTRY(cuMemPoolExportToShareableHandle);
  Ticket ticket;
  ticket.device = pool->device;
  ticket.block = kBlocksMax;  // A pool, not a block.
  *static_cast<int*>(out) = write_descriptor(ticket);
  return CUDA_SUCCESS;
}

STANDIN_API cuMemPoolImportFromShareableHandle(CUmemoryPool* out,
                                               void* descriptor,
                                               CUmemAllocationHandleType,
                                               unsigned long long) {
  STANDIN_ENTRY(cuMemPoolImportFromShareableHandle);
  Ticket ticket;
  const auto file = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
  if (::pread(file, &ticket, sizeof ticket, 0) != static_cast<ssize_t>(sizeof ticket) ||
      ticket.magic != kTicketMagic || ticket.device >= driver().config().device_count)
    return CUDA_ERROR_INVALID_VALUE;
  auto pool = std::make_unique<CUmemPoolHandle_st>();
  pool->device = ticket.device;
  pool->imported = true;
  *out = pool.release();
  return CUDA_SUCCESS;
}

STANDIN_API cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr pointer) {
  STANDIN_ENTRY(cuMemPoolExportPointer);
  const Guard guard(driver().mutex);
  const Allocation* found = find_allocation(pointer);
  if (found == nullptr || found->kind != MemoryKind::kAsync) return CUDA_ERROR_INVALID_VALUE;
  const Ticket ticket = make_ticket(found->device, found->block, found->size);
  std::memcpy(out, &ticket, sizeof ticket);
  return CUDA_SUCCESS;
}

STANDIN_API cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool, CUmemPoolPtrExportData* data) {
  STANDIN_ENTRY(cuMemPoolImportPointer);
  Ticket ticket;
  std::memcpy(static_cast<void*>(&ticket), data, sizeof ticket);
  const Guard guard(driver().mutex);
  if (const CUresult status = redeem(ticket); status != CUDA_SUCCESS) return status;
  return adopt(ticket, MemoryKind::kPlain, out);
}

STANDIN_API cuImportExternalMemory(CUexternalMemory* out,
                                   const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  STANDIN_ENTRY(cuImportExternalMemory);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD || description->size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  auto memory = std::make_unique<CUextMemory_st>();
  const CUresult status =
      allocate(current_context(), description->size, MemoryKind::kExternal, memory->memory);
  if (status != CUDA_SUCCESS) return status;
  *out = memory.release();
  return CUDA_SUCCESS;
}

STANDIN_API cuExternalMemoryGetMappedBuffer(CUdeviceptr* out,
                                            CUexternalMemory memory,
                                            const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) {
  STANDIN_ENTRY(cuExternalMemoryGetMappedBuffer);
  if (description->offset + description->size > memory->memory.size) return CUDA_ERROR_INVALID_VALUE;
  *out = memory->memory.base + description->offset;
  return CUDA_SUCCESS;
}

STANDIN_API cuDestroyExternalMemory(CUexternalMemory memory) {
  STANDIN_ENTRY(cuDestroyExternalMemory);
  const Guard guard(driver().mutex);
  const CUresult status = free_allocation(memory->memory.base);
  delete memory;
  return status;
}
