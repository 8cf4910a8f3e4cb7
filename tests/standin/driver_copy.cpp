// SPDX-License-Identifier: Apache-2.0
// Copies and fills: between host and device on the copy engines, inside VRAM on the compute engine.
#include <algorithm>
#include <cstring>

#include "driver.hpp"

namespace standin {
namespace {

struct Side {
  std::uint8_t* base = nullptr;
  std::uint64_t pitch = 0, rows = 0;
  bool on_device = false;
};

Side side_of(CUmemorytype type,
             const void* host,
             CUdeviceptr device,
             CUarray array,
             std::size_t pitch,
             std::size_t height,
             std::size_t x,
             std::size_t y,
             std::size_t z,
             std::size_t width) {
  Side side;
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      side.base = static_cast<std::uint8_t*>(const_cast<void*>(host));
      break;
    case CU_MEMORYTYPE_DEVICE:
      side.base = reinterpret_cast<std::uint8_t*>(device);
      side.on_device = true;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      side.base = reinterpret_cast<std::uint8_t*>(device);
      side.on_device = is_device_pointer(device);
      break;
    case CU_MEMORYTYPE_ARRAY:
      if (array == nullptr) return side;
      side.base = reinterpret_cast<std::uint8_t*>(array->memory.base);
      side.on_device = true;
      pitch = array->row_bytes;
      height = std::max<std::size_t>(1, array->shape.Height);
      break;
  }
  if (side.base == nullptr) return side;
  side.pitch = pitch == 0 ? width : pitch;
  side.rows = std::max<std::size_t>(1, height);
  side.base += x + y * side.pitch + z * side.pitch * side.rows;
  return side;
}

Side source(const CUDA_MEMCPY3D& c) {
  return side_of(c.srcMemoryType,
                 c.srcHost,
                 c.srcDevice,
                 c.srcArray,
                 c.srcPitch,
                 c.srcHeight,
                 c.srcXInBytes,
                 c.srcY,
                 c.srcZ,
                 c.WidthInBytes);
}

Side target(const CUDA_MEMCPY3D& c) {
  return side_of(c.dstMemoryType,
                 c.dstHost,
                 c.dstDevice,
                 c.dstArray,
                 c.dstPitch,
                 c.dstHeight,
                 c.dstXInBytes,
                 c.dstY,
                 c.dstZ,
                 c.WidthInBytes);
}

std::uint64_t copy_length(const Config& config, bool across, std::uint64_t bytes) {
  const std::uint64_t rate = across ? config.host_copy_bytes_per_us : config.device_copy_bytes_per_us;
  return 1'000 + bytes * 1'000 / std::max<std::uint64_t>(1, rate);
}

}  // namespace

bool is_device_pointer(CUdeviceptr pointer) {
  const Driver& all = driver();
  for (unsigned device = 0; device < all.config().device_count; ++device) {
    const auto base = reinterpret_cast<CUdeviceptr>(all.vram[device]);
    if (base != 0 && pointer >= base && pointer < base + all.config().vram_bytes) return true;
  }
  const Allocation* found = find_allocation(pointer);
  return found != nullptr && found->kind != MemoryKind::kHost;
}

CUDA_MEMCPY3D line_copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUresult check_copy(const CUDA_MEMCPY3D& copy) {
  return source(copy).base == nullptr || target(copy).base == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
}

Work copy_work(const CUDA_MEMCPY3D& copy) {
  const Side from = source(copy);
  const Side to = target(copy);
  const std::uint64_t rows = std::max<std::size_t>(1, copy.Height);
  const std::uint64_t planes = std::max<std::size_t>(1, copy.Depth);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  work.engine = from.on_device && to.on_device ? Engine::kCompute
                : to.on_device                 ? Engine::kHostToDevice
                                               : Engine::kDeviceToHost;
  work.length_ns =
      copy_length(driver().config(), !(from.on_device && to.on_device), copy.WidthInBytes * rows * planes);
  work.effect = [from, to, rows, planes, width = copy.WidthInBytes] {
    for (std::uint64_t plane = 0; plane < planes; ++plane)
      for (std::uint64_t row = 0; row < rows; ++row)
        std::memmove(to.base + (plane * to.rows + row) * to.pitch,
                     from.base + (plane * from.rows + row) * from.pitch,
                     width);
  };
  return work;
}

Work fill_work(const CUDA_MEMSET_NODE_PARAMS& fill) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMSET;
  work.length_ns = copy_length(
      driver().config(), false, fill.width * fill.elementSize * std::max<std::size_t>(1, fill.height));
  work.effect = [fill] {
    auto* base = reinterpret_cast<std::uint8_t*>(fill.dst);
    const std::uint64_t row_bytes = fill.width * fill.elementSize;
    const std::uint64_t pitch = fill.pitch == 0 ? row_bytes : fill.pitch;
    for (std::uint64_t row = 0; row < std::max<std::size_t>(1, fill.height); ++row) {
      std::uint8_t* at = base + row * pitch;
      if (fill.elementSize == 1 || fill.value == 0) {
        std::memset(at, static_cast<int>(fill.value), row_bytes);
        continue;
      }
      for (std::uint64_t done = 0; done < row_bytes; done += fill.elementSize)
        std::memcpy(at + done, &fill.value, fill.elementSize);
    }
  };
  return work;
}

}  // namespace standin

using namespace standin;

namespace {

enum class Wait { kNo, kYes };

CUresult copy_in(const CUDA_MEMCPY3D& copy, CUstream handle, Wait wait) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (copy.WidthInBytes == 0) return CUDA_SUCCESS;
  std::uint64_t end = 0;
  {
    const Guard guard(driver().mutex);
    const CUstream stream = resolve(handle);
    if (const CUresult status = check_copy(copy); status != CUDA_SUCCESS) return status;
    if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
    if (stream->capture) {
      if (wait == Wait::kYes) return refuse_sync(stream);
      capture_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY)->copy = copy;
      return CUDA_SUCCESS;
    }
    end = schedule(stream, copy_work(copy));
  }
  if (wait == Wait::kYes) wait_until_known(end);
  return CUDA_SUCCESS;
}

CUresult fill_in(const CUDA_MEMSET_NODE_PARAMS& fill, CUstream handle, Wait wait) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (fill.width == 0) return CUDA_SUCCESS;
  const Guard guard(driver().mutex);
  if (!is_device_pointer(fill.dst)) return CUDA_ERROR_INVALID_VALUE;
  const CUstream stream = resolve(handle);
  if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
  if (stream->capture) {
    if (wait == Wait::kYes) return refuse_sync(stream);
    capture_node(stream, CU_GRAPH_NODE_TYPE_MEMSET)->fill = fill;
    return CUDA_SUCCESS;
  }
  schedule(stream,
           fill_work(fill));  // Like the real one, the plain call does not wait for the device either.
  return CUDA_SUCCESS;
}

CUDA_MEMCPY3D flat(const CUDA_MEMCPY2D& c) {
  CUDA_MEMCPY3D copy{};
  copy.srcXInBytes = c.srcXInBytes;
  copy.srcY = c.srcY;
  copy.srcMemoryType = c.srcMemoryType;
  copy.srcHost = c.srcHost;
  copy.srcDevice = c.srcDevice;
  copy.srcArray = c.srcArray;
  copy.srcPitch = c.srcPitch;
  copy.dstXInBytes = c.dstXInBytes;
  copy.dstY = c.dstY;
  copy.dstMemoryType = c.dstMemoryType;
  copy.dstHost = c.dstHost;
  copy.dstDevice = c.dstDevice;
  copy.dstArray = c.dstArray;
  copy.dstPitch = c.dstPitch;
  copy.WidthInBytes = c.WidthInBytes;
  copy.Height = c.Height;
  copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D array_copy(CUarray to_array,
                         CUdeviceptr to,
                         std::size_t to_x,
                         CUarray from_array,
                         CUdeviceptr from,
                         std::size_t from_x,
                         std::size_t bytes) {
  CUDA_MEMCPY3D copy = line_copy(to, from, bytes);
  if (to_array != nullptr) copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  if (from_array != nullptr) copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = to_array;
  copy.srcArray = from_array;
  copy.dstXInBytes = to_x;
  copy.srcXInBytes = from_x;
  return copy;
}

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace

// One line per entry point: the name, its parameters, what is copied, where, and whether the caller waits.
#define STANDIN_COPY(name, parameters, copy, stream, wait) \
  STANDIN_API name parameters {                            \
    STANDIN_ENTRY(name);                                   \
    return copy_in(copy, stream, Wait::wait);              \
  }
#define STANDIN_FILL(name, parameters, stream, wait, ...)                     \
  STANDIN_API name parameters {                                               \
    STANDIN_ENTRY(name);                                                      \
    return fill_in(CUDA_MEMSET_NODE_PARAMS{__VA_ARGS__}, stream, Wait::wait); \
  }

using P = CUdeviceptr;
using S = CUstream;
using A = CUarray;
using N = std::size_t;
STANDIN_COPY(cuMemcpy, (P d, P s, N n), line_copy(d, s, n), nullptr, kYes)
STANDIN_COPY(cuMemcpyAsync, (P d, P s, N n, S q), line_copy(d, s, n), q, kNo)
STANDIN_COPY(cuMemcpyPeer, (P d, CUcontext, P s, CUcontext, N n), line_copy(d, s, n), nullptr, kYes)
STANDIN_COPY(cuMemcpyPeerAsync, (P d, CUcontext, P s, CUcontext, N n, S q), line_copy(d, s, n), q, kNo)
STANDIN_COPY(cuMemcpyHtoD_v2, (P d, const void* s, N n), line_copy(d, address(s), n), nullptr, kYes)
STANDIN_COPY(cuMemcpyHtoDAsync_v2, (P d, const void* s, N n, S q), line_copy(d, address(s), n), q, kNo)
STANDIN_COPY(cuMemcpyDtoH_v2, (void* d, P s, N n), line_copy(address(d), s, n), nullptr, kYes)
STANDIN_COPY(cuMemcpyDtoHAsync_v2, (void* d, P s, N n, S q), line_copy(address(d), s, n), q, kNo)
STANDIN_COPY(cuMemcpyDtoD_v2, (P d, P s, N n), line_copy(d, s, n), nullptr, kNo)
STANDIN_COPY(cuMemcpyDtoDAsync_v2, (P d, P s, N n, S q), line_copy(d, s, n), q, kNo)
STANDIN_COPY(cuMemcpyAtoA_v2, (A d, N x, A s, N y, N n), array_copy(d, 0, x, s, 0, y, n), nullptr, kNo)
STANDIN_COPY(cuMemcpyAtoD_v2, (P d, A s, N y, N n), array_copy(nullptr, d, 0, s, 0, y, n), nullptr, kNo)
STANDIN_COPY(cuMemcpyDtoA_v2, (A d, N x, P s, N n), array_copy(d, 0, x, nullptr, s, 0, n), nullptr, kNo)
STANDIN_COPY(
    cuMemcpyAtoH_v2, (void* d, A s, N y, N n), array_copy(nullptr, address(d), 0, s, 0, y, n), nullptr, kYes)
STANDIN_COPY(cuMemcpyAtoHAsync_v2,
             (void* d, A s, N y, N n, S q),
             array_copy(nullptr, address(d), 0, s, 0, y, n),
             q,
             kNo)
STANDIN_COPY(cuMemcpyHtoA_v2,
             (A d, N x, const void* s, N n),
             array_copy(d, 0, x, nullptr, address(s), 0, n),
             nullptr,
             kYes)
STANDIN_COPY(cuMemcpyHtoAAsync_v2,
             (A d, N x, const void* s, N n, S q),
             array_copy(d, 0, x, nullptr, address(s), 0, n),
             q,
             kNo)
STANDIN_COPY(cuMemcpy2D_v2, (const CUDA_MEMCPY2D* c), flat(*c), nullptr, kYes)
STANDIN_COPY(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D* c), flat(*c), nullptr, kYes)
STANDIN_COPY(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* c, S q), flat(*c), q, kNo)
STANDIN_COPY(cuMemcpy3D_v2, (const CUDA_MEMCPY3D* c), *c, nullptr, kYes)
STANDIN_COPY(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* c, S q), *c, q, kNo)

STANDIN_FILL(cuMemsetD8_v2, (P d, unsigned char v, N n), nullptr, kYes, d, 0, v, 1, n, 1)
STANDIN_FILL(cuMemsetD16_v2, (P d, unsigned short v, N n), nullptr, kYes, d, 0, v, 2, n, 1)
STANDIN_FILL(cuMemsetD32_v2, (P d, unsigned int v, N n), nullptr, kYes, d, 0, v, 4, n, 1)
STANDIN_FILL(cuMemsetD2D8_v2, (P d, N p, unsigned char v, N w, N h), nullptr, kYes, d, p, v, 1, w, h)
STANDIN_FILL(cuMemsetD2D16_v2, (P d, N p, unsigned short v, N w, N h), nullptr, kYes, d, p, v, 2, w, h)
STANDIN_FILL(cuMemsetD2D32_v2, (P d, N p, unsigned int v, N w, N h), nullptr, kYes, d, p, v, 4, w, h)
STANDIN_FILL(cuMemsetD8Async, (P d, unsigned char v, N n, S q), q, kNo, d, 0, v, 1, n, 1)
STANDIN_FILL(cuMemsetD16Async, (P d, unsigned short v, N n, S q), q, kNo, d, 0, v, 2, n, 1)
STANDIN_FILL(cuMemsetD32Async, (P d, unsigned int v, N n, S q), q, kNo, d, 0, v, 4, n, 1)
STANDIN_FILL(cuMemsetD2D8Async, (P d, N p, unsigned char v, N w, N h, S q), q, kNo, d, p, v, 1, w, h)
STANDIN_FILL(cuMemsetD2D16Async, (P d, N p, unsigned short v, N w, N h, S q), q, kNo, d, p, v, 2, w, h)
STANDIN_FILL(cuMemsetD2D32Async, (P d, N p, unsigned int v, N w, N h, S q), q, kNo, d, p, v, 4, w, h)
