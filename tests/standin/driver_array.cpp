// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmapped arrays of the stand-in driver: rows padded to 512 bytes, as opaque layouts are.
#include <algorithm>

#include "driver.hpp"

namespace standin {
namespace {

unsigned format_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
  }
  return 0;
}

struct Layout {
  std::uint64_t row_bytes = 0, bytes = 0;
};

bool layout_of(const CUDA_ARRAY3D_DESCRIPTOR& shape, Layout& layout) {
  const std::uint64_t texel = std::uint64_t{format_bytes(shape.Format)} * shape.NumChannels;
  if (texel == 0 || shape.Width == 0) return false;
  std::uint64_t row = 0;
  if (__builtin_mul_overflow(shape.Width, texel, &row) || row > ~0ULL - 512) return false;
  layout.row_bytes = (row + 511) / 512 * 512;
  std::uint64_t rows = 0;
  if (__builtin_mul_overflow(
          std::max<std::uint64_t>(1, shape.Height), std::max<std::uint64_t>(1, shape.Depth), &rows))
    return false;
  return !__builtin_mul_overflow(layout.row_bytes, rows, &layout.bytes);
}

CUresult make_array(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Layout layout;
  if (out == nullptr || !layout_of(shape, layout)) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  if (const CUresult status = refuse_unsafe_call(); status != CUDA_SUCCESS) return status;
  auto array = std::make_unique<CUarray_st>();
  array->shape = shape;
  array->row_bytes = layout.row_bytes;
  const CUresult status = allocate(current_context(), layout.bytes, MemoryKind::kExternal, array->memory);
  if (status != CUDA_SUCCESS) return status;
  *out = array.release();
  return CUDA_SUCCESS;
}

CUDA_ARRAY3D_DESCRIPTOR level_shape(CUDA_ARRAY3D_DESCRIPTOR shape, unsigned level) {
  shape.Width = std::max<std::size_t>(1, shape.Width >> level);
  if (shape.Height != 0) shape.Height = std::max<std::size_t>(1, shape.Height >> level);
  if (shape.Depth != 0) shape.Depth = std::max<std::size_t>(1, shape.Depth >> level);
  return shape;
}

std::uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  std::uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    Layout layout;
    if (!layout_of(level_shape(shape, level), layout)) return 0;
    bytes += layout.bytes;
  }
  return bytes;
}

void fill_levels(CUmipmappedArray mipmap, unsigned levels) {
  CUdeviceptr at = mipmap->memory.base;
  for (unsigned level = 0; level < levels; ++level) {
    auto array = std::make_unique<CUarray_st>();
    array->shape = level_shape(mipmap->shape, level);
    Layout layout;
    layout_of(array->shape, layout);
    array->row_bytes = layout.row_bytes;
    array->memory = mipmap->memory;
    array->memory.base = at;
    array->memory.size = layout.bytes;
    array->borrowed = true;
    at += layout.bytes;
    mipmap->levels.push_back(std::move(array));
  }
}

}  // namespace
}  // namespace standin

using namespace standin;

STANDIN_API cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* shape) {
  STANDIN_ENTRY(cuArrayCreate_v2);
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return make_array(out, {shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0});
}

STANDIN_API cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  STANDIN_ENTRY(cuArray3DCreate_v2);
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return make_array(out, *shape);
}

STANDIN_API cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray array) {
  STANDIN_ENTRY(cuArrayGetDescriptor_v2);
  *out = {array->shape.Width, array->shape.Height, array->shape.Format, array->shape.NumChannels};
  return CUDA_SUCCESS;
}

STANDIN_API cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray array) {
  STANDIN_ENTRY(cuArray3DGetDescriptor_v2);
  *out = array->shape;
  return CUDA_SUCCESS;
}

STANDIN_API cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray array, CUdevice) {
  STANDIN_ENTRY(cuArrayGetMemoryRequirements);
  *out = {array->memory.size, 512, {}};
  return CUDA_SUCCESS;
}

STANDIN_API cuArrayDestroy(CUarray array) {
  STANDIN_ENTRY(cuArrayDestroy);
  if (array == nullptr || array->borrowed) return CUDA_ERROR_INVALID_HANDLE;
  if (current_context() != nullptr) wait_until_known(current_context()->any_tail_ns);
  const Guard guard(driver().mutex);
  const CUresult status = free_allocation(array->memory.base);
  delete array;
  return status;
}

STANDIN_API cuMipmappedArrayCreate(CUmipmappedArray* out,
                                   const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                   unsigned int levels) {
  STANDIN_ENTRY(cuMipmappedArrayCreate);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || shape == nullptr || levels == 0 || levels > 32) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t bytes = mipmap_bytes(*shape, levels);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  auto mipmap = std::make_unique<CUmipmappedArray_st>();
  mipmap->shape = *shape;
  const CUresult status = allocate(current_context(), bytes, MemoryKind::kExternal, mipmap->memory);
  if (status != CUDA_SUCCESS) return status;
  fill_levels(mipmap.get(), levels);
  *out = mipmap.release();
  return CUDA_SUCCESS;
}

STANDIN_API cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray mipmap, unsigned int level) {
  STANDIN_ENTRY(cuMipmappedArrayGetLevel);
  if (level >= mipmap->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = mipmap->levels[level].get();
  return CUDA_SUCCESS;
}

STANDIN_API cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                                  CUmipmappedArray mipmap,
                                                  CUdevice) {
  STANDIN_ENTRY(cuMipmappedArrayGetMemoryRequirements);
  *out = {mipmap->memory.size, 512, {}};
  return CUDA_SUCCESS;
}

STANDIN_API cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
  STANDIN_ENTRY(cuMipmappedArrayDestroy);
  if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Guard guard(driver().mutex);
  const CUresult status = mipmap->borrowed ? CUDA_SUCCESS : free_allocation(mipmap->memory.base);
  delete mipmap;
  return status;
}

STANDIN_API cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray* out,
    CUexternalMemory memory,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* description) {
  STANDIN_ENTRY(cuExternalMemoryGetMappedMipmappedArray);
  const std::uint64_t bytes = mipmap_bytes(description->arrayDesc, description->numLevels);
  if (bytes == 0 || description->offset + bytes > memory->memory.size) return CUDA_ERROR_INVALID_VALUE;
  auto mipmap = std::make_unique<CUmipmappedArray_st>();
  mipmap->shape = description->arrayDesc;
  mipmap->memory = memory->memory;
  mipmap->memory.base += description->offset;
  mipmap->borrowed = true;
  fill_levels(mipmap.get(), description->numLevels);
  *out = mipmap.release();
  return CUDA_SUCCESS;
}
