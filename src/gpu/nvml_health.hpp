// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an NVIDIA device says about its own health since it was last asked.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpu/nvml_api.hpp"
#include "gpu/port.hpp"

namespace tranche::gpu::nvml {

class Health {
 public:
  explicit Health(const Api& api) : api_(api) {}
  std::vector<HealthSignal> poll(const std::map<std::string, Device>& devices, Instant now);

 private:
  struct Seen {
    unsigned long long uncorrected = 0;
    bool known = false;  // The first reading is where counting begins, not news.
    bool lost = false, slow = false, braked = false, narrow = false, remap_pending = false,
         remap_failed = false;
  };
  void listen_to(const std::string& uuid, Device device);
  void read_events(const std::map<std::string, Device>& devices, Instant now, std::vector<HealthSignal>& out);
  void read_counters(const std::string& uuid, Device device, Instant now, std::vector<HealthSignal>& out);
  void read_limits(const std::string& uuid, Device device, Instant now, std::vector<HealthSignal>& out);

  Api api_;
  EventSet events_ = nullptr;
  std::map<std::string, Seen> seen_{};
  std::set<std::string> listening_{};
};

Result<void, std::string> set_time_slice(const std::string& uuid, TimeSlice length);
// NVML has no reset; nvidia-smi does it through the driver.
Result<void, std::string> reset_device(const std::string& uuid);

}  // namespace tranche::gpu::nvml
