// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of the CUDA driver interface that the guard reads itself. Handles stay opaque; of structures only
// the members it looks at are declared, at the places where every driver of CUDA 12 and 13 has them
// (tests/cuda_layout_test.py compares them with a toolkit's header where one is installed).
#include <cstddef>
#include <cstdint>

namespace tranche::guard::cuda {

using Result = int;
enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kNotFound = 500,
  kNotReady = 600,
  kLaunchTimeout = 702,
  kNotSupported = 801,
};

using Pointer = std::uint64_t;  // CUdeviceptr
using Handle = std::uint64_t;   // CUmemGenericAllocationHandle
using Stream = void*;
using Event = void*;
using Context = void*;
using Device = int;

inline const Stream kLegacyStream = reinterpret_cast<Stream>(1);
inline const Stream kPerThreadStream = reinterpret_cast<Stream>(2);
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr int kLocationDevice = 1;
inline constexpr int kPinned = 1;
inline constexpr int kGraphNodeChild = 4;
inline constexpr int kGraphNodeMemAlloc = 10;
inline constexpr int kPoolReleaseThreshold = 4;
inline constexpr int kHostMemory = 1;
inline constexpr int kArrayMemory = 3;

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};

struct MultiDeviceLaunch {
  void* function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  void** parameters;
};

struct Copy2D {
  std::size_t source_x, source_y;
  int source_type;
  const void* source_host;
  Pointer source_device;
  void* source_array;
  std::size_t source_pitch, target_x, target_y;
  int target_type;
  void* target_host;
  Pointer target_device;
  void* target_array;
  std::size_t target_pitch, width_bytes, height;
};
static_assert(offsetof(Copy2D, target_type) == 72 && offsetof(Copy2D, width_bytes) == 112 &&
              sizeof(Copy2D) == 128);

struct Copy3D {
  std::size_t source[4];
  int source_type;
  const void* source_host;
  Pointer source_device;
  void* source_array;
  void* reserved0;
  std::size_t source_pitch, source_height;
  std::size_t target_x, target_y, target_z, target_level;
  int target_type;
  void* target_host;
  Pointer target_device;
  void* target_array;
  void* reserved1;
  std::size_t target_pitch, target_height;
  std::size_t width_bytes, height, depth;
};
static_assert(offsetof(Copy3D, source_pitch) == 72 && offsetof(Copy3D, target_type) == 120 &&
              offsetof(Copy3D, target_array) == 144 && offsetof(Copy3D, width_bytes) == 176 &&
              sizeof(Copy3D) == 200);

struct Copy3DPeer {
  std::uint64_t ends[22];
  std::size_t width_bytes, height, depth;
};
static_assert(sizeof(Copy3DPeer) == 200);

struct BatchCopy3D {
  std::uint64_t operands[10];
  std::size_t extent[3];
  std::uint32_t order, flags;
};
static_assert(sizeof(BatchCopy3D) == 112);

struct Decompress {
  std::size_t source_bytes, target_bytes;
  std::uint64_t rest[6];
};
static_assert(sizeof(Decompress) == 64);

struct ArrayDescriptor {
  std::size_t width, height;
  int format;
  unsigned channels;
};
struct Array3DDescriptor {
  std::size_t width, height, depth;
  int format;
  unsigned channels;
  unsigned flags;
};
struct MemoryRequirements {
  std::size_t size, alignment;
  unsigned reserved[4];
};
struct Location {
  int type;
  int id;
};
struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void* metadata;
  unsigned char flags[8];
};
struct AllocNode {
  std::uint32_t pool_type, pool_handle_types;
  Location location;
  std::uint64_t pool_rest[9];
  const void* access;
  std::size_t access_count;
  std::size_t bytes;
  Pointer pointer;
};
static_assert(offsetof(AllocNode, bytes) == 104 && sizeof(AllocNode) == 120);
struct FillNode {
  Pointer pointer;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};
static_assert(sizeof(FillNode) == 40);
struct ExternalMemory {
  int type;
  std::uint64_t handle[2];
  unsigned long long size;
  unsigned flags;
  unsigned reserved[16];
};
static_assert(offsetof(ExternalMemory, size) == 24);
struct IpcHandle {
  char bytes[64];
};
struct Uuid {
  unsigned char bytes[16];
};

}  // namespace tranche::guard::cuda

#define GUARD_EXPORT extern "C" __attribute__((visibility("default")))
