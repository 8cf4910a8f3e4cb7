// SPDX-License-Identifier: Apache-2.0
#pragma once
// Is this tie between the device's clock and ours good enough to replace the one in use?
//
// A tie is an event that is done as soon as it is recorded; it is known no better than the call that recorded
// it is short. One that is wrong by more than a short kernel makes every measure of it unusable until the
// next tie.
#include <algorithm>
#include <cstdint>

namespace tranche::guard {

inline constexpr std::uint64_t kTieLooseNs = 20'000;  // Never worse than this, once there is any.

class TieWidth {
 public:
  // Of the first ties that are made one after the other, the narrowest.
  bool narrower(std::uint64_t width_ns) {
    if (known_ && width_ns >= narrow_ns_) return false;
    narrow_ns_ = width_ns;
    return known_ = true;
  }
  // Later ones may be twice as wide as is usual here. What is usual grows with each that was refused: a host
  // that became slower is believed after a while.
  bool usual(std::uint64_t width_ns) {
    if (width_ns <= std::min(2 * narrow_ns_, kTieLooseNs)) {
      narrow_ns_ = std::min(narrow_ns_, width_ns);
      return true;
    }
    narrow_ns_ = std::min(narrow_ns_ + narrow_ns_ / 4 + 100, kTieLooseNs);
    return false;
  }

 private:
  std::uint64_t narrow_ns_ = 0;
  bool known_ = false;
};

}  // namespace tranche::guard
