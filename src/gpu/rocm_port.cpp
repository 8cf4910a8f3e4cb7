// SPDX-License-Identifier: Apache-2.0
// AMD devices through ROCm SMI. HIP is not covered by the guard, so they are never offered as soft shares.
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "gpu/device_identity.hpp"
#include "gpu/shared_library.hpp"
#include "gpu/topology.hpp"
#include "gpu/unpartitioned_port.hpp"
#include "gpu/vendor_ports.hpp"
#include "wire/health_codes.hpp"

namespace tranche::gpu {
namespace {

constexpr std::uint32_t kVram = 0;
constexpr std::uint32_t kJunction = 1;
constexpr std::uint32_t kCurrent = 0;
constexpr std::uint32_t kDriver = 0;
constexpr std::uint64_t kUmcBlock = 1;  // The memory controller.

struct EccCount {
  std::uint64_t corrected = 0;
  std::uint64_t uncorrected = 0;
};
struct RocmProcess {
  std::uint32_t pid = 0;
  std::uint32_t address_space = 0;
  std::uint64_t vram = 0;
  std::uint64_t sdma = 0;
  std::uint32_t occupancy = 0;
};

struct RocmApi {
  int (*init)(std::uint64_t) = nullptr;
  int (*count)(std::uint32_t*) = nullptr;
  int (*name)(std::uint32_t, char*, std::size_t) = nullptr;
  int (*unique_id)(std::uint32_t, std::uint64_t*) = nullptr;
  int (*pci_id)(std::uint32_t, std::uint64_t*) = nullptr;
  int (*memory_total)(std::uint32_t, std::uint32_t, std::uint64_t*) = nullptr;
  int (*memory_used)(std::uint32_t, std::uint32_t, std::uint64_t*) = nullptr;
  int (*busy)(std::uint32_t, std::uint32_t*) = nullptr;
  int (*power)(std::uint32_t, std::uint32_t, std::uint64_t*) = nullptr;
  int (*temperature)(std::uint32_t, std::uint32_t, std::uint32_t, std::int64_t*) = nullptr;
  int (*ecc)(std::uint32_t, std::uint64_t, EccCount*) = nullptr;
  int (*version)(std::uint32_t, char*, std::uint32_t) = nullptr;
  int (*processes)(RocmProcess*, std::uint32_t*) = nullptr;
  int (*process_devices)(std::uint32_t, std::uint32_t*, std::uint32_t*) = nullptr;
  int (*reset)(std::int32_t) = nullptr;
};

RocmApi load(const SharedLibrary& library) {
  RocmApi api;
  library.bind(api.init, "rsmi_init");
  library.bind(api.count, "rsmi_num_monitor_devices");
  library.bind(api.name, "rsmi_dev_name_get");
  library.bind(api.unique_id, "rsmi_dev_unique_id_get");
  library.bind(api.pci_id, "rsmi_dev_pci_id_get");
  library.bind(api.memory_total, "rsmi_dev_memory_total_get");
  library.bind(api.memory_used, "rsmi_dev_memory_usage_get");
  library.bind(api.busy, "rsmi_dev_busy_percent_get");
  library.bind(api.power, "rsmi_dev_power_ave_get");
  library.bind(api.temperature, "rsmi_dev_temp_metric_get");
  library.bind(api.ecc, "rsmi_dev_ecc_count_get");
  library.bind(api.version, "rsmi_version_str_get");
  library.bind(api.processes, "rsmi_compute_process_info_get");
  library.bind(api.process_devices, "rsmi_compute_process_gpus_get");
  library.bind(api.reset, "rsmi_dev_gpu_reset");
  return api;
}

class RocmPort final : public UnpartitionedPort {
 public:
  explicit RocmPort(const RocmApi& api) : api_(api) {}
  [[nodiscard]] std::string name() const override { return "rocm"; }

  [[nodiscard]] std::vector<DeviceFacts> discover() override {
    std::vector<DeviceFacts> out;
    std::uint32_t count = 0;
    if (!succeeds(api_.count, &count)) return out;
    for (std::uint32_t index = 0; index < count; ++index) {
      out.push_back(facts_of(index));
      indexes_[out.back().uuid] = index;
      addresses_[out.back().uuid] = out.back().pci_address;
    }
    return out;
  }

  [[nodiscard]] std::vector<DeviceSample> sample() override {
    std::vector<DeviceSample> out;
    for (const auto& [uuid, index] : indexes_) {
      DeviceSample sample{.uuid = uuid,
                          .missing = wire::kNoBusy | wire::kNoPower | wire::kNoTemperature | wire::kNoClock |
                                     wire::kNoErrors};
      const auto has = [&](std::uint8_t reading) {
        sample.missing = static_cast<std::uint8_t>(sample.missing & ~reading);
      };
      std::uint64_t used = 0;
      if (!succeeds(api_.memory_used, index, kVram, &used)) continue;
      sample.vram_used = {static_cast<std::int64_t>(used)};
      std::uint32_t percent = 0;
      if (succeeds(api_.busy, index, &percent)) {
        sample.busy_milli = static_cast<std::uint16_t>(percent * 10);
        has(wire::kNoBusy);
      }
      std::uint64_t microwatts = 0;
      if (succeeds(api_.power, index, 0U, &microwatts)) {
        sample.power_milliwatts = static_cast<std::int32_t>(microwatts / 1000);
        has(wire::kNoPower);
      }
      std::int64_t millidegrees = 0;
      if (succeeds(api_.temperature, index, kJunction, kCurrent, &millidegrees)) {
        sample.temperature_celsius = static_cast<std::int32_t>(millidegrees / 1000);
        has(wire::kNoTemperature);
      }
      EccCount errors;
      if (succeeds(api_.ecc, index, kUmcBlock, &errors)) {
        sample.ecc_uncorrected = errors.uncorrected;
        has(wire::kNoErrors);
      }
      out.push_back(std::move(sample));
    }
    return out;
  }

  [[nodiscard]] std::vector<DeviceProcess> processes() override {
    std::vector<DeviceProcess> out;
    std::uint32_t count = 0;
    if (!succeeds(api_.processes, static_cast<RocmProcess*>(nullptr), &count) || count == 0) return out;
    std::vector<RocmProcess> found(count + 16);
    count = static_cast<std::uint32_t>(found.size());
    if (!succeeds(api_.processes, found.data(), &count)) return out;
    for (std::uint32_t i = 0; i < count && i < found.size(); ++i) {
      std::array<std::uint32_t, 64> devices{};
      auto device_count = static_cast<std::uint32_t>(devices.size());
      if (!succeeds(api_.process_devices, found[i].pid, devices.data(), &device_count)) continue;
      for (const auto& [uuid, index] : indexes_) {
        for (std::uint32_t d = 0; d < device_count && d < devices.size(); ++d) {
          if (devices[d] == index)
            out.push_back({.pid = static_cast<std::int32_t>(found[i].pid),
                           .uuid = uuid,
                           .vram = {static_cast<std::int64_t>(found[i].vram)}});
        }
      }
    }
    return out;
  }

  [[nodiscard]] std::vector<HealthSignal> signals() override {
    std::vector<HealthSignal> out;
    for (const auto& [uuid, index] : indexes_) {
      EccCount errors;
      if (!succeeds(api_.ecc, index, kUmcBlock, &errors)) continue;
      const auto [before, first] = uncorrected_.try_emplace(uuid, errors.uncorrected);
      if (!first && errors.uncorrected > before->second)
        out.push_back({.uuid = uuid,
                       .source = "ecc",
                       .code = wire::kEccUncorrected,
                       .value = static_cast<std::int64_t>(errors.uncorrected),
                       .at = wall_time(),
                       .text = "uncorrected memory errors rose"});
      before->second = errors.uncorrected;
    }
    return out;
  }

  [[nodiscard]] std::vector<std::string> files_of(const std::string& uuid) override {
    const auto at = addresses_.find(uuid);
    if (at == addresses_.end()) return {};
    auto files = render_files_of(at->second);
    files.insert(files.begin(), "/dev/kfd");
    return those_that_exist(std::move(files));
  }

  Result<void, std::string> reset(const std::string& uuid) override {
    const auto at = indexes_.find(uuid);
    if (at == indexes_.end()) return refuse("no device " + uuid);
    for (const DeviceProcess& process : processes()) {
      if (process.uuid == uuid)
        return refuse("process " + std::to_string(process.pid) + " uses the device: end it first");
    }
    if (succeeds(api_.reset, static_cast<std::int32_t>(at->second))) return {};
    return refuse(std::string("the driver did not reset the device: reboot the node"));
  }

 private:
  DeviceFacts facts_of(std::uint32_t index) {
    DeviceFacts facts{.vendor = wire::GpuVendor::kAmd};
    char text[256] = {};
    if (succeeds(api_.name, index, text, sizeof text)) facts.name = text;
    std::uint64_t number = 0;
    if (succeeds(api_.pci_id, index, &number))
      facts.pci_address = pci_address_text(static_cast<std::uint32_t>(number >> 32U),
                                           static_cast<std::uint32_t>(number >> 8U & 0xffU),
                                           static_cast<std::uint32_t>(number >> 3U & 0x1fU),
                                           static_cast<std::uint32_t>(number & 7U));
    char digits[17];
    if (succeeds(api_.unique_id, index, &number)) {
      std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
      facts.uuid = std::string("GPU-") + digits;
    } else {
      facts.uuid = "GPU-" + uuid_from(machine_identity() + facts.pci_address);
    }
    if (succeeds(api_.memory_total, index, kVram, &number)) facts.vram = {static_cast<std::int64_t>(number)};
    if (succeeds(api_.version, kDriver, text, std::uint32_t{sizeof text})) facts.driver_version = text;
    describe_from_catalog(facts);
    place_in_machine(facts);
    return facts;
  }

  RocmApi api_;
  std::map<std::string, std::uint32_t> indexes_{};
  std::map<std::string, std::string> addresses_{};
  std::map<std::string, std::uint64_t> uncorrected_{};
};

}  // namespace

std::unique_ptr<DevicePort> open_rocm(const std::string& library) {
  const SharedLibrary found = library.empty() ? SharedLibrary::open({"librocm_smi64.so.7",
                                                                     "librocm_smi64.so.6",
                                                                     "librocm_smi64.so.5",
                                                                     "librocm_smi64.so.1",
                                                                     "/opt/rocm/lib/librocm_smi64.so"})
                                              : SharedLibrary::open({library});
  if (!found) return nullptr;
  const RocmApi api = load(found);
  if (!succeeds(api.init, std::uint64_t{0})) return nullptr;
  auto port = std::make_unique<RocmPort>(api);
  static_cast<void>(port->discover());
  return port;
}

}  // namespace tranche::gpu
