// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much somebody may still take now: filled at a rate, never beyond what fits in.
#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tranche::gateway {

class Bucket {
 public:
  using Clock = std::chrono::steady_clock;
  struct Size {
    std::uint64_t units = 0;         // That fit in.
    std::chrono::milliseconds in{};  // From empty to full.
  };

  // Whether there is any left. It begins full.
  bool has_any(const Size& size, Clock::time_point now) {
    fill(size, now);
    return parts_ >= static_cast<std::int64_t>(size.in.count());
  }
  // For so long there is none, when nothing more is taken.
  [[nodiscard]] std::chrono::milliseconds until_any(const Size& size, Clock::time_point now) {
    if (size.units == 0 || has_any(size, now)) return {};
    const auto units = static_cast<std::int64_t>(size.units);
    return std::chrono::milliseconds((size.in.count() - parts_ + units - 1) / units);
  }
  // What was taken, also beyond what there was: that is made up for first.
  void take(const Size& size, std::uint64_t units) {
    parts_ -= static_cast<std::int64_t>(units) * size.in.count();
  }

 private:
  void fill(const Size& size, Clock::time_point now) {
    const std::int64_t most = static_cast<std::int64_t>(size.units) * size.in.count();
    if (at_ == Clock::time_point{}) {
      parts_ = most;
      at_ = now;
    }
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - at_);
    if (passed.count() <= 0) return;
    at_ += passed;
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);  // Products stay small.
    parts_ =
        std::min(most, parts_ + std::min(passed, kLongest).count() * static_cast<std::int64_t>(size.units));
  }

  std::int64_t parts_ = 0;  // Units times milliseconds of the size.
  Clock::time_point at_{};
};

}  // namespace tranche::gateway
