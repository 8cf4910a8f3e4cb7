// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two 64-bit words that change together. The account needs this: a process may die between any two
// instructions, and a sum and its part must never be seen to disagree.
#include <atomic>
#include <cstdint>

namespace tranche::guard {

__extension__ using Word128 = unsigned __int128;

struct Pair {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

// Lock-free on every x86-64 (cmpxchg16b, -mcx16) and aarch64. Lives in shared memory: zero bytes are a valid
// initial state, and there is no constructor to run.
class alignas(16) AtomicPair {
 public:
  // Two plain loads; `low` must change with every change of `high` (a sequence number lives there), which
  // makes the repeated read of `low` a proof that both halves belong together.
  [[nodiscard]] Pair load() const {
    for (;;) {
      const std::uint64_t low = __atomic_load_n(&words_[0], __ATOMIC_ACQUIRE);
      const std::uint64_t high = __atomic_load_n(&words_[1], __ATOMIC_ACQUIRE);
      if (__atomic_load_n(&words_[0], __ATOMIC_ACQUIRE) == low) return {low, high};
    }
  }

  // ThreadSanitizer would take a lock of this process instead of the instruction, and others write here, too.
  __attribute__((no_sanitize("thread"))) bool replace(const Pair& expected, const Pair& desired) {
    // The cast is what makes one 16-byte instruction out of two words; the class is aligned for it.
    return __sync_bool_compare_and_swap(reinterpret_cast<Word128*>(words_), join(expected), join(desired));
  }

 private:
  static Word128 join(const Pair& pair) { return (static_cast<Word128>(pair.high) << 64) | pair.low; }
  alignas(16) std::uint64_t words_[2];
};

}  // namespace tranche::guard
