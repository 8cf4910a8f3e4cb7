// SPDX-License-Identifier: Apache-2.0
#include "gpu/device_test_kernels.hpp"

namespace tranche::gpu {

const char* device_kernels() {
  return R"CL(
#pragma OPENCL FP_CONTRACT OFF

// A CPU wants each item to walk a block of its own; a GPU wants neighbours to touch neighbouring words.
#ifdef TRANCHE_BLOCKED
#define FOR_EACH(i, count)                                                             \
  const ulong share = ((count) + get_global_size(0) - 1) / get_global_size(0);         \
  const ulong first = min((ulong)(count), (ulong)get_global_id(0) * share);            \
  const ulong last = min((ulong)(count), first + share);                               \
  for (ulong i = first; i < last; ++i)
#else
#define FOR_EACH(i, count) for (ulong i = get_global_id(0); i < (count); i += get_global_size(0))
#endif

ulong any_bit(ulong8 v) {
  return v.s0 | v.s1 | v.s2 | v.s3 | v.s4 | v.s5 | v.s6 | v.s7;
}

ulong8 expected(uint pattern, ulong unit, ulong seed) {
  const ulong8 at = (ulong8)(unit * 8) + (ulong8)(0, 1, 2, 3, 4, 5, 6, 7) + (ulong8)(seed);
  if (pattern == 0) return (ulong8)(1) << (at & (ulong8)(63));
  if (pattern == 1) return at;
  ulong8 x = at * (ulong8)(0x9E3779B97F4A7C15UL);
  x ^= x >> (ulong8)(29);
  x *= (ulong8)(0xBF58476D1CE4E5B9UL);
  return x ^ (x >> (ulong8)(32));
}

kernel void pattern_fill(global ulong8* memory, ulong count, uint pattern, ulong seed, ulong flip) {
  FOR_EACH(i, count) memory[i] = expected(pattern, i, seed) ^ (ulong8)(flip);
}

// result: how many units differ, and the first of them.
kernel void pattern_check(global const ulong8* memory, ulong count, uint pattern, ulong seed, ulong flip,
                          global volatile uint* result) {
  FOR_EACH(i, count) {
    if (any_bit(memory[i] ^ expected(pattern, i, seed) ^ (ulong8)(flip)) != 0) {
      atomic_inc(result);
      atomic_min(result + 1, (uint)i);
    }
  }
}

kernel void zero_fill(global ulong8* memory, ulong count) {
  FOR_EACH(i, count) memory[i] = (ulong8)(0);
}

kernel void find_nonzero(global const ulong8* memory, ulong count, global volatile uint* found) {
  ulong8 all = (ulong8)(0);
  FOR_EACH(i, count) all |= memory[i];
  if (any_bit(all) != 0) atomic_inc(found);
}

// Only after find_nonzero found something: exact, and slower.
kernel void count_nonzero(global const uchar* memory, ulong count, global volatile uint* found) {
  uint mine = 0;
  FOR_EACH(i, count) mine += memory[i] != 0;
  if (mine != 0) atomic_add(found, mine);
}

// A chaotic chain of exactly rounded steps: one wrong bit anywhere changes the end of its chain. The host
// computes the same.
kernel void burn(global const float* starts, uint distinct, uint rounds, uint seed, global uint* out) {
  const uint me = (uint)get_global_id(0);
  float x = starts[me % distinct];
  uint h = seed + me % distinct;
  for (uint round = 0; round < rounds; ++round) {
    const float y = 3.7f * x;
    x = fma(-y, x, y);
    h = (h ^ as_uint(x)) * 0x9E3779B1u;
    h ^= h >> 15;
  }
  out[me] = h;
}

kernel void nothing(global uint* out) {
  if (get_global_id(0) == 0) out[0] = out[0] + 1;
}
)CL";
}

}  // namespace tranche::gpu
