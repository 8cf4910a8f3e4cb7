// SPDX-License-Identifier: Apache-2.0
// Copies of whole ranges, fills and mappings: charged by their bytes, in pieces while others share the
// device.
#include <algorithm>
#include <type_traits>

#include "guard/opencl/cl_front.hpp"

namespace tranche::guard::opencl {
namespace {

// Calls `piece(offset, bytes, blocking, waits, list, event)` for each part of a range. Only the first part
// waits for the program's list and only the last carries its event, which is right in a queue that keeps
// order.
template <typename Piece>
cl_int in_pieces(cl_command_queue queue,
                 std::uint64_t bytes,
                 Blocking blocking,
                 cl_uint waits,
                 const cl_event* list,
                 cl_event* event,
                 Piece&& piece) {
  const QueueRecord record = find_queue(queue);
  const std::uint64_t most = record.in_order ? max_copy_chunk(record.device) : UINT64_MAX;
  std::uint64_t done = 0;
  do {
    const std::uint64_t part = std::min(most, bytes - done);
    const bool last = done + part == bytes;
    const bool first = done == 0;
    const cl_int status = gated_copy(
        queue, part, last ? blocking : Blocking::kNo, last ? event : nullptr, [&](cl_event* where) {
          return piece(done, part, first ? waits : 0, first ? list : nullptr, where);
        });
    if (status != CL_SUCCESS) return status;
    done += part;
  } while (done < bytes);
  return CL_SUCCESS;
}

// Reading and writing differ in the entry point below and in whether the program's bytes are const.
template <auto kEntry, typename Byte>
cl_int CL_API_CALL transfer_buffer(cl_command_queue queue,
                                   cl_mem memory,
                                   cl_bool blocking,
                                   size_t offset,
                                   size_t bytes,
                                   std::conditional_t<std::is_const_v<Byte>, const void, void>* host,
                                   cl_uint waits,
                                   const cl_event* list,
                                   cl_event* event) {
  if (host == nullptr) return CL_INVALID_VALUE;
  return in_pieces(queue,
                   bytes,
                   blocking_of(blocking),
                   waits,
                   list,
                   event,
                   [&](size_t at, size_t part, cl_uint n, const cl_event* before, cl_event* where) {
                     return (real.*kEntry)(queue,
                                           unwrap(memory),
                                           CL_FALSE,
                                           offset + at,
                                           part,
                                           static_cast<Byte*>(host) + at,
                                           n,
                                           before,
                                           where);
                   });
}

cl_int CL_API_CALL copy_buffer(cl_command_queue queue,
                               cl_mem from,
                               cl_mem to,
                               size_t from_offset,
                               size_t to_offset,
                               size_t bytes,
                               cl_uint waits,
                               const cl_event* list,
                               cl_event* event) {
  return in_pieces(
      queue,
      bytes,
      Blocking::kNo,
      waits,
      list,
      event,
      [&](size_t at, size_t part, cl_uint n, const cl_event* before, cl_event* where) {
        return real.clEnqueueCopyBuffer(
            queue, unwrap(from), unwrap(to), from_offset + at, to_offset + at, part, n, before, where);
      });
}

cl_int CL_API_CALL fill_buffer(cl_command_queue queue,
                               cl_mem memory,
                               const void* pattern,
                               size_t pattern_bytes,
                               size_t offset,
                               size_t bytes,
                               cl_uint waits,
                               const cl_event* list,
                               cl_event* event) {
  return gated_copy(queue, bytes, Blocking::kNo, event, [&](cl_event* where) {
    return real.clEnqueueFillBuffer(
        queue, unwrap(memory), pattern, pattern_bytes, offset, bytes, waits, list, where);
  });
}

void* CL_API_CALL map_buffer(cl_command_queue queue,
                             cl_mem memory,
                             cl_bool blocking,
                             cl_map_flags flags,
                             size_t offset,
                             size_t bytes,
                             cl_uint waits,
                             const cl_event* list,
                             cl_event* event,
                             cl_int* status) {
  void* pointer = nullptr;
  const bool moves = (flags & CL_MAP_WRITE_INVALIDATE_REGION) == 0;
  cl_int result = gated_copy(queue, moves ? bytes : 0, blocking_of(blocking), event, [&](cl_event* where) {
    cl_int inner = CL_SUCCESS;
    pointer = real.clEnqueueMapBuffer(
        queue, unwrap(memory), CL_FALSE, flags, offset, bytes, waits, list, where, &inner);
    return inner;
  });
  MemObject* object = wrapped(memory);
  if (result == CL_SUCCESS && object != nullptr) object->maps.fetch_add(1);
  if (status != nullptr) *status = result;
  return result == CL_SUCCESS ? pointer : nullptr;
}

void* CL_API_CALL map_image(cl_command_queue queue,
                            cl_mem memory,
                            cl_bool blocking,
                            cl_map_flags flags,
                            const size_t* origin,
                            const size_t* region,
                            size_t* row,
                            size_t* slice,
                            cl_uint waits,
                            const cl_event* list,
                            cl_event* event,
                            cl_int* status) {
  void* pointer = nullptr;
  const MemObject* object = wrapped(memory);
  const std::uint64_t bytes = object == nullptr ? 0 : object->size;
  const cl_int result = gated_copy(queue, bytes, blocking_of(blocking), event, [&](cl_event* where) {
    cl_int inner = CL_SUCCESS;
    pointer = real.clEnqueueMapImage(
        queue, unwrap(memory), CL_FALSE, flags, origin, region, row, slice, waits, list, where, &inner);
    return inner;
  });
  if (result == CL_SUCCESS && object != nullptr) wrapped(memory)->maps.fetch_add(1);
  if (status != nullptr) *status = result;
  return result == CL_SUCCESS ? pointer : nullptr;
}

cl_int CL_API_CALL unmap(cl_command_queue queue,
                         cl_mem memory,
                         void* pointer,
                         cl_uint waits,
                         const cl_event* list,
                         cl_event* event) {
  const RunningScope running;
  const cl_int status = real.clEnqueueUnmapMemObject(queue, unwrap(memory), pointer, waits, list, event);
  MemObject* object = wrapped(memory);
  if (status == CL_SUCCESS && object != nullptr && object->maps.load() != 0) object->maps.fetch_sub(1);
  return status;
}

// Lists of memory objects: unwrapped into a small array of the caller.
constexpr cl_uint kListMax = 256;
struct Unwrapped {
  cl_mem list[kListMax];
  bool fits = true;
  Unwrapped(const cl_mem* from, cl_uint count) {
    fits = count <= kListMax;
    for (cl_uint i = 0; fits && from != nullptr && i < count; ++i) list[i] = unwrap(from[i]);
  }
};

cl_int CL_API_CALL migrate(cl_command_queue queue,
                           cl_uint count,
                           const cl_mem* memory,
                           cl_mem_migration_flags flags,
                           cl_uint waits,
                           const cl_event* list,
                           cl_event* event) {
  std::uint64_t bytes = 0;
  for (cl_uint i = 0; memory != nullptr && i < count; ++i)
    if (const MemObject* object = wrapped(memory[i])) bytes += object->size;
  if ((flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED) != 0) bytes = 0;
  return gated_copy(queue, bytes, Blocking::kNo, event, [&](cl_event* where) {
    const Unwrapped below(memory, count);
    if (!below.fits) return CL_OUT_OF_HOST_MEMORY;
    return real.clEnqueueMigrateMemObjects(queue, count, below.list, flags, waits, list, where);
  });
}

template <auto kEntry>
cl_int CL_API_CALL pass_to_gl(cl_command_queue queue,
                              cl_uint count,
                              const cl_mem* memory,
                              cl_uint waits,
                              const cl_event* list,
                              cl_event* event) {
  const RunningScope running;
  const Unwrapped below(memory, count);
  return below.fits ? (real.*kEntry)(queue, count, below.list, waits, list, event) : CL_OUT_OF_HOST_MEMORY;
}

}  // namespace

void install_copies(cl_icd_dispatch& table) {
  table.clEnqueueReadBuffer = transfer_buffer<&cl_icd_dispatch::clEnqueueReadBuffer, char>;
  table.clEnqueueWriteBuffer = transfer_buffer<&cl_icd_dispatch::clEnqueueWriteBuffer, const char>;
  table.clEnqueueCopyBuffer = copy_buffer;
  table.clEnqueueFillBuffer = fill_buffer;
  table.clEnqueueMapBuffer = map_buffer;
  table.clEnqueueMapImage = map_image;
  table.clEnqueueUnmapMemObject = unmap;
  table.clEnqueueMigrateMemObjects = migrate;
  table.clEnqueueAcquireGLObjects = pass_to_gl<&cl_icd_dispatch::clEnqueueAcquireGLObjects>;
  table.clEnqueueReleaseGLObjects = pass_to_gl<&cl_icd_dispatch::clEnqueueReleaseGLObjects>;
}

}  // namespace tranche::guard::opencl
