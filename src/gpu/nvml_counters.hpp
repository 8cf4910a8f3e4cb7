// SPDX-License-Identifier: Apache-2.0
#pragma once
// How busy multiprocessors, their tensor cores and memory of NVIDIA devices are, from one reading to the
// next. Older devices do not count.
#include <map>

#include "gpu/nvml_api.hpp"
#include "wire/agent_message.hpp"

namespace tranche::gpu::nvml {

class ActivityCounters {
 public:
  explicit ActivityCounters(const Api& api) : api_(api) {}
  ~ActivityCounters();
  ActivityCounters(const ActivityCounters&) = delete;
  ActivityCounters& operator=(const ActivityCounters&) = delete;
  // Adds what happened since the last reading of the device; nothing at its first.
  void read(Device device, wire::DeviceSample& sample);

 private:
  struct Samples {
    bool supported = false;
    CounterSample before = nullptr, after = nullptr;
    bool begun = false;
  };
  Samples& samples_of(Device device);
  const Api& api_;
  std::map<Device, Samples> devices_;
};

}  // namespace tranche::gpu::nvml
