// SPDX-License-Identifier: Apache-2.0
// What libtranche-guard.so offers to programs that hand a device from one tenant to the next. Look the
// functions up with dlsym(RTLD_DEFAULT, ...) or in the library itself.
#ifndef TRANCHE_GUARD_H
#define TRANCHE_GUARD_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Zeroes a range of device memory, then reads all of it back and counts the bytes that are not zero. Anything
// but zero means: the memory does not hold what is written to it, and no tenant may have it. Returns the
// API's own result code (CUresult, cl_int); zero is success. Waits until it is done.
int tranche_guard_cuda_zero_and_verify(uint64_t device_pointer, size_t bytes, uint64_t* nonzero_bytes);
int tranche_guard_opencl_zero_and_verify(
    void* command_queue, void* memory_object, size_t offset, size_t bytes, uint64_t* nonzero_bytes);

#ifdef __cplusplus
}
#endif
#endif
