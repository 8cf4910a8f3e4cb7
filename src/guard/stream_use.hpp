// SPDX-License-Identifier: Apache-2.0
#pragma once
// Does this process launch on several streams? Then an event on one of them says nothing about the work of
// the others, and a kernel's beginning is not the end of what was before it in its own stream.
#include <atomic>
#include <cstdint>

namespace tranche::guard {

class StreamUse {
 public:
  // A launch went to `stream` (zero is one, too); `others`: launches of its thread before it went elsewhere.
  void note(std::uintptr_t stream, bool others, std::uint64_t now) {
    const std::uint64_t mark = std::uint64_t{stream} * 2 + 1;
    const std::uint64_t last = last_.exchange(mark, std::memory_order_relaxed);
    if (others || (last != 0 && last != mark)) several_at_.store(now, std::memory_order_relaxed);
  }
  // For a while: what alternates is not seen each time.
  [[nodiscard]] bool several(std::uint64_t now) const {
    const std::uint64_t at = several_at_.load(std::memory_order_relaxed);
    return at != 0 && now < at + kRememberedNs;
  }

 private:
  static constexpr std::uint64_t kRememberedNs = 1'000'000'000;
  std::atomic<std::uint64_t> last_;
  std::atomic<std::uint64_t> several_at_;
};

}  // namespace tranche::guard
