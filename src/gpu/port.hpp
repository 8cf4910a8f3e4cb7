// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one port to accelerators: find them, read them, divide them. Behind it: NVML, ROCm SMI, Level Zero and
// OpenCL, loaded at run time where they exist, and the scripted device, which is marked simulated.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "wire/agent_message.hpp"

namespace tranche::gpu {

using wire::DeviceFacts;
using wire::DeviceSample;
using wire::HealthSignal;

struct DeviceProcess {  // As the device knows it: what the guard's account is compared with.
  std::int32_t pid = 0;
  std::string uuid{};
  Bytes vram{};
  std::uint16_t busy_milli = 0;
};

struct Partition {
  std::string uuid{};  // What a job's environment names it by.
  std::string profile{};
  std::uint8_t start = 0;
};

// How long one process has a device before the next may: between interactive and throughput.
enum class TimeSlice : std::uint8_t { kDefault, kShort, kMedium, kLong };

// One way to reach devices. Not thread-safe: its owner calls it from one thread.
class DevicePort {
 public:
  virtual ~DevicePort() = default;
  [[nodiscard]] virtual std::string name() const = 0;  // nvml, rocm, level-zero, opencl, scripted
  [[nodiscard]] virtual std::vector<DeviceFacts> discover() = 0;
  [[nodiscard]] virtual std::vector<DeviceSample> sample() = 0;
  [[nodiscard]] virtual std::vector<DeviceProcess> processes() = 0;
  [[nodiscard]] virtual std::vector<HealthSignal> signals() = 0;  // New since the last call.
  // Device files that a job on this device must see ("/dev/nvidia0", ...).
  [[nodiscard]] virtual std::vector<std::string> files_of(const std::string& uuid) = 0;

  // Refusals say what to do next. A device in use is never reshaped.
  virtual Result<Partition, std::string> create_partition(const std::string& uuid,
                                                          const std::string& profile,
                                                          std::uint8_t start) = 0;
  virtual Result<void, std::string> destroy_partition(const std::string& partition_uuid) = 0;
  virtual Result<void, std::string> set_mode(const std::string& uuid, wire::DeviceMode mode) = 0;
  virtual Result<void, std::string> reset(const std::string& uuid) = 0;

  // What the device is cut into now: what an agent finds after a restart.
  [[nodiscard]] virtual std::vector<Partition> partitions(const std::string& uuid);
  // One process at a time, enforced by the driver.
  virtual Result<void, std::string> set_exclusive(const std::string& uuid, bool exclusive);
  // Of processes that take turns on the device; the default is the driver's own.
  virtual Result<void, std::string> set_time_slice(const std::string& uuid, TimeSlice length);
  // The vendor's daemon through which processes of one group (a tenant) share a device at the same time
  // (MPS), one for each device and group: what one breaks, others do not notice. The folder where programs
  // find it; one that runs already is as good as a new one.
  virtual Result<std::string, std::string> start_sharing(const std::string& uuid, const std::string& group);
  virtual Result<void, std::string> stop_sharing(const std::string& uuid, const std::string& group);
};

// Every port whose library is present on this machine, best first; a device reachable through two is listed
// by the first alone.
[[nodiscard]] std::vector<std::unique_ptr<DevicePort>> open_ports();
// Devices described by a script (docs/simulated.md), marked simulated. `serial` tells the devices of nodes
// apart that follow the same script. Throws std::runtime_error when unreadable.
[[nodiscard]] std::unique_ptr<DevicePort> open_scripted(const std::string& path,
                                                        const std::string& serial = {});

}  // namespace tranche::gpu
