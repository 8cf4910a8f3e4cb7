// SPDX-License-Identifier: Apache-2.0
// NVIDIA devices through NVML.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <utility>

#include "gpu/device_identity.hpp"
#include "gpu/mps_control.hpp"
#include "gpu/nvml_counters.hpp"
#include "gpu/nvml_health.hpp"
#include "gpu/nvml_partitions.hpp"
#include "gpu/topology.hpp"
#include "gpu/vendor_ports.hpp"

namespace tranche::gpu {
namespace {

using nvml::Api;
using nvml::Device;

std::string text_of(int (*read)(Device, char*, unsigned), Device device) {
  char text[128] = {};
  return succeeds(read, device, text, unsigned{sizeof text}) ? text : "";
}

// nvidia-caps minor numbers are given out at run time; the driver says which in a file.
std::string capability_file(unsigned minor, const std::string& inside) {
  std::ifstream file("/proc/driver/nvidia/capabilities/gpu" + std::to_string(minor) + "/mig/" + inside +
                     "/access");
  for (std::string line; std::getline(file, line);) {
    unsigned number = 0;
    if (std::sscanf(line.c_str(), "DeviceFileMinor: %u", &number) == 1)
      return "/dev/nvidia-caps/nvidia-cap" + std::to_string(number);
  }
  return {};
}

class NvmlPort final : public DevicePort {
 public:
  explicit NvmlPort(const Api& api) : api_(api), health_(api_), counters_(api_) { refresh(); }

  [[nodiscard]] std::string name() const override { return "nvml"; }

  [[nodiscard]] std::vector<DeviceFacts> discover() override {
    refresh();
    std::vector<DeviceFacts> out;
    for (const auto& [uuid, device] : devices_) out.push_back(facts_of(uuid, device));
    std::sort(out.begin(), out.end(), [](const DeviceFacts& a, const DeviceFacts& b) {
      return std::tie(a.pci_address, a.uuid) < std::tie(b.pci_address, b.uuid);
    });
    return out;
  }

  [[nodiscard]] std::vector<DeviceSample> sample() override {
    std::vector<DeviceSample> out;
    for (const auto& [uuid, device] : devices_) {
      nvml::Memory memory{};
      if (!succeeds(api_.memory, device, &memory)) continue;
      DeviceSample sample{.uuid = uuid, .vram_used = {static_cast<std::int64_t>(memory.used)}};
      nvml::Utilization busy{};
      if (succeeds(api_.utilization, device, &busy)) {
        sample.busy_milli = static_cast<std::uint16_t>(busy.gpu * 10);
        sample.memory_busy_milli = static_cast<std::uint16_t>(busy.memory * 10);
      } else {
        sample.missing |= wire::kNoBusy;
      }
      const auto read = [&](bool succeeded, std::int32_t& value, unsigned reading, std::uint8_t lack) {
        if (succeeded) value = static_cast<std::int32_t>(reading);
        if (!succeeded) sample.missing |= lack;
      };
      unsigned reading = 0;
      const bool power = succeeds(api_.power, device, &reading);
      read(power, sample.power_milliwatts, reading, wire::kNoPower);
      const bool temperature = succeeds(api_.temperature, device, 0U, &reading);
      read(temperature, sample.temperature_celsius, reading, wire::kNoTemperature);
      const bool clock = succeeds(api_.clock, device, nvml::kClockSm, &reading);
      read(clock, sample.sm_clock_megahertz, reading, wire::kNoClock);
      unsigned long long errors = 0;
      if (succeeds(api_.ecc_errors, device, nvml::kUncorrected, nvml::kSinceBoot, &errors)) {
        sample.ecc_uncorrected = errors;
      } else {
        sample.missing |= wire::kNoErrors;
      }
      if (succeeds(api_.ecc_errors, device, nvml::kCorrected, nvml::kSinceBoot, &errors))
        sample.ecc_corrected = errors;
      if (succeeds(api_.total_energy, device, &errors)) sample.energy_millijoules = errors;
      counters_.read(device, sample);
      out.push_back(std::move(sample));
    }
    return out;
  }

  [[nodiscard]] std::vector<DeviceProcess> processes() override {
    std::vector<DeviceProcess> out;
    for (const auto& [uuid, device] : devices_) {
      for (DeviceProcess& process : processes_of(uuid, device)) out.push_back(std::move(process));
    }
    return out;
  }

  [[nodiscard]] std::vector<HealthSignal> signals() override { return health_.poll(devices_, wall_time()); }

  [[nodiscard]] std::vector<std::string> files_of(const std::string& uuid) override {
    std::vector<std::string> out{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"};
    for (const auto& [own, device] : devices_) {
      unsigned minor = 0;
      if (!succeeds(api_.minor_number, device, &minor)) continue;
      if (own == uuid) out.push_back("/dev/nvidia" + std::to_string(minor));
      for (const auto& found : nvml::partitions_of(api_, device)) {
        if (found.partition.uuid != uuid) continue;
        const std::string instance = "gi" + std::to_string(found.gpu_instance);
        out.push_back("/dev/nvidia" + std::to_string(minor));
        out.push_back(capability_file(minor, instance));
        out.push_back(capability_file(minor, instance + "/ci" + std::to_string(found.compute_instance)));
      }
    }
    return those_that_exist(std::move(out));
  }

  [[nodiscard]] std::vector<Partition> partitions(const std::string& uuid) override {
    std::vector<Partition> out;
    if (const auto at = devices_.find(uuid); at != devices_.end()) {
      for (auto& found : nvml::partitions_of(api_, at->second)) out.push_back(std::move(found.partition));
    }
    return out;
  }

  Result<Partition, std::string> create_partition(const std::string& uuid,
                                                  const std::string& profile,
                                                  std::uint8_t start) override {
    const auto at = devices_.find(uuid);
    if (at == devices_.end()) return refuse("no device " + uuid);
    return nvml::create_partition(api_, at->second, profile, start);
  }

  Result<void, std::string> destroy_partition(const std::string& partition_uuid) override {
    for (const auto& [uuid, device] : devices_) {
      for (const auto& found : nvml::partitions_of(api_, device)) {
        if (found.partition.uuid != partition_uuid) continue;
        for (const DeviceProcess& process : processes_of(uuid, device)) {
          if (process.uuid == partition_uuid)
            return refuse("process " + std::to_string(process.pid) + " uses the partition: end it first");
        }
        return nvml::destroy_partition(api_, device, found);
      }
    }
    return refuse("no partition " + partition_uuid);
  }

  Result<void, std::string> set_mode(const std::string& uuid, wire::DeviceMode mode) override {
    if (auto idle = must_be_idle(uuid); !idle) return idle;
    const Device device = devices_.at(uuid);
    if (mode != wire::DeviceMode::kPartitioned && !nvml::partitions_of(api_, device).empty())
      return refuse(std::string("the device has partitions: destroy them first"));
    auto changed = nvml::set_partitioned(api_, device, mode == wire::DeviceMode::kPartitioned);
    if (changed) shared_[uuid] = mode == wire::DeviceMode::kShared;
    return changed;
  }

  Result<void, std::string> reset(const std::string& uuid) override {
    if (auto idle = must_be_idle(uuid); !idle) return idle;
    auto done = nvml::reset_device(uuid);
    if (done) health_.forget(uuid);
    return done;
  }

  Result<void, std::string> set_exclusive(const std::string& uuid, bool exclusive) override {
    if (auto idle = must_be_idle(uuid); !idle) return idle;
    const unsigned mode = exclusive ? nvml::kComputeExclusiveProcess : nvml::kComputeDefault;
    if (succeeds(api_.set_compute_mode, devices_.at(uuid), mode)) return {};
    return refuse(std::string("the driver did not change the compute mode: that needs root"));
  }

  Result<void, std::string> set_time_slice(const std::string& uuid, TimeSlice length) override {
    if (!devices_.contains(uuid)) return refuse("no device " + uuid);
    return nvml::set_time_slice(uuid, length);
  }

  Result<std::string, std::string> start_sharing(const std::string& uuid, const std::string& group) override {
    if (!devices_.contains(uuid)) return refuse("no device " + uuid);
    if (auto started = start_mps(uuid, group); !started) return refuse(std::move(started.error()));
    return mps_pipe_folder(uuid, group);
  }

  Result<void, std::string> stop_sharing(const std::string& uuid, const std::string& group) override {
    return stop_mps(uuid, group);
  }

 private:
  void refresh() {
    unsigned count = 0;
    if (!succeeds(api_.count, &count)) return;
    for (unsigned index = 0; index < count; ++index) {
      Device device = nullptr;
      if (!succeeds(api_.by_index, index, &device)) continue;
      if (const std::string uuid = text_of(api_.uuid, device); !uuid.empty()) devices_[uuid] = device;
    }
  }

  DeviceFacts facts_of(const std::string& uuid, Device device) {
    DeviceFacts facts{.uuid = uuid, .vendor = wire::GpuVendor::kNvidia, .name = text_of(api_.name, device)};
    nvml::Memory memory{};
    if (succeeds(api_.memory, device, &memory)) facts.vram = {static_cast<std::int64_t>(memory.total)};
    nvml::Pci pci{};
    if (succeeds(api_.pci, device, &pci))
      facts.pci_address = pci_address_text(pci.domain, pci.bus, pci.device, 0);
    char version[96] = {};
    if (succeeds(api_.driver_version, version, unsigned{sizeof version})) facts.driver_version = version;
    describe_from_catalog(facts);
    place_in_machine(facts);
    facts.profiles = nvml::profiles_of(api_, device, facts.model);
    if (shared_[uuid]) facts.mode = wire::DeviceMode::kShared;
    if (nvml::is_partitioned(api_, device)) facts.mode = wire::DeviceMode::kPartitioned;
    facts.soft_capable = true;
    facts.simulated = facts.name.find("(SIMULATED)") != std::string::npos;
    return facts;
  }

  std::vector<DeviceProcess> processes_of(const std::string& uuid, Device device) {
    std::vector<nvml::Process> found(64);
    unsigned count = 0;
    for (int tries = 0; tries < 4; ++tries) {  // The list may grow between the question and the answer.
      count = static_cast<unsigned>(found.size());
      const int result = api_.processes == nullptr ? 1 : api_.processes(device, &count, found.data());
      if (result == 0) break;
      if (result != nvml::kInsufficientSize) return {};
      found.resize(count + 64);
      count = 0;
    }
    const auto busy = busy_of(device);
    const auto partitions = nvml::partitions_of(api_, device);
    std::vector<DeviceProcess> out;
    for (unsigned i = 0; i < count; ++i) {
      DeviceProcess process{.pid = static_cast<std::int32_t>(found[i].pid),
                            .uuid = uuid,
                            .vram = {static_cast<std::int64_t>(found[i].used)}};
      if (const auto at = busy.find(found[i].pid); at != busy.end()) process.busy_milli = at->second;
      for (const auto& partition : partitions) {
        if (found[i].gpu_instance == partition.gpu_instance) process.uuid = partition.partition.uuid;
      }
      out.push_back(std::move(process));
    }
    return out;
  }

  std::map<unsigned, std::uint16_t> busy_of(Device device) {
    std::vector<nvml::ProcessSample> samples(256);
    auto count = static_cast<unsigned>(samples.size());
    std::map<unsigned, std::uint16_t> out;
    if (!succeeds(api_.process_utilization, device, samples.data(), &count, 0ULL)) return out;
    for (unsigned i = 0; i < count; ++i) out[samples[i].pid] = static_cast<std::uint16_t>(samples[i].sm * 10);
    return out;
  }

  Result<void, std::string> must_be_idle(const std::string& uuid) {
    const auto at = devices_.find(uuid);
    if (at == devices_.end()) return refuse("no device " + uuid);
    const auto running = processes_of(uuid, at->second);
    if (running.empty()) return {};
    return refuse("process " + std::to_string(running.front().pid) + " uses the device: end it first");
  }

  Api api_;
  nvml::Health health_;
  nvml::ActivityCounters counters_;
  std::map<std::string, Device> devices_{};
  std::map<std::string, bool> shared_{};
};

}  // namespace

std::unique_ptr<DevicePort> open_nvml(const std::string& library) {
  const SharedLibrary found =
      library.empty() ? SharedLibrary::open({"libnvidia-ml.so.1"}) : SharedLibrary::open({library});
  if (!found) return nullptr;
  const Api api = nvml::load(found);
  const bool usable = api.count != nullptr && api.by_index != nullptr && api.uuid != nullptr;
  if (!usable || !succeeds(api.init)) return nullptr;
  return std::make_unique<NvmlPort>(api);
}

}  // namespace tranche::gpu
