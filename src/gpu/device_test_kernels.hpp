// SPDX-License-Identifier: Apache-2.0
#pragma once
// OpenCL C of everything that we run on devices ourselves: tests and wiping. OpenCL 1.2 and nothing else, so
// that any device can build it.

namespace tranche::gpu {

const char* device_kernels();

// Which pattern pattern_fill writes; its number is the kernel's argument.
enum class MemoryPattern : unsigned { kWalkingOnes = 0, kAddress = 1, kRandom = 2 };

}  // namespace tranche::gpu
