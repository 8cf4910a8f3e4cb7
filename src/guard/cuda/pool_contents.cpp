// SPDX-License-Identifier: Apache-2.0
// A program gets the address of stream-ordered memory at once, and its right to the memory at a point of a
// stream that may be far away, because earlier work of its own may still use it. Zeroing in that stream is
// too late for whoever reads without waiting, and waiting for that stream may be waiting for ever: for
// something that the program does only after the call. So the memory is taken on a stream of our own, from
// what nobody uses any more, and the pool is kept from making that stream wait for the program's.
#include "guard/cuda/pool_contents.hpp"

#include <sched.h>

#include "guard/cuda/own_stream.hpp"

namespace tranche::guard::cuda {
namespace {

constexpr int kReuseAfterWaiting = 3;        // CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
std::atomic<std::uint32_t> attributes_lock;  // NOLINT: of pools; nothing is waited for under it.

class Attributes {
 public:
  Attributes() {
    for (int spins = 0; attributes_lock.exchange(1, std::memory_order_acquire) != 0; ++spins)
      if (spins > 100) ::sched_yield();
  }
  ~Attributes() { attributes_lock.store(0, std::memory_order_release); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
};

Result take_from_idle(Pointer* out, std::size_t bytes, void* pool, Stream stream) {
  auto* take = DRIVER(cuMemAllocFromPoolAsync, Result(Pointer*, std::size_t, void*, Stream));
  auto* read = DRIVER(cuMemPoolGetAttribute, Result(void*, int, void*));
  auto* write = DRIVER(cuMemPoolSetAttribute, Result(void*, int, void*));
  if (take == nullptr || read == nullptr || write == nullptr) return kNotSupported;
  const Attributes turn;
  int wish = 1;
  int none = 0;
  if (read(pool, kReuseAfterWaiting, &wish) != kSuccess) return kNotSupported;
  if (wish != 0 && write(pool, kReuseAfterWaiting, &none) != kSuccess) return kNotSupported;
  const Result outcome = take(out, bytes, pool, stream);
  if (wish != 0) write(pool, kReuseAfterWaiting, &wish);
  return outcome;
}

}  // namespace

Result take_zeroed(Pointer* out, std::size_t bytes, void* pool) {
  const OwnStream own;
  auto* give_back = DRIVER(cuMemFreeAsync, Result(Pointer, Stream));
  if (own.handle() == nullptr || give_back == nullptr) return kNotSupported;
  Pointer taken = 0;
  if (const Result outcome = take_from_idle(&taken, bytes, pool, own.handle()); outcome != kSuccess)
    return outcome;
  if (!own.zero(taken, bytes)) {
    give_back(taken, own.handle());
    return kNotSupported;
  }
  *out = taken;  // Another thread may look at it all the time.
  return kSuccess;
}

Result set_pool_attribute(void* pool, int attribute, void* value) {
  auto* write = DRIVER(cuMemPoolSetAttribute, Result(void*, int, void*));
  if (write == nullptr) return kNotSupported;
  const Attributes turn;
  return write(pool, attribute, value);
}

}  // namespace tranche::guard::cuda
