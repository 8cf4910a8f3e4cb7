// SPDX-License-Identifier: Apache-2.0
// Intel devices through Level Zero's system management. The guard does not cover Level Zero, so they are
// never offered as soft shares.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "gpu/device_identity.hpp"
#include "gpu/shared_library.hpp"
#include "gpu/topology.hpp"
#include "gpu/unpartitioned_port.hpp"
#include "gpu/vendor_ports.hpp"

namespace tranche::gpu {
namespace {

using Handle = void*;
constexpr std::uint32_t kGpuType = 1;

struct CoreProperties {
  std::uint32_t structure = 0;
  void* next = nullptr;
  std::uint32_t type = 0, vendor = 0, device = 0, flags = 0, subdevice = 0, core_clock = 0;
  std::uint64_t allocation_max = 0;
  std::uint32_t contexts_max = 0, priority_max = 0, threads_per_unit = 0, simd_width = 0,
                units_per_subslice = 0, subslices_per_slice = 0, slices = 0;
  std::uint64_t timer_resolution = 0;
  std::uint32_t timestamp_bits = 0, kernel_timestamp_bits = 0;
  std::array<std::uint8_t, 16> uuid{};
  char name[256] = {};
};
struct DeviceProperties {
  std::uint32_t structure = 1;
  void* next = nullptr;
  CoreProperties core{};
  std::uint32_t subdevices = 0;
  char serial[64] = {}, board[64] = {}, brand[64] = {}, model[64] = {}, vendor[64] = {}, driver[64] = {};
};
struct PciProperties {
  std::uint32_t structure = 2;
  void* next = nullptr;
  std::uint32_t domain = 0, bus = 0, device = 0, function = 0;
  std::int32_t generation = 0, width = 0;
  std::int64_t bandwidth = 0;
  std::uint8_t counters[3] = {};
};
struct MemoryState {
  std::uint32_t structure = 0x1e;
  const void* next = nullptr;
  std::uint32_t health = 0;
  std::uint64_t free = 0, size = 0;
};

struct LevelZeroApi {
  int (*init)(std::uint32_t) = nullptr;
  int (*drivers)(std::uint32_t*, Handle*) = nullptr;
  int (*devices)(Handle, std::uint32_t*, Handle*) = nullptr;
  int (*properties)(Handle, DeviceProperties*) = nullptr;
  int (*pci)(Handle, PciProperties*) = nullptr;
  int (*memories)(Handle, std::uint32_t*, Handle*) = nullptr;
  int (*memory_state)(Handle, MemoryState*) = nullptr;
};

LevelZeroApi load(const SharedLibrary& library) {
  LevelZeroApi api;
  library.bind(api.init, "zesInit");
  library.bind(api.drivers, "zesDriverGet");
  library.bind(api.devices, "zesDeviceGet");
  library.bind(api.properties, "zesDeviceGetProperties");
  library.bind(api.pci, "zesDevicePciGetProperties");
  library.bind(api.memories, "zesDeviceEnumMemoryModules");
  library.bind(api.memory_state, "zesMemoryGetState");
  return api;
}

// Level Zero lists in two calls: how many, then which.
template <class List, class... Before>
std::vector<Handle> listed(List* list, Before... before) {
  std::uint32_t count = 0;
  if (!succeeds(list, before..., &count, static_cast<Handle*>(nullptr))) return {};
  std::vector<Handle> out(count);
  if (count == 0 || !succeeds(list, before..., &count, out.data())) return {};
  out.resize(std::min<std::size_t>(count, out.size()));
  return out;
}

class LevelZeroPort final : public UnpartitionedPort {
 public:
  explicit LevelZeroPort(const LevelZeroApi& api) : api_(api) {}
  [[nodiscard]] std::string name() const override { return "level-zero"; }

  [[nodiscard]] std::vector<DeviceFacts> discover() override {
    std::vector<DeviceFacts> out;
    for (const Handle driver : listed(api_.drivers)) {
      for (const Handle device : listed(api_.devices, driver)) {
        DeviceProperties properties;
        if (!succeeds(api_.properties, device, &properties) || properties.core.type != kGpuType) continue;
        out.push_back(facts_of(device, properties));
        devices_[out.back().uuid] = device;
        addresses_[out.back().uuid] = out.back().pci_address;
      }
    }
    return out;
  }

  [[nodiscard]] std::vector<DeviceSample> sample() override {
    std::vector<DeviceSample> out;
    for (const auto& [uuid, device] : devices_) {
      const auto [total, free] = memory_of(device);
      out.push_back({.uuid = uuid,
                     .vram_used = total - free,
                     .missing = wire::kNoBusy | wire::kNoPower | wire::kNoTemperature | wire::kNoClock |
                                wire::kNoErrors});
    }
    return out;
  }

  [[nodiscard]] std::vector<std::string> files_of(const std::string& uuid) override {
    const auto at = addresses_.find(uuid);
    return at == addresses_.end() ? std::vector<std::string>()
                                  : those_that_exist(render_files_of(at->second));
  }

 private:
  DeviceFacts facts_of(Handle device, const DeviceProperties& properties) {
    DeviceFacts facts{.uuid = "GPU-" + uuid_text(properties.core.uuid),
                      .vendor = wire::GpuVendor::kIntel,
                      .name = properties.core.name,
                      .driver_version = properties.driver};
    facts.multiprocessors =
        static_cast<std::int32_t>(properties.core.slices * properties.core.subslices_per_slice);
    facts.vram = memory_of(device).first;
    PciProperties pci;
    if (succeeds(api_.pci, device, &pci))
      facts.pci_address = pci_address_text(pci.domain, pci.bus, pci.device, pci.function);
    describe_from_catalog(facts);
    place_in_machine(facts);
    return facts;
  }

  std::pair<Bytes, Bytes> memory_of(Handle device) {  // Total and free.
    std::pair<Bytes, Bytes> out{};
    for (const Handle memory : listed(api_.memories, device)) {
      MemoryState state;
      if (!succeeds(api_.memory_state, memory, &state)) continue;
      out.first.count += static_cast<std::int64_t>(state.size);
      out.second.count += static_cast<std::int64_t>(state.free);
    }
    return out;
  }

  LevelZeroApi api_;
  std::map<std::string, Handle> devices_{};
  std::map<std::string, std::string> addresses_{};
};

}  // namespace

std::unique_ptr<DevicePort> open_level_zero(const std::string& library) {
  const SharedLibrary found =
      library.empty() ? SharedLibrary::open({"libze_loader.so.1"}) : SharedLibrary::open({library});
  if (!found) return nullptr;
  const LevelZeroApi api = load(found);
  if (!succeeds(api.init, 0U)) return nullptr;
  auto port = std::make_unique<LevelZeroPort>(api);
  static_cast<void>(port->discover());
  return port;
}

}  // namespace tranche::gpu
