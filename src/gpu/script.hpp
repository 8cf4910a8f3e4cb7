// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a scripted machine has and what happens to it: docs/simulated.md.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "wire/agent_message.hpp"

namespace tranche::gpu {

struct ScriptDevices {  // Devices that are alike.
  std::string model{};  // Any name of the catalogue.
  std::uint32_t count = 1;
  std::vector<std::int32_t> numa{};  // Of each, in order; the last one goes for the rest.
  wire::DeviceMode mode = wire::DeviceMode::kWhole;
  std::vector<std::string> partitions{};  // 3g.40gb@4: on each, profile and start.
  bool soft_capable = true;               // Taken back for vendors whose API the guard does not cover.
};
BOOST_DESCRIBE_STRUCT(ScriptDevices, (), (model, count, numa, mode, partitions, soft_capable))

// A point of a curve; between two points readings change evenly.
struct ScriptPoint {
  Duration at{};
  std::int32_t device = -1;  // By its place in the inventory; -1: all that have no points of their own.
  std::uint16_t busy_milli = 0;
  Bytes vram_used{};
  std::int32_t power_watts = 0;
  std::int32_t temperature = 0;
  std::int32_t clock = 0;
};
BOOST_DESCRIBE_STRUCT(ScriptPoint, (), (at, device, busy_milli, vram_used, power_watts, temperature, clock))

struct ScriptEvent {
  Duration at{};
  std::int32_t device = 0;  // -1: the node.
  std::string source = "xid";
  std::int64_t code = 0;
  std::int64_t value = 0;
  std::string text{};
  bool lost = false;       // From now on the device is gone.
  bool back = false;       // A lost one answers again.
  std::int32_t clock = 0;  // Held down to this many MHz from now on; a signal is sent. Zero: not.
  std::uint64_t ecc = 0;   // So many more uncorrected errors are counted; a signal is sent.
  Duration lasts{};        // Of `clock`; zero: for good.
};
BOOST_DESCRIBE_STRUCT(ScriptEvent, (), (at, device, source, code, value, text, lost, back, clock, ecc, lasts))

struct ScriptProcess {
  Duration from{};
  Duration until{};  // Zero: for good.
  std::int32_t device = 0;
  std::int32_t pid = 0;
  Bytes vram{};
  std::uint16_t busy_milli = 0;
};
BOOST_DESCRIBE_STRUCT(ScriptProcess, (), (from, until, device, pid, vram, busy_milli))

struct Script {
  std::string name{};
  std::string about{};
  std::vector<ScriptDevices> devices{};
  Duration repeat{};  // The telemetry begins again; zero: its last point stays.
  std::vector<ScriptPoint> telemetry{};
  std::vector<ScriptEvent> events{};
  std::vector<ScriptProcess> processes{};
};
BOOST_DESCRIBE_STRUCT(Script, (), (name, about, devices, repeat, telemetry, events, processes))

// YAML or JSON. The reason names line and key.
Result<Script, std::string> parse_script(std::string_view text);

}  // namespace tranche::gpu
