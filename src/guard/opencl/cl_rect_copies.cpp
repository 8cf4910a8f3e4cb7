// SPDX-License-Identifier: Apache-2.0
// Copies of rectangles and images: charged by the bytes of their region.
#include "guard/opencl/cl_front.hpp"

namespace tranche::guard::opencl {
namespace {

std::uint64_t volume(const size_t* region) {
  return region == nullptr ? 0 : std::uint64_t{region[0]} * region[1] * region[2];
}

std::uint64_t image_volume(cl_mem image, const size_t* region) {
  size_t texel = 4;
  const RunningScope running;
  real.clGetImageInfo(unwrap(image), CL_IMAGE_ELEMENT_SIZE, sizeof texel, &texel, nullptr);
  return volume(region) * texel;
}

// Reading and writing differ in the entry point below and in whether the program's bytes are const.
template <auto kEntry, typename Bytes>
cl_int CL_API_CALL transfer_rect(cl_command_queue queue,
                                 cl_mem memory,
                                 cl_bool blocking,
                                 const size_t* origin,
                                 const size_t* host_origin,
                                 const size_t* region,
                                 size_t row,
                                 size_t slice,
                                 size_t host_row,
                                 size_t host_slice,
                                 Bytes* bytes,
                                 cl_uint waits,
                                 const cl_event* list,
                                 cl_event* event) {
  return gated_copy(queue, volume(region), blocking_of(blocking), event, [&](cl_event* where) {
    return (real.*kEntry)(queue,
                          unwrap(memory),
                          CL_FALSE,
                          origin,
                          host_origin,
                          region,
                          row,
                          slice,
                          host_row,
                          host_slice,
                          bytes,
                          waits,
                          list,
                          where);
  });
}

cl_int CL_API_CALL copy_rect(cl_command_queue queue,
                             cl_mem source,
                             cl_mem target,
                             const size_t* from,
                             const size_t* to,
                             const size_t* region,
                             size_t from_row,
                             size_t from_slice,
                             size_t to_row,
                             size_t to_slice,
                             cl_uint waits,
                             const cl_event* list,
                             cl_event* event) {
  return gated_copy(queue, volume(region), Blocking::kNo, event, [&](cl_event* where) {
    return real.clEnqueueCopyBufferRect(queue,
                                        unwrap(source),
                                        unwrap(target),
                                        from,
                                        to,
                                        region,
                                        from_row,
                                        from_slice,
                                        to_row,
                                        to_slice,
                                        waits,
                                        list,
                                        where);
  });
}

template <auto kEntry, typename Bytes>
cl_int CL_API_CALL transfer_image(cl_command_queue queue,
                                  cl_mem image,
                                  cl_bool blocking,
                                  const size_t* origin,
                                  const size_t* region,
                                  size_t row,
                                  size_t slice,
                                  Bytes* bytes,
                                  cl_uint waits,
                                  const cl_event* list,
                                  cl_event* event) {
  return gated_copy(queue, image_volume(image, region), blocking_of(blocking), event, [&](cl_event* where) {
    return (real.*kEntry)(
        queue, unwrap(image), CL_FALSE, origin, region, row, slice, bytes, waits, list, where);
  });
}

cl_int CL_API_CALL copy_image(cl_command_queue queue,
                              cl_mem source,
                              cl_mem target,
                              const size_t* from,
                              const size_t* to,
                              const size_t* region,
                              cl_uint waits,
                              const cl_event* list,
                              cl_event* event) {
  return gated_copy(queue, image_volume(source, region), Blocking::kNo, event, [&](cl_event* where) {
    return real.clEnqueueCopyImage(
        queue, unwrap(source), unwrap(target), from, to, region, waits, list, where);
  });
}

cl_int CL_API_CALL image_to_buffer(cl_command_queue queue,
                                   cl_mem image,
                                   cl_mem buffer,
                                   const size_t* origin,
                                   const size_t* region,
                                   size_t offset,
                                   cl_uint waits,
                                   const cl_event* list,
                                   cl_event* event) {
  return gated_copy(queue, image_volume(image, region), Blocking::kNo, event, [&](cl_event* where) {
    return real.clEnqueueCopyImageToBuffer(
        queue, unwrap(image), unwrap(buffer), origin, region, offset, waits, list, where);
  });
}

cl_int CL_API_CALL buffer_to_image(cl_command_queue queue,
                                   cl_mem buffer,
                                   cl_mem image,
                                   size_t offset,
                                   const size_t* origin,
                                   const size_t* region,
                                   cl_uint waits,
                                   const cl_event* list,
                                   cl_event* event) {
  return gated_copy(queue, image_volume(image, region), Blocking::kNo, event, [&](cl_event* where) {
    return real.clEnqueueCopyBufferToImage(
        queue, unwrap(buffer), unwrap(image), offset, origin, region, waits, list, where);
  });
}

cl_int CL_API_CALL fill_image(cl_command_queue queue,
                              cl_mem image,
                              const void* color,
                              const size_t* origin,
                              const size_t* region,
                              cl_uint waits,
                              const cl_event* list,
                              cl_event* event) {
  return gated_copy(queue, image_volume(image, region), Blocking::kNo, event, [&](cl_event* where) {
    return real.clEnqueueFillImage(queue, unwrap(image), color, origin, region, waits, list, where);
  });
}

}  // namespace

void install_rect_copies(cl_icd_dispatch& table) {
  table.clEnqueueReadBufferRect = transfer_rect<&cl_icd_dispatch::clEnqueueReadBufferRect, void>;
  table.clEnqueueWriteBufferRect = transfer_rect<&cl_icd_dispatch::clEnqueueWriteBufferRect, const void>;
  table.clEnqueueCopyBufferRect = copy_rect;
  table.clEnqueueReadImage = transfer_image<&cl_icd_dispatch::clEnqueueReadImage, void>;
  table.clEnqueueWriteImage = transfer_image<&cl_icd_dispatch::clEnqueueWriteImage, const void>;
  table.clEnqueueCopyImage = copy_image;
  table.clEnqueueCopyImageToBuffer = image_to_buffer;
  table.clEnqueueCopyBufferToImage = buffer_to_image;
  table.clEnqueueFillImage = fill_image;
}

}  // namespace tranche::guard::opencl
