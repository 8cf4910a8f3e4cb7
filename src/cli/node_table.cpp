// SPDX-License-Identifier: Apache-2.0
#include "cli/node_table.hpp"

#include "base/text.hpp"
#include "cli/human.hpp"
#include "wire/fields.hpp"

namespace tranche::cli {
namespace {

std::string percent(std::int64_t milli) {
  return std::to_string((milli + 5) / 10) + "%";
}

// Where a device is real, and where everything about it is made up.
std::string_view world_of(bool simulated) {
  return simulated ? "SIM" : "real";
}

struct Sums {
  std::int64_t devices = 0;
  std::int64_t milli = 0;
  std::int64_t busy = 0;
  std::int64_t measured = 0;
};

std::string summary(std::string_view what, const Sums& sums) {
  std::string line(what);
  line += ": " + std::to_string(sums.devices) + (sums.devices == 1 ? " device, " : " devices, ");
  line += percent(sums.milli / std::max<std::int64_t>(sums.devices, 1)) + " allocated";
  if (sums.measured > 0) line += ", " + percent(sums.busy / sums.measured) + " busy";
  return line + "\n";
}

}  // namespace

Table node_table(const std::vector<wire::NodeView>& nodes) {
  Table table({{"NODE"},
               {"STATE"},
               {"LINK"},
               {"KIND"},
               {"OWNER"},
               {"GPUS", Align::kRight},
               {"HEALTH"},
               {"JOBS", Align::kRight},
               {"CPUS", Align::kRight},
               {"MEMORY", Align::kRight},
               {"ID", Align::kLeft, Show::kWide},
               {"SITE", Align::kLeft, Show::kWide},
               {"LABELS", Align::kLeft, Show::kWide},
               {"SOFTWARE", Align::kLeft, Show::kWide}});
  for (const wire::NodeView& node : nodes) {
    std::string labels;
    for (const auto& [key, value] : node.labels) labels += (labels.empty() ? "" : ",") + key + '=' + value;
    table.add({node.name,
               wire::name_of(node.state),
               node.connected ? "up" : "down",
               world_of(node.simulated),
               node.owner,
               std::to_string(node.devices.size()),
               node.health.empty() ? "-" : node.health,
               std::to_string(node.leases),
               std::to_string(node.cpus),
               bytes_text(node.memory.count),
               text(node.id),
               node.site,
               labels,
               node.software});
  }
  return table;
}

Table device_table(const std::vector<wire::DeviceView>& devices) {
  Table table({{"DEVICE"},
               {"NODE"},
               {"MODEL"},
               {"KIND"},
               {"STATE"},
               {"MODE"},
               {"VRAM", Align::kRight},
               {"TAKEN", Align::kRight},
               {"VRAM TAKEN", Align::kRight},
               {"SLICES", Align::kRight},
               {"BUSY", Align::kRight},
               {"TEMP", Align::kRight, Show::kWide},
               {"POWER", Align::kRight, Show::kWide},
               {"UUID", Align::kLeft, Show::kWide}});
  for (const wire::DeviceView& device : devices) {
    table.add({text(device.id),
               device.node,
               device.model.empty() ? device.name : device.model,
               world_of(device.simulated),
               device.health.empty() ? std::string(wire::name_of(device.state)) : device.health,
               wire::name_of(device.mode),
               bytes_text(device.vram.count),
               percent(device.milli_used),
               bytes_text(device.vram_reserved.count),
               std::to_string(device.slices),
               device.busy_milli ? percent(*device.busy_milli) : "-",
               device.temperature_celsius ? std::to_string(*device.temperature_celsius) + "C" : "-",
               device.power_milliwatts ? std::to_string(*device.power_milliwatts / 1000) + "W" : "-",
               device.uuid});
  }
  return table;
}

std::string devices_text(const std::vector<wire::DeviceView>& devices) {
  Sums real;
  Sums simulated;
  for (const wire::DeviceView& device : devices) {
    Sums& sums = device.simulated ? simulated : real;
    ++sums.devices;
    sums.milli += device.milli_used;
    if (device.busy_milli) {
      sums.busy += *device.busy_milli;
      ++sums.measured;
    }
  }
  std::string out = devices.empty() ? "" : device_table(devices).text() + "\n";
  if (real.devices > 0) out += summary("real", real);
  if (simulated.devices > 0) out += summary("SIMULATED", simulated);
  return out;
}

std::string node_text(const wire::NodeView& node) {
  std::string out;
  const auto line = [&](std::string_view what, std::string_view value) {
    if (value.empty()) return;
    out.append(what).append(what.size() < 12 ? 12 - what.size() : 1, ' ').append(value).append("\n");
  };
  line("node", node.name + " (" + text(node.id) + ")");
  line("kind", node.simulated ? "SIMULATED: nothing executes there" : "real");
  line("state", std::string(wire::name_of(node.state)) + (node.connected ? ", link up" : ", link down"));
  line("devices", node.health);
  line("owner", node.owner);
  line("site", node.site);
  line("cpus", std::to_string(node.cpus));
  line("memory", bytes_text(node.memory.count));
  line("software", node.software);
  for (const auto& [key, value] : node.labels) line("label", key + '=' + value);
  if (!node.devices.empty()) out += "\n" + device_table(node.devices).text();
  return out;
}

}  // namespace tranche::cli
