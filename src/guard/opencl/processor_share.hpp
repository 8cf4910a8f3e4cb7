// SPDX-License-Identifier: Apache-2.0
#pragma once
// On a processor that is itself the device, how much of its time did this launch take? The process says how
// much processor time it used, and several launches may run at once (more than one queue, or one that keeps
// no order): what was used while some ran is theirs in equal parts, so that no time is charged twice.
#include <cstdint>

namespace tranche::guard::opencl {

class ProcessorShare {
 public:
  // `used_ns`: processor time of the process so far. Give what begins() returned to ended(), once.
  std::uint64_t begins(std::uint64_t used_ns) {
    look(used_ns);
    ++running_;
    return each_ns_;
  }
  std::uint64_t ended(std::uint64_t used_ns, std::uint64_t began) {
    look(used_ns);
    --running_;
    return each_ns_ - began;
  }

 private:
  void look(std::uint64_t used_ns) {
    if (used_ns <= seen_ns_) return;  // Threads may come here in another order than they read the clock.
    if (running_ != 0) each_ns_ += (used_ns - seen_ns_) / running_;
    seen_ns_ = used_ns;
  }
  std::uint64_t seen_ns_ = 0;
  std::uint64_t each_ns_ = 1;  // What one that ran all the time got. Never zero: that is "did not begin".
  std::uint64_t running_ = 0;
};

}  // namespace tranche::guard::opencl
