// SPDX-License-Identifier: Apache-2.0
// Images: charged by their texels before the driver is asked, put right by what the driver made of them.
#include "guard/opencl/cl_front.hpp"

namespace tranche::guard::opencl {
namespace {

std::uint64_t channels(cl_channel_order order) {
  switch (order) {
    case CL_R:
    case CL_A:
    case CL_INTENSITY:
    case CL_LUMINANCE:
    case CL_DEPTH:
      return 1;
    case CL_RG:
    case CL_RA:
    case CL_Rx:
    case CL_DEPTH_STENCIL:
      return 2;
    case CL_RGB:
    case CL_RGx:
    case CL_sRGB:
      return 3;
    default:
      return 4;
  }
}

std::uint64_t texel_bytes(const cl_image_format& format) {
  switch (format.image_channel_data_type) {
    case CL_SNORM_INT8:
    case CL_UNORM_INT8:
    case CL_SIGNED_INT8:
    case CL_UNSIGNED_INT8:
      return channels(format.image_channel_order);
    case CL_UNORM_SHORT_565:
    case CL_UNORM_SHORT_555:
      return 2;
    case CL_UNORM_INT_101010:
    case CL_UNORM_INT_101010_2:
    case CL_UNORM_INT24:
      return 4;
    case CL_SNORM_INT16:
    case CL_UNORM_INT16:
    case CL_SIGNED_INT16:
    case CL_UNSIGNED_INT16:
    case CL_HALF_FLOAT:
      return 2 * channels(format.image_channel_order);
    default:
      return 4 * channels(format.image_channel_order);
  }
}

std::uint64_t at_least_one(std::uint64_t value) {
  return value == 0 ? 1 : value;
}

// False when the product does not fit 64 bits; nothing that large is ever granted.
bool image_bytes(const cl_image_format& format, const cl_image_desc& shape, std::uint64_t& bytes) {
  const std::uint64_t parts[] = {at_least_one(shape.image_width),
                                 at_least_one(shape.image_height),
                                 at_least_one(shape.image_depth),
                                 at_least_one(shape.image_array_size)};
  bytes = texel_bytes(format);
  for (const std::uint64_t part : parts)
    if (__builtin_mul_overflow(bytes, part, &bytes)) return false;
  return true;
}

// The driver may pad rows: pays the difference, or lets the image go again.
bool settle(MemObject* object, const char* api) {
  size_t made = 0;
  real.clGetMemObjectInfo(object->actual, CL_MEM_SIZE, sizeof made, &made, nullptr);
  if (made <= object->charged) return true;
  const std::uint64_t more = made - object->charged;
  const std::uint64_t before = object->charged;
  const bool paid = charge(object, more, api);
  object->charged = before + (paid ? more : 0);
  return paid;
}

void fail(cl_int* status, cl_int code) {
  if (status != nullptr) *status = code;
}

template <typename Create>
cl_mem make_image(cl_context context,
                  cl_mem_flags flags,
                  const cl_image_format* format,
                  const cl_image_desc* shape,
                  void* host,
                  cl_int* status,
                  const char* api,
                  Create&& create) {
  if (format == nullptr || shape == nullptr) return create(shape, status);
  cl_image_desc below = *shape;
  MemObject* source = shape->mem_object == nullptr ? nullptr : wrapped(shape->mem_object);
  below.mem_object = unwrap(shape->mem_object);
  MemObject* object = new_object(context, MemKind::kImage);
  std::uint64_t bytes = 0;
  const bool fits = source != nullptr || image_bytes(*format, *shape, bytes);  // From a buffer: its memory.
  if (object == nullptr || !fits || !charge(object, bytes, api)) {
    if (object != nullptr) discard(object);
    fail(status, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    return nullptr;
  }
  object->flags = flags;
  object->format = *format;
  object->shape = *shape;
  object->host_pointer = (flags & CL_MEM_USE_HOST_PTR) != 0 ? host : nullptr;
  object->size = bytes;
  const RunningScope running;
  object->actual = create(&below, status);
  if (object->actual == nullptr) {
    uncharge(object);
    discard(object);
    return nullptr;
  }
  if (source == nullptr && (!settle(object, api) || !zero_new(object))) {
    real.clReleaseMemObject(object->actual);
    uncharge(object);
    discard(object);
    fail(status, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    return nullptr;
  }
  object->parent = source;
  if (source != nullptr) source->references.fetch_add(1);
  adopt(object, object->actual);
  return reinterpret_cast<cl_mem>(object);
}

cl_mem CL_API_CALL create_image(cl_context context,
                                cl_mem_flags flags,
                                const cl_image_format* format,
                                const cl_image_desc* shape,
                                void* host,
                                cl_int* status) {
  return make_image(context,
                    flags,
                    format,
                    shape,
                    host,
                    status,
                    "clCreateImage",
                    [&](const cl_image_desc* below, cl_int* result) {
                      return real.clCreateImage(context, flags, format, below, host, result);
                    });
}

cl_mem CL_API_CALL create_image_with(cl_context context,
                                     const cl_mem_properties* properties,
                                     cl_mem_flags flags,
                                     const cl_image_format* format,
                                     const cl_image_desc* shape,
                                     void* host,
                                     cl_int* status) {
  return make_image(context,
                    flags,
                    format,
                    shape,
                    host,
                    status,
                    "clCreateImageWithProperties",
                    [&](const cl_image_desc* below, cl_int* result) {
                      return real.clCreateImageWithProperties(
                          context, properties, flags, format, below, host, result);
                    });
}

cl_mem CL_API_CALL create_image_2d(cl_context context,
                                   cl_mem_flags flags,
                                   const cl_image_format* format,
                                   size_t width,
                                   size_t height,
                                   size_t pitch,
                                   void* host,
                                   cl_int* status) {
  cl_image_desc shape = {};
  shape.image_type = CL_MEM_OBJECT_IMAGE2D;
  shape.image_width = width;
  shape.image_height = height;
  shape.image_row_pitch = pitch;
  return make_image(context,
                    flags,
                    format,
                    &shape,
                    host,
                    status,
                    "clCreateImage2D",
                    [&](const cl_image_desc*, cl_int* result) {
                      return real.clCreateImage2D(context, flags, format, width, height, pitch, host, result);
                    });
}

cl_mem CL_API_CALL create_image_3d(cl_context context,
                                   cl_mem_flags flags,
                                   const cl_image_format* format,
                                   size_t width,
                                   size_t height,
                                   size_t depth,
                                   size_t pitch,
                                   size_t slice,
                                   void* host,
                                   cl_int* status) {
  cl_image_desc shape = {};
  shape.image_type = CL_MEM_OBJECT_IMAGE3D;
  shape.image_width = width;
  shape.image_height = height;
  shape.image_depth = depth;
  shape.image_row_pitch = pitch;
  shape.image_slice_pitch = slice;
  return make_image(context,
                    flags,
                    format,
                    &shape,
                    host,
                    status,
                    "clCreateImage3D",
                    [&](const cl_image_desc*, cl_int* result) {
                      return real.clCreateImage3D(
                          context, flags, format, width, height, depth, pitch, slice, host, result);
                    });
}

cl_int CL_API_CALL get_image_info(cl_mem handle, cl_image_info name, size_t room, void* out, size_t* size) {
  const RunningScope running;
  const cl_int status = real.clGetImageInfo(unwrap(handle), name, room, out, size);
  if (status == CL_SUCCESS && name == CL_IMAGE_BUFFER && out != nullptr)
    *static_cast<cl_mem*>(out) = program_handle(*static_cast<cl_mem*>(out));
  return status;
}

cl_int CL_API_CALL get_pipe_info(cl_mem handle, cl_pipe_info name, size_t room, void* out, size_t* size) {
  const RunningScope running;
  return real.clGetPipeInfo(unwrap(handle), name, room, out, size);
}

// Memory of another API: the other API pays for it; the front only gives it a handle of its own.
template <typename Create>
cl_mem foreign(cl_context context, Create&& create) {
  const RunningScope running;
  const cl_mem actual = create();
  if (actual == nullptr) return nullptr;
  MemObject* object = new_object(context, MemKind::kForeign);
  if (object == nullptr) return actual;
  adopt(object, actual);
  return reinterpret_cast<cl_mem>(object);
}

cl_mem CL_API_CALL from_gl_buffer(cl_context context, cl_mem_flags flags, cl_GLuint name, cl_int* status) {
  return foreign(context, [&] { return real.clCreateFromGLBuffer(context, flags, name, status); });
}

cl_mem CL_API_CALL from_gl_texture(cl_context context,
                                   cl_mem_flags flags,
                                   cl_GLenum target,
                                   cl_GLint level,
                                   cl_GLuint texture,
                                   cl_int* status) {
  return foreign(context,
                 [&] { return real.clCreateFromGLTexture(context, flags, target, level, texture, status); });
}

cl_int CL_API_CALL get_gl_object(cl_mem handle, cl_gl_object_type* type, cl_GLuint* name) {
  return real.clGetGLObjectInfo(unwrap(handle), type, name);
}

cl_int CL_API_CALL
get_gl_texture(cl_mem handle, cl_gl_texture_info name, size_t room, void* out, size_t* size) {
  return real.clGetGLTextureInfo(unwrap(handle), name, room, out, size);
}

}  // namespace

void install_images(cl_icd_dispatch& table) {
  table.clCreateImage = create_image;
  table.clCreateImageWithProperties = create_image_with;
  table.clCreateImage2D = create_image_2d;
  table.clCreateImage3D = create_image_3d;
  table.clGetImageInfo = get_image_info;
  table.clGetPipeInfo = get_pipe_info;
  table.clCreateFromGLBuffer = from_gl_buffer;
  table.clCreateFromGLTexture = from_gl_texture;
  table.clGetGLObjectInfo = get_gl_object;
  table.clGetGLTextureInfo = get_gl_texture;
}

}  // namespace tranche::guard::opencl
