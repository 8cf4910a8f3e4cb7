// SPDX-License-Identifier: Apache-2.0
// Copies between host and device take the copy lane; copies inside the device and memsets are compute work.
#include <algorithm>
#include <type_traits>

#include "guard/cuda/copy_rate.hpp"
#include "guard/cuda/launch.hpp"

namespace tranche::guard::cuda {
namespace {

enum class Route { kHost, kDevice };

constexpr std::uint64_t kSmallCopy = 64ULL << 10;

template <class Ask>
Result host_copy(std::uint64_t bytes, Stream stream, StreamKind streams, Ask ask) {
  if (captures_active.load(std::memory_order_relaxed) != 0 &&
      is_capturing(stream, streams == StreamKind::kPerThread))
    return ask();
  const CopyTicket ticket = before_copy(current_device(), bytes);
  if (ticket.ended) return kLaunchTimeout;
  const Stream where = explicit_stream(stream, streams);
  const bool sampled = begin_copy_sample(bytes, where);
  const Result outcome = ask();
  if (sampled) end_copy_sample(where, outcome);
  return outcome;
}

// A large copy cannot be interrupted, so while others share the device it goes in pieces.
template <class AskPiece>
Result host_copy_in_pieces(std::uint64_t bytes, Stream stream, StreamKind streams, AskPiece ask) {
  const std::uint64_t piece = max_copy_chunk(current_device());
  for (std::uint64_t at = 0;;) {
    const std::uint64_t length = std::min(piece, bytes - at);
    const Result outcome = host_copy(length, stream, streams, [&] { return ask(at, length); });
    at += length;
    if (outcome != kSuccess || at >= bytes) return outcome;
  }
}

template <class Ask>
Result routed(Route route, std::uint64_t bytes, Stream stream, StreamKind streams, Ask ask) {
  return route == Route::kHost ? host_copy(bytes, stream, streams, ask)
                               : device_work(DeviceWork::kCopy, bytes, stream, streams, ask);
}

// Where does a copy between two unified addresses run? Small ones are not worth the question.
Route route_of(Pointer target, Pointer source, std::uint64_t bytes) {
  if (bytes < kSmallCopy) return Route::kHost;
  auto* attribute = DRIVER(cuPointerGetAttribute, Result(void*, int, Pointer));
  unsigned types[2] = {kHostMemory, kHostMemory};
  if (attribute == nullptr || attribute(&types[0], 2, target) != kSuccess ||
      attribute(&types[1], 2, source) != kSuccess)
    return Route::kHost;
  return types[0] == kHostMemory || types[1] == kHostMemory ? Route::kHost : Route::kDevice;
}

std::uint64_t product(std::uint64_t a, std::uint64_t b, std::uint64_t c = 1) {
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(a, std::max<std::uint64_t>(b, 1), &result)) return UINT64_MAX;
  return __builtin_mul_overflow(result, std::max<std::uint64_t>(c, 1), &result) ? UINT64_MAX : result;
}
std::uint64_t bytes_of(const Copy2D* copy) {
  return copy == nullptr ? 0 : product(copy->width_bytes, copy->height);
}
std::uint64_t bytes_of(const Copy3D* copy) {
  return copy == nullptr ? 0 : product(copy->width_bytes, copy->height, copy->depth);
}
std::uint64_t bytes_of(const Copy3DPeer* copy) {
  return copy == nullptr ? 0 : product(copy->width_bytes, copy->height, copy->depth);
}
template <class Copy>
Route route_of(const Copy* copy) {
  const bool host = copy != nullptr && (copy->source_type == kHostMemory || copy->target_type == kHostMemory);
  return host ? Route::kHost : Route::kDevice;
}
std::uint64_t sum(const std::size_t* sizes, std::size_t count) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; sizes != nullptr && i < count; ++i) total += sizes[i];
  return total;
}
std::uint64_t sum(const BatchCopy3D* list, std::size_t count) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; list != nullptr && i < count; ++i)
    total += product(list[i].extent[0], list[i].extent[1], list[i].extent[2]);
  return total;
}
std::uint64_t sum(const Decompress* list, std::size_t count) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; list != nullptr && i < count; ++i) total += list[i].target_bytes;
  return total;
}

}  // namespace
}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

// Linear copies between host and device, in pieces where a device is shared.
#define GUARD_TO_DEVICE(name, kind)                                                      \
  GUARD_EXPORT Result name(Pointer target, const void* source, std::size_t bytes) {      \
    return host_copy_in_pieces(                                                          \
        bytes, nullptr, StreamKind::kind, [&](std::uint64_t at, std::uint64_t length) {  \
          return REAL(name)(target + at, static_cast<const char*>(source) + at, length); \
        });                                                                              \
  }
GUARD_TO_DEVICE(cuMemcpyHtoD_v2, kLegacy)
GUARD_TO_DEVICE(cuMemcpyHtoD_v2_ptds, kPerThread)
#define GUARD_TO_HOST(name, kind)                                                       \
  GUARD_EXPORT Result name(void* target, Pointer source, std::size_t bytes) {           \
    return host_copy_in_pieces(                                                         \
        bytes, nullptr, StreamKind::kind, [&](std::uint64_t at, std::uint64_t length) { \
          return REAL(name)(static_cast<char*>(target) + at, source + at, length);      \
        });                                                                             \
  }
GUARD_TO_HOST(cuMemcpyDtoH_v2, kLegacy)
GUARD_TO_HOST(cuMemcpyDtoH_v2_ptds, kPerThread)
#define GUARD_TO_DEVICE_ON(name, kind)                                                             \
  GUARD_EXPORT Result name(Pointer target, const void* source, std::size_t bytes, Stream stream) { \
    return host_copy_in_pieces(                                                                    \
        bytes, stream, StreamKind::kind, [&](std::uint64_t at, std::uint64_t length) {             \
          return REAL(name)(target + at, static_cast<const char*>(source) + at, length, stream);   \
        });                                                                                        \
  }
GUARD_TO_DEVICE_ON(cuMemcpyHtoDAsync_v2, kLegacy)
GUARD_TO_DEVICE_ON(cuMemcpyHtoDAsync_v2_ptsz, kPerThread)
#define GUARD_TO_HOST_ON(name, kind)                                                         \
  GUARD_EXPORT Result name(void* target, Pointer source, std::size_t bytes, Stream stream) { \
    return host_copy_in_pieces(                                                              \
        bytes, stream, StreamKind::kind, [&](std::uint64_t at, std::uint64_t length) {       \
          return REAL(name)(static_cast<char*>(target) + at, source + at, length, stream);   \
        });                                                                                  \
  }
GUARD_TO_HOST_ON(cuMemcpyDtoHAsync_v2, kLegacy)
GUARD_TO_HOST_ON(cuMemcpyDtoHAsync_v2_ptsz, kPerThread)

// The others by one pattern: parameters, how many bytes, which route, which stream.
#define GUARD_COPY(name, kind, stream, route, bytes, parameters, arguments)                      \
  GUARD_EXPORT Result name parameters {                                                          \
    return routed(route, bytes, stream, StreamKind::kind, [&] { return REAL(name) arguments; }); \
  }
#define GUARD_COPY_TWO(name, suffix, stream, route, bytes, parameters, arguments) \
  GUARD_COPY(name, kLegacy, stream, route, bytes, parameters, arguments)          \
  GUARD_COPY(name##suffix, kPerThread, stream, route, bytes, parameters, arguments)

GUARD_COPY_TWO(cuMemcpy,
               _ptds,
               nullptr,
               route_of(to, from, n),
               n,
               (Pointer to, Pointer from, std::size_t n),
               (to, from, n))
GUARD_COPY_TWO(cuMemcpyAsync,
               _ptsz,
               s,
               route_of(to, from, n),
               n,
               (Pointer to, Pointer from, std::size_t n, Stream s),
               (to, from, n, s))
GUARD_COPY_TWO(cuMemcpyDtoD_v2,
               _ptds,
               nullptr,
               Route::kDevice,
               n,
               (Pointer to, Pointer from, std::size_t n),
               (to, from, n))
GUARD_COPY_TWO(cuMemcpyDtoDAsync_v2,
               _ptsz,
               s,
               Route::kDevice,
               n,
               (Pointer to, Pointer from, std::size_t n, Stream s),
               (to, from, n, s))
GUARD_COPY_TWO(cuMemcpyDtoA_v2,
               _ptds,
               nullptr,
               Route::kDevice,
               n,
               (void* to, std::size_t at, Pointer from, std::size_t n),
               (to, at, from, n))
GUARD_COPY_TWO(cuMemcpyAtoD_v2,
               _ptds,
               nullptr,
               Route::kDevice,
               n,
               (Pointer to, void* from, std::size_t at, std::size_t n),
               (to, from, at, n))
GUARD_COPY_TWO(cuMemcpyHtoA_v2,
               _ptds,
               nullptr,
               Route::kHost,
               n,
               (void* to, std::size_t at, const void* from, std::size_t n),
               (to, at, from, n))
GUARD_COPY_TWO(cuMemcpyAtoH_v2,
               _ptds,
               nullptr,
               Route::kHost,
               n,
               (void* to, void* from, std::size_t at, std::size_t n),
               (to, from, at, n))
GUARD_COPY_TWO(cuMemcpyAtoA_v2,
               _ptds,
               nullptr,
               Route::kDevice,
               n,
               (void* to, std::size_t at, void* from, std::size_t from_at, std::size_t n),
               (to, at, from, from_at, n))
GUARD_COPY_TWO(cuMemcpyHtoAAsync_v2,
               _ptsz,
               s,
               Route::kHost,
               n,
               (void* to, std::size_t at, const void* from, std::size_t n, Stream s),
               (to, at, from, n, s))
GUARD_COPY_TWO(cuMemcpyAtoHAsync_v2,
               _ptsz,
               s,
               Route::kHost,
               n,
               (void* to, void* from, std::size_t at, std::size_t n, Stream s),
               (to, from, at, n, s))
GUARD_COPY_TWO(cuMemcpy2D_v2, _ptds, nullptr, route_of(c), bytes_of(c), (const Copy2D* c), (c))
GUARD_COPY_TWO(cuMemcpy2DUnaligned_v2, _ptds, nullptr, route_of(c), bytes_of(c), (const Copy2D* c), (c))
GUARD_COPY_TWO(cuMemcpy2DAsync_v2, _ptsz, s, route_of(c), bytes_of(c), (const Copy2D* c, Stream s), (c, s))
GUARD_COPY_TWO(cuMemcpy3D_v2, _ptds, nullptr, route_of(c), bytes_of(c), (const Copy3D* c), (c))
GUARD_COPY_TWO(cuMemcpy3DAsync_v2, _ptsz, s, route_of(c), bytes_of(c), (const Copy3D* c, Stream s), (c, s))
GUARD_COPY_TWO(cuMemcpyPeer,
               _ptds,
               nullptr,
               Route::kHost,
               n,
               (Pointer to, Context a, Pointer from, Context b, std::size_t n),
               (to, a, from, b, n))
GUARD_COPY_TWO(cuMemcpyPeerAsync,
               _ptsz,
               s,
               Route::kHost,
               n,
               (Pointer to, Context a, Pointer from, Context b, std::size_t n, Stream s),
               (to, a, from, b, n, s))
GUARD_COPY_TWO(cuMemcpy3DPeer, _ptds, nullptr, Route::kHost, bytes_of(c), (const Copy3DPeer* c), (c))
GUARD_COPY_TWO(
    cuMemcpy3DPeerAsync, _ptsz, s, Route::kHost, bytes_of(c), (const Copy3DPeer* c, Stream s), (c, s))
GUARD_COPY_TWO(cuMemcpyBatchAsync,
               _ptsz,
               s,
               Route::kHost,
               sum(n, count),
               (Pointer * to,
                Pointer* from,
                std::size_t* n,
                std::size_t count,
                void* how,
                std::size_t* which,
                std::size_t hows,
                std::size_t* failed,
                Stream s),
               (to, from, n, count, how, which, hows, failed, s))
GUARD_COPY_TWO(cuMemcpyBatchAsync_v2,
               _ptsz,
               s,
               Route::kHost,
               sum(n, count),
               (Pointer * to,
                Pointer* from,
                std::size_t* n,
                std::size_t count,
                void* how,
                std::size_t* which,
                std::size_t hows,
                Stream s),
               (to, from, n, count, how, which, hows, s))
GUARD_COPY_TWO(
    cuMemcpy3DBatchAsync,
    _ptsz,
    s,
    Route::kHost,
    sum(list, count),
    (std::size_t count, BatchCopy3D* list, std::size_t* failed, unsigned long long flags, Stream s),
    (count, list, failed, flags, s))
GUARD_COPY_TWO(cuMemcpy3DBatchAsync_v2,
               _ptsz,
               s,
               Route::kHost,
               sum(list, count),
               (std::size_t count, BatchCopy3D* list, unsigned long long flags, Stream s),
               (count, list, flags, s))
GUARD_COPY_TWO(cuMemPrefetchAsync,
               _ptsz,
               s,
               Route::kHost,
               n,
               (Pointer at, std::size_t n, Device where, Stream s),
               (at, n, where, s))
GUARD_COPY_TWO(cuMemPrefetchAsync_v2,
               _ptsz,
               s,
               Route::kHost,
               n,
               (Pointer at, std::size_t n, Location where, unsigned flags, Stream s),
               (at, n, where, flags, s))
GUARD_COPY_TWO(cuMemPrefetchBatchAsync,
               _ptsz,
               s,
               Route::kHost,
               sum(n, count),
               (Pointer * at,
                std::size_t* n,
                std::size_t count,
                Location* where,
                std::size_t* which,
                std::size_t places,
                unsigned long long flags,
                Stream s),
               (at, n, count, where, which, places, flags, s))
GUARD_COPY_TWO(cuMemBatchDecompressAsync,
               _ptsz,
               s,
               Route::kDevice,
               sum(list, count),
               (Decompress * list, std::size_t count, unsigned flags, std::size_t* failed, Stream s),
               (list, count, flags, failed, s))

// Memsets.
#define GUARD_SET(name, suffix, stream, bytes, parameters, arguments)                                \
  GUARD_EXPORT Result name parameters {                                                              \
    return device_work(                                                                              \
        DeviceWork::kSet, bytes, stream, StreamKind::kLegacy, [&] { return REAL(name) arguments; }); \
  }                                                                                                  \
  GUARD_EXPORT Result name##suffix parameters {                                                      \
    return device_work(DeviceWork::kSet, bytes, stream, StreamKind::kPerThread, [&] {                \
      return REAL(name##suffix) arguments;                                                           \
    });                                                                                              \
  }
GUARD_SET(cuMemsetD8_v2, _ptds, nullptr, n, (Pointer to, unsigned char v, std::size_t n), (to, v, n))
GUARD_SET(
    cuMemsetD16_v2, _ptds, nullptr, product(n, 2), (Pointer to, unsigned short v, std::size_t n), (to, v, n))
GUARD_SET(cuMemsetD32_v2, _ptds, nullptr, product(n, 4), (Pointer to, unsigned v, std::size_t n), (to, v, n))
GUARD_SET(cuMemsetD8Async, _ptsz, s, n, (Pointer to, unsigned char v, std::size_t n, Stream s), (to, v, n, s))
GUARD_SET(cuMemsetD16Async,
          _ptsz,
          s,
          product(n, 2),
          (Pointer to, unsigned short v, std::size_t n, Stream s),
          (to, v, n, s))
GUARD_SET(cuMemsetD32Async,
          _ptsz,
          s,
          product(n, 4),
          (Pointer to, unsigned v, std::size_t n, Stream s),
          (to, v, n, s))
GUARD_SET(cuMemsetD2D8_v2,
          _ptds,
          nullptr,
          product(w, h),
          (Pointer to, std::size_t pitch, unsigned char v, std::size_t w, std::size_t h),
          (to, pitch, v, w, h))
GUARD_SET(cuMemsetD2D16_v2,
          _ptds,
          nullptr,
          product(w, h, 2),
          (Pointer to, std::size_t pitch, unsigned short v, std::size_t w, std::size_t h),
          (to, pitch, v, w, h))
GUARD_SET(cuMemsetD2D32_v2,
          _ptds,
          nullptr,
          product(w, h, 4),
          (Pointer to, std::size_t pitch, unsigned v, std::size_t w, std::size_t h),
          (to, pitch, v, w, h))
GUARD_SET(cuMemsetD2D8Async,
          _ptsz,
          s,
          product(w, h),
          (Pointer to, std::size_t pitch, unsigned char v, std::size_t w, std::size_t h, Stream s),
          (to, pitch, v, w, h, s))
GUARD_SET(cuMemsetD2D16Async,
          _ptsz,
          s,
          product(w, h, 2),
          (Pointer to, std::size_t pitch, unsigned short v, std::size_t w, std::size_t h, Stream s),
          (to, pitch, v, w, h, s))
GUARD_SET(cuMemsetD2D32Async,
          _ptsz,
          s,
          product(w, h, 4),
          (Pointer to, std::size_t pitch, unsigned v, std::size_t w, std::size_t h, Stream s),
          (to, pitch, v, w, h, s))
