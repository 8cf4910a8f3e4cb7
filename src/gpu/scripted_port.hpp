// SPDX-License-Identifier: Apache-2.0
#pragma once
// The scripted device: a port whose hardware is a text. Everything it shows is marked simulated.
#include <functional>
#include <vector>

#include "gpu/partition_layout.hpp"
#include "gpu/port.hpp"
#include "gpu/script.hpp"

namespace tranche::gpu {

class ScriptedPort final : public DevicePort {
 public:
  using Clock = std::function<Instant()>;
  // The script's time starts now.
  ScriptedPort(Script script, const std::string& serial, Clock clock);

  [[nodiscard]] std::string name() const override { return "scripted"; }
  [[nodiscard]] std::vector<DeviceFacts> discover() override;
  [[nodiscard]] std::vector<DeviceSample> sample() override;
  [[nodiscard]] std::vector<DeviceProcess> processes() override;
  [[nodiscard]] std::vector<HealthSignal> signals() override;
  [[nodiscard]] std::vector<std::string> files_of(const std::string& /*uuid*/) override { return {}; }
  Result<Partition, std::string> create_partition(const std::string& uuid,
                                                  const std::string& profile,
                                                  std::uint8_t start) override;
  Result<void, std::string> destroy_partition(const std::string& partition_uuid) override;
  Result<void, std::string> set_mode(const std::string& uuid, wire::DeviceMode mode) override;
  Result<void, std::string> reset(const std::string& uuid) override;
  [[nodiscard]] std::vector<Partition> partitions(const std::string& uuid) override;
  Result<void, std::string> set_exclusive(const std::string& uuid, bool exclusive) override;
  Result<void, std::string> set_time_slice(const std::string& uuid, TimeSlice length) override;

 private:
  struct Simulated {
    DeviceFacts facts{};
    PartitionLayout layout;
    bool exclusive = false;
    TimeSlice time_slice = TimeSlice::kDefault;
  };
  void add_devices(const ScriptDevices& devices, const std::string& serial);
  [[nodiscard]] Duration now() const { return clock_() - start_; }
  [[nodiscard]] bool is_lost(std::size_t index, Duration at) const;
  [[nodiscard]] std::int32_t clock_limit(std::size_t index, Duration at) const;
  [[nodiscard]] ScriptPoint reading(std::size_t index, Duration at) const;
  [[nodiscard]] HealthSignal signal_of(const ScriptEvent& event) const;
  Simulated* find(const std::string& uuid);
  Result<Simulated*, std::string> find_idle(const std::string& uuid);

  Script script_;
  Clock clock_;
  Instant start_{};
  std::size_t told_ = 0;  // Events before this one were given out.
  std::uint64_t partitions_made_ = 0;
  std::vector<Simulated> devices_{};
};

}  // namespace tranche::gpu
