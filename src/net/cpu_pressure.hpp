// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long the calling thread was ready to run and had to wait for a processor, as the kernel counts it.
#include <chrono>

namespace tranche::net {

class CpuPressure {
 public:
  CpuPressure() = default;
  ~CpuPressure();
  CpuPressure(const CpuPressure&) = delete;
  CpuPressure& operator=(const CpuPressure&) = delete;

  // Since the last call; the first one tells nothing. Always from the same thread. Where the kernel does not
  // count it, nobody ever waits.
  std::chrono::nanoseconds waited();

 private:
  int file_ = -2;  // Not opened yet.
  long long before_ = -1;
};

}  // namespace tranche::net
