// SPDX-License-Identifier: Apache-2.0
#include "gpu/scripted_port.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "gpu/device_identity.hpp"
#include "wire/health_codes.hpp"

namespace tranche::gpu {
namespace {

// Evenly from one point to the next.
template <class T>
T between(T from, T to, Duration passed, Duration whole) {
  if (whole.count() <= 0) return to;
  return static_cast<T>(from + (static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from)) *
                                   passed.count() / whole.count());
}

ScriptPoint between(const ScriptPoint& a, const ScriptPoint& b, Duration at) {
  const Duration passed = at - a.at, whole = b.at - a.at;
  return {.at = at,
          .device = a.device,
          .busy_milli = between(a.busy_milli, b.busy_milli, passed, whole),
          .vram_used = {between(a.vram_used.count, b.vram_used.count, passed, whole)},
          .power_watts = between(a.power_watts, b.power_watts, passed, whole),
          .temperature = between(a.temperature, b.temperature, passed, whole),
          .clock = between(a.clock, b.clock, passed, whole)};
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool concerns(std::int32_t device, std::size_t index) {
  return device >= 0 && static_cast<std::size_t>(device) == index;
}

}  // namespace

ScriptedPort::ScriptedPort(Script script, const std::string& serial, Clock clock)
    : script_(std::move(script)), clock_(std::move(clock)), start_(clock_()) {
  for (const ScriptDevices& devices : script_.devices) add_devices(devices, serial);
}

void ScriptedPort::add_devices(const ScriptDevices& devices, const std::string& serial) {
  const wire::GpuModel& model = *wire::find_gpu_model(devices.model);
  for (std::uint32_t i = 0; i < devices.count; ++i) {
    const auto index = devices_.size();
    const std::string identity = script_.name + "|" + serial + "|" + std::to_string(index);
    DeviceFacts facts{.uuid = "SIM-" + uuid_from(identity),
                      .vendor = model.vendor,
                      .model = std::string(model.short_name),
                      .name = std::string(model.name) + " (SIMULATED)",
                      .vram = model.vram,
                      .multiprocessors = model.multiprocessors,
                      .driver_version = "SIMULATED",
                      .mode = devices.mode,
                      .profiles = planned_profiles(model.name),
                      .soft_capable = devices.soft_capable && model.vendor == wire::GpuVendor::kNvidia,
                      .simulated = true};
    facts.pci_address = pci_address_text(0, static_cast<std::uint32_t>(0x10 + index), 0, 0);
    if (!devices.numa.empty())
      facts.numa_node = devices.numa[std::min<std::size_t>(i, devices.numa.size() - 1)];
    Simulated device{.facts = std::move(facts), .layout = PartitionLayout(model.name)};
    for (const std::string& text : devices.partitions) {
      const auto wish = parse_partition(text);
      const std::string uuid = "SIM-MIG-" + uuid_from(device.facts.uuid + "|" + text);
      // The script was checked when it was read.
      if (wish)
        static_cast<void>(device.layout.add({.uuid = uuid, .profile = wish->profile, .start = wish->start}));
    }
    devices_.push_back(std::move(device));
  }
}

bool ScriptedPort::is_lost(std::size_t index, Duration at) const {
  bool lost = false;
  for (const ScriptEvent& event : script_.events) {
    if (event.at > at) break;
    if (concerns(event.device, index) && (event.lost || event.back)) lost = event.lost;
  }
  return lost;
}

std::int32_t ScriptedPort::clock_limit(std::size_t index, Duration at) const {
  std::int32_t limit = 0;
  for (const ScriptEvent& event : script_.events) {
    if (event.at > at) break;
    const bool over = event.lasts.count() > 0 && at >= event.at + event.lasts;
    if (concerns(event.device, index) && event.clock > 0) limit = over ? 0 : event.clock;
  }
  return limit;
}

ScriptPoint ScriptedPort::reading(std::size_t index, Duration at) const {
  if (script_.repeat.count() > 0) at = Duration(at.count() % script_.repeat.count());
  const bool own = std::any_of(script_.telemetry.begin(),
                               script_.telemetry.end(),
                               [&](const ScriptPoint& point) { return concerns(point.device, index); });
  const ScriptPoint* before = nullptr;
  for (const ScriptPoint& point : script_.telemetry) {
    if (own ? !concerns(point.device, index) : point.device != -1) continue;
    if (point.at > at) return before == nullptr ? point : between(*before, point, at);
    before = &point;
  }
  return before == nullptr ? ScriptPoint{} : *before;
}

std::vector<DeviceFacts> ScriptedPort::discover() {
  std::vector<DeviceFacts> out;
  const Duration at = now();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (!is_lost(i, at)) out.push_back(devices_[i].facts);
  }
  return out;
}

std::vector<DeviceSample> ScriptedPort::sample() {
  std::vector<DeviceSample> out;
  const Duration at = now();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (is_lost(i, at)) continue;
    const ScriptPoint point = reading(i, at);
    DeviceSample sample{.uuid = devices_[i].facts.uuid,
                        .busy_milli = point.busy_milli,
                        .vram_used = std::min(point.vram_used, devices_[i].facts.vram),
                        .power_milliwatts = point.power_watts * 1000,
                        .temperature_celsius = point.temperature,
                        .sm_clock_megahertz = point.clock};
    // As a real one would count them while it does what the script says.
    sample.memory_busy_milli = sample.sm_active_milli = sample.dram_active_milli =
        sample.tensor_active_milli = point.busy_milli;
    sample.ecc_corrected = 0;
    if (const std::int32_t limit = clock_limit(i, at); limit > 0)
      sample.sm_clock_megahertz = point.clock == 0 ? limit : std::min(point.clock, limit);
    for (const ScriptEvent& event : script_.events) {
      if (event.at <= at && concerns(event.device, i)) sample.ecc_uncorrected += event.ecc;
    }
    out.push_back(std::move(sample));
  }
  return out;
}

std::vector<DeviceProcess> ScriptedPort::processes() {
  std::vector<DeviceProcess> out;
  const Duration at = now();
  for (const ScriptProcess& process : script_.processes) {
    const bool over = process.until.count() > 0 && at >= process.until;
    const auto index = static_cast<std::size_t>(std::max(process.device, 0));
    if (at < process.from || over || index >= devices_.size() || is_lost(index, at)) continue;
    out.push_back({.pid = process.pid,
                   .uuid = devices_[index].facts.uuid,
                   .vram = process.vram,
                   .busy_milli = process.busy_milli});
  }
  return out;
}

HealthSignal ScriptedPort::signal_of(const ScriptEvent& event) const {
  HealthSignal signal{.source = event.source, .code = event.code, .value = event.value, .text = event.text};
  signal.at = start_ + event.at;
  if (event.device >= 0) signal.uuid = devices_[static_cast<std::size_t>(event.device)].facts.uuid;
  const auto make = [&](const char* source, std::int64_t code, std::int64_t value, const char* text) {
    signal.source = source;
    signal.code = code;
    signal.value = value;
    if (signal.text.empty()) signal.text = text;
  };
  if (event.code != 0) return signal;
  if (event.lost) make("telemetry", wire::kDeviceLost, 0, "the device does not answer");
  if (event.back) make("telemetry", wire::kDeviceBack, 0, "the device answers again");
  if (event.clock > 0) make("thermal", wire::kThermalSlowdown, event.clock, "clocks are held down");
  if (event.ecc > 0)
    make(
        "ecc", wire::kEccUncorrected, static_cast<std::int64_t>(event.ecc), "uncorrected memory errors rose");
  return signal;
}

std::vector<HealthSignal> ScriptedPort::signals() {
  std::vector<HealthSignal> out;
  const Duration at = now();
  for (; told_ < script_.events.size() && script_.events[told_].at <= at; ++told_)
    out.push_back(signal_of(script_.events[told_]));
  return out;
}

ScriptedPort::Simulated* ScriptedPort::find(const std::string& uuid) {
  const Duration at = now();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].facts.uuid == uuid && !is_lost(i, at)) return &devices_[i];
  }
  return nullptr;
}

Result<ScriptedPort::Simulated*, std::string> ScriptedPort::find_idle(const std::string& uuid) {
  Simulated* const device = find(uuid);
  if (device == nullptr) return refuse("no device " + uuid);
  for (const DeviceProcess& process : processes()) {
    if (process.uuid == uuid)
      return refuse("process " + std::to_string(process.pid) + " uses the device: end it first");
  }
  return device;
}

Result<Partition, std::string> ScriptedPort::create_partition(const std::string& uuid,
                                                              const std::string& profile,
                                                              std::uint8_t start) {
  Simulated* const device = find(uuid);
  if (device == nullptr) return refuse("no device " + uuid);
  if (device->facts.mode != wire::DeviceMode::kPartitioned)
    return refuse(std::string("the device is not partitioned: set its mode to partitioned first"));
  Partition partition{.profile = profile, .start = start};
  partition.uuid = "SIM-MIG-" + uuid_from(uuid + "|" + std::to_string(++partitions_made_));
  if (auto added = device->layout.add(partition); !added) return refuse(std::move(added.error()));
  return device->layout.partitions().back();
}

Result<void, std::string> ScriptedPort::destroy_partition(const std::string& partition_uuid) {
  for (Simulated& device : devices_) {
    if (device.layout.remove(partition_uuid)) return {};
  }
  return refuse("no partition " + partition_uuid);
}

Result<void, std::string> ScriptedPort::set_mode(const std::string& uuid, wire::DeviceMode mode) {
  const auto device = find_idle(uuid);
  if (!device) return refuse(device.error());
  DeviceFacts& facts = (*device)->facts;
  if (mode == wire::DeviceMode::kPartitioned && !(*device)->layout.can_be_cut())
    return refuse(facts.model + " cannot be partitioned");
  if (mode == wire::DeviceMode::kShared && !facts.soft_capable)
    return refuse(std::string("the guard does not cover this device's API: grant it whole"));
  if (mode != wire::DeviceMode::kPartitioned && !(*device)->layout.partitions().empty())
    return refuse(std::string("the device has partitions: destroy them first"));
  facts.mode = mode;
  return {};
}

Result<void, std::string> ScriptedPort::reset(const std::string& uuid) {
  const auto device = find_idle(uuid);
  if (!device) return refuse(device.error());
  (*device)->layout.clear();  // As real ones do.
  (*device)->exclusive = false;
  return {};
}

std::vector<Partition> ScriptedPort::partitions(const std::string& uuid) {
  const Simulated* const device = find(uuid);
  return device == nullptr ? std::vector<Partition>() : device->layout.partitions();
}

Result<void, std::string> ScriptedPort::set_exclusive(const std::string& uuid, bool exclusive) {
  const auto device = find_idle(uuid);
  if (!device) return refuse(device.error());
  (*device)->exclusive = exclusive;
  return {};
}

Result<void, std::string> ScriptedPort::set_time_slice(const std::string& uuid, TimeSlice length) {
  Simulated* const device = find(uuid);
  if (device == nullptr) return refuse("no device " + uuid);
  if (device->facts.vendor != wire::GpuVendor::kNvidia) return DevicePort::set_time_slice(uuid, length);
  device->time_slice = length;
  return {};
}

std::unique_ptr<DevicePort> open_scripted(const std::string& path, const std::string& serial) {
  auto script = parse_script(read_text(path));
  if (!script) throw std::runtime_error(path + ": " + script.error());
  return std::make_unique<ScriptedPort>(std::move(*script), serial, &wall_time);
}

}  // namespace tranche::gpu
