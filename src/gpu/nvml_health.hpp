// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an NVIDIA device says about its own health since it was last asked.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/kernel_log.hpp"
#include "gpu/nvml_api.hpp"
#include "gpu/port.hpp"

namespace tranche::gpu::nvml {

class Health {
 public:
  explicit Health(const Api& api, const std::string& kernel_log = "/dev/kmsg")
      : api_(api), kernel_log_(kernel_log) {}
  std::vector<HealthSignal> poll(const std::map<std::string, Device>& devices, Instant now);
  void forget(const std::string& uuid) { seen_.erase(uuid); }  // It was reset: what lasts is told again.

 private:
  struct Seen {
    unsigned long long uncorrected = 0;
    bool known = false;  // The first reading is where counting begins, not news.
    unsigned long long corrected = 0;
    Instant corrected_since{};  // When the count was that.
    bool corrected_told = false;
    unsigned links = 0;    // The most that were up at once.
    Instant mute_since{};  // The driver says nothing of it since then.
    bool mute_told = false;
    bool lost = false, slow = false, braked = false, narrow = false, remap_pending = false,
         remap_failed = false, unprotected = false, unlinked = false;
  };
  struct Told {
    Instant at{};
    bool by_log = false;
  };
  void listen_to(const std::string& uuid, Device device);
  [[nodiscard]] bool answers(const std::string& uuid,
                             Device device,
                             Instant now,
                             std::vector<HealthSignal>& out);
  void read_xids(const std::map<std::string, Device>& devices, Instant now, std::vector<HealthSignal>& out);
  [[nodiscard]] std::vector<HealthSignal> events(const std::map<std::string, Device>& devices, Instant now);
  [[nodiscard]] std::vector<HealthSignal> lines(Instant now);
  [[nodiscard]] bool is_news(const HealthSignal& signal, bool by_log, Instant now);
  void read_counters(const std::string& uuid, Device device, Instant now, std::vector<HealthSignal>& out);
  void read_limits(const std::string& uuid, Device device, Instant now, std::vector<HealthSignal>& out);
  void read_links(const std::string& uuid, Device device, Instant now, std::vector<HealthSignal>& out);

  Api api_;
  KernelLog kernel_log_;
  EventSet events_ = nullptr;
  std::map<std::string, Seen> seen_{};
  std::set<std::string> listening_{};
  std::map<std::string, std::string> at_address_{};  // Who was there, also when it has left the bus since.
  std::map<std::pair<std::string, std::int64_t>, Told> told_{};  // Xids, by device and code.
};

Result<void, std::string> set_time_slice(const std::string& uuid, TimeSlice length);
// NVML has no reset; nvidia-smi does it through the driver.
Result<void, std::string> reset_device(const std::string& uuid);

}  // namespace tranche::gpu::nvml
