// SPDX-License-Identifier: Apache-2.0
#pragma once
// A stand-in for the memory of a device that gives everything back dirty, as real devices do, and the wipes
// that tests put on it. Tenants here are code of the test; who may act when is the platform's word.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "agent/scrubber.hpp"

namespace tranche::agent {

class DirtyMemory {
 public:
  explicit DirtyMemory(std::size_t bytes) : words_(bytes / sizeof(std::uint64_t)) {}

  // A tenant takes all there is, fills it, and leaves it as it is.
  void fill(std::uint64_t canary) {
    const std::lock_guard lock(mutex_);
    std::fill(words_.begin(), words_.end(), canary);
  }
  // A tenant takes all there is, and looks for what somebody else wrote: bytes found.
  [[nodiscard]] std::uint64_t find(std::uint64_t canary) const {
    const std::lock_guard lock(mutex_);
    const auto count = std::count(words_.begin(), words_.end(), canary);
    return static_cast<std::uint64_t>(count) * sizeof canary;
  }
  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(words_.size() * sizeof(std::uint64_t));
  }
  std::int64_t zero_and_count() {  // What is not zero after zeroing, in bytes.
    const std::lock_guard lock(mutex_);
    std::fill(words_.begin(), words_.end(), 0);
    const auto zeros = std::count(words_.begin(), words_.end(), 0U);
    return bytes() - static_cast<std::int64_t>(zeros) * static_cast<std::int64_t>(sizeof(std::uint64_t));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> words_;
};

class MemoryScrubber final : public Scrubber {
 public:
  enum class Way { kWipes, kOnlySaysSo };  // The second shows that a test sees a wipe that was left out.
  MemoryScrubber(DirtyMemory& memory, Way way) : memory_(memory), way_(way) {}
  void scrub(const wire::DeviceFacts&, Bytes, wire::ScrubReceipt& receipt) override {
    if (way_ == Way::kWipes) receipt.nonzero_bytes = memory_.zero_and_count();
    receipt.zeroed = receipt.verified = {memory_.bytes()};
    receipt.method = "stand-in";
  }

 private:
  DirtyMemory& memory_;
  Way way_;
};

// What the tenant of a lease writes, and nobody else.
inline std::uint64_t canary_of(LeaseId lease) {
  return 0x9E3779B97F4A7C15U * (lease.value + 1);
}

}  // namespace tranche::agent
