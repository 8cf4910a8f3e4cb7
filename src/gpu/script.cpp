// SPDX-License-Identifier: Apache-2.0
#include "gpu/script.hpp"

#include <algorithm>

#include "gpu/partition_layout.hpp"
#include "wire/codec_impl.hpp"
#include "wire/yaml_document.hpp"

namespace tranche::gpu {
namespace {

constexpr std::uint32_t kDevicesMax = 1024;

// {devices: [...]} without quotes is YAML's flow style; JSON comes first because it is stricter.
Result<wire::Document, wire::Problem> parse_either(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    if (auto json = wire::parse_json_document(text, {})) return json;
  }
  return wire::parse_yaml_document(text);
}

Result<void, std::string> check_devices(const ScriptDevices& devices) {
  const wire::GpuModel* const model = wire::find_gpu_model(devices.model);
  if (model == nullptr) return refuse("the catalogue has no model '" + devices.model + "'");
  if (devices.count == 0) return refuse(devices.model + ": count must be at least 1");
  if (devices.partitions.empty()) return {};
  if (devices.mode != wire::DeviceMode::kPartitioned)
    return refuse(devices.model + ": partitions need mode: partitioned");
  PartitionLayout layout(devices.model);
  for (const std::string& text : devices.partitions) {
    const auto wish = parse_partition(text);
    if (!wish) return refuse(wish.error());
    if (auto added = layout.add({.profile = wish->profile, .start = wish->start}); !added)
      return refuse(devices.model + ": " + added.error());
  }
  return {};
}

}  // namespace

Result<Script, std::string> parse_script(std::string_view text) {
  const auto document = parse_either(text);
  if (!document) return refuse(wire::text(document.error()));
  auto script = wire::detail::read_document<Script>(*document);
  if (!script) return refuse(wire::text(script.error()));
  std::uint32_t count = 0;
  for (const ScriptDevices& devices : script->devices) {
    if (auto checked = check_devices(devices); !checked) return refuse(std::move(checked.error()));
    count += std::min(devices.count, kDevicesMax + 1);
    if (count > kDevicesMax)
      return refuse("a machine has at most " + std::to_string(kDevicesMax) + " devices");
  }
  const auto outside = [&](std::int32_t device) {
    return device < -1 || device >= static_cast<std::int32_t>(count);
  };
  const bool lost_point = std::any_of(script->telemetry.begin(),
                                      script->telemetry.end(),
                                      [&](const ScriptPoint& point) { return outside(point.device); });
  const bool lost_event = std::any_of(script->events.begin(),
                                      script->events.end(),
                                      [&](const ScriptEvent& event) { return outside(event.device); });
  if (lost_point || lost_event) return refuse(std::string("a device number is outside the inventory"));
  std::stable_sort(script->telemetry.begin(),
                   script->telemetry.end(),
                   [](const ScriptPoint& a, const ScriptPoint& b) { return a.at < b.at; });
  std::stable_sort(script->events.begin(),
                   script->events.end(),
                   [](const ScriptEvent& a, const ScriptEvent& b) { return a.at < b.at; });
  return std::move(*script);
}

}  // namespace tranche::gpu
