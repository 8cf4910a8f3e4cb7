// SPDX-License-Identifier: Apache-2.0
#include "gpu/scripted_port.hpp"

#include <doctest/doctest.h>
#include <set>

#include "wire/health_codes.hpp"

using namespace tranche;
using namespace tranche::gpu;
using namespace std::chrono_literals;

namespace {

struct Machine {
  explicit Machine(const char* text)
      : port(parse_script(text).value(), "node-1", [this] { return Instant(100s) + passed; }) {}
  Duration passed{};
  ScriptedPort port;
};

std::string reason(const char* text) {
  const auto script = parse_script(text);
  return script ? "" : script.error();
}

}  // namespace

TEST_CASE("every inventory that ships can be opened, is marked simulated and has identifiers of its own") {
  for (const char* name : {"8xh100", "4xa100-mig", "8xmi300x", "4xl40s", "mixed", "8xh100-bad-day"}) {
    CAPTURE(name);
    const auto port =
        open_scripted(std::string(TRANCHE_SOURCE_DIR) + "/share/simulated/" + name + ".yaml", "n");
    const auto devices = port->discover();
    std::set<std::string> uuids;
    for (const DeviceFacts& device : devices) {
      CHECK(device.simulated);
      CHECK(device.uuid.starts_with("SIM-"));
      CHECK(device.vram.count > 0);
      CHECK(device.soft_capable == (device.vendor == wire::GpuVendor::kNvidia));
      uuids.insert(device.uuid);
    }
    CHECK(uuids.size() == devices.size());
    CHECK(devices.size() >= 4);
    CHECK(port->sample().size() == devices.size());
  }
}

TEST_CASE("identifiers stay the same for a node, and differ between nodes") {
  const char* text = "{name: pair, devices: [{model: H100, count: 2}]}";
  const auto script = parse_script(text).value();
  const auto clock = [] { return Instant(1s); };
  CHECK(ScriptedPort(script, "a", clock).discover() == ScriptedPort(script, "a", clock).discover());
  CHECK(ScriptedPort(script, "a", clock).discover()[0].uuid !=
        ScriptedPort(script, "b", clock).discover()[0].uuid);
}

TEST_CASE("telemetry changes evenly between points, repeats, and a point of its own wins") {
  Machine machine(R"(
devices: [{model: H100, count: 2}]
repeat: 20s
telemetry:
  - {at: 0s, busy_milli: 0, vram_used: 0, temperature: 30}
  - {at: 10s, busy_milli: 1000, vram_used: 10GB, temperature: 50}
  - {at: 0s, device: 1, busy_milli: 7}
)");
  machine.passed = 5s;
  auto samples = machine.port.sample();
  CHECK(samples[0].busy_milli == 500);
  CHECK(samples[0].vram_used == gigabytes(5));
  CHECK(samples[0].temperature_celsius == 40);
  CHECK(samples[1].busy_milli == 7);
  machine.passed = 15s;
  CHECK(machine.port.sample()[0].busy_milli == 1000);
  machine.passed = 25s;
  CHECK(machine.port.sample()[0].busy_milli == 500);
}

TEST_CASE("signals come once, at their time, in order") {
  Machine machine(R"(
devices: [{model: H100, count: 2}]
events:
  - {at: 20s, device: 1, lost: true}
  - {at: 10s, device: 0, code: 79, text: fell off}
  - {at: 15s, device: 0, ecc: 3}
  - {at: 30s, device: 1, back: true}
)");
  CHECK(machine.port.signals().empty());
  machine.passed = 10s;
  const auto first = machine.port.signals();
  REQUIRE(first.size() == 1);
  CHECK(first[0].source == "xid");
  CHECK(first[0].code == 79);
  CHECK(first[0].at == Instant(110s));
  CHECK(first[0].uuid == machine.port.discover()[0].uuid);
  CHECK(machine.port.signals().empty());
  machine.passed = 25s;
  const auto later = machine.port.signals();
  REQUIRE(later.size() == 2);
  CHECK(later[0].source == "ecc");
  CHECK(later[0].value == 3);
  CHECK(machine.port.sample()[0].ecc_uncorrected == 3);
  CHECK(later[1].code == wire::kDeviceLost);
  CHECK(machine.port.discover().size() == 1);
  CHECK(machine.port.sample().size() == 1);
  machine.passed = 30s;
  CHECK(machine.port.signals().at(0).code == wire::kDeviceBack);
  CHECK(machine.port.discover().size() == 2);
}

TEST_CASE("a throttled device runs slower until it has cooled down") {
  Machine machine(R"(
devices: [{model: H100}]
telemetry: [{at: 0s, clock: 1700}]
events: [{at: 10s, device: 0, clock: 900, lasts: 5s}]
)");
  machine.passed = 9s;
  CHECK(machine.port.sample()[0].sm_clock_megahertz == 1700);
  machine.passed = 12s;
  CHECK(machine.port.sample()[0].sm_clock_megahertz == 900);
  CHECK(machine.port.signals().at(0).source == "thermal");
  machine.passed = 15s;
  CHECK(machine.port.sample()[0].sm_clock_megahertz == 1700);
}

TEST_CASE("partitions are kept legal by the table of the model") {
  Machine machine("{devices: [{model: A100-80GB}]}");
  const std::string uuid = machine.port.discover()[0].uuid;
  CHECK(machine.port.create_partition(uuid, "3g.40gb", 4).error().find("set its mode") != std::string::npos);
  REQUIRE(machine.port.set_mode(uuid, wire::DeviceMode::kPartitioned));
  const auto three = machine.port.create_partition(uuid, "3g.40gb", 4);
  REQUIRE(three);
  CHECK_FALSE(machine.port.create_partition(uuid, "3g.40gb", 4));
  CHECK(machine.port.create_partition(uuid, "3g.40gb", 2).error() ==
        "3g.40gb cannot start at 2: it may start at 0");
  CHECK(machine.port.create_partition(uuid, "9g.1tb", 0).error() == "the device has no profile 9g.1tb");
  REQUIRE(machine.port.create_partition(uuid, "4g.40gb", 0));
  CHECK(machine.port.create_partition(uuid, "1g.10gb", 0).error().find("no room") != std::string::npos);
  CHECK(machine.port.partitions(uuid).size() == 2);
  CHECK_FALSE(machine.port.set_mode(uuid, wire::DeviceMode::kWhole));
  REQUIRE(machine.port.destroy_partition(three->uuid));
  CHECK_FALSE(machine.port.destroy_partition(three->uuid));
  REQUIRE(machine.port.destroy_partition(machine.port.partitions(uuid)[0].uuid));
  CHECK(machine.port.set_mode(uuid, wire::DeviceMode::kWhole));
}

TEST_CASE("a device in use is never reshaped") {
  Machine machine(
      "{devices: [{model: A100}], processes: [{from: 0s, until: 10s, device: 0, pid: 42, vram: 1GB}]}");
  const std::string uuid = machine.port.discover()[0].uuid;
  CHECK(machine.port.set_mode(uuid, wire::DeviceMode::kShared).error().find("process 42") == 0);
  CHECK_FALSE(machine.port.reset(uuid));
  CHECK_FALSE(machine.port.set_exclusive(uuid, true));
  machine.passed = 10s;
  CHECK(machine.port.set_mode(uuid, wire::DeviceMode::kShared));
  CHECK(machine.port.discover()[0].mode == wire::DeviceMode::kShared);
  CHECK(machine.port.reset(uuid));
}

TEST_CASE("what the guard does not cover is never shared, and what has no geometry is never cut") {
  Machine machine("{devices: [{model: MI300X}, {model: L40S}]}");
  const auto devices = machine.port.discover();
  CHECK_FALSE(machine.port.set_mode(devices[0].uuid, wire::DeviceMode::kShared));
  CHECK_FALSE(machine.port.set_mode(devices[1].uuid, wire::DeviceMode::kPartitioned));
  CHECK_FALSE(machine.port.set_mode("SIM-nobody", wire::DeviceMode::kShared));
}

TEST_CASE("a script that says something impossible is refused with a reason") {
  CHECK(reason("{devices: [{model: H900}]}").find("H900") != std::string::npos);
  CHECK(reason("{devices: [{model: H100, cuont: 2}]}").find("count") != std::string::npos);
  CHECK(reason("{devices: [{model: H100, count: 2000}]}").find("1024") != std::string::npos);
  CHECK(reason("{devices: [{model: H100}], events: [{at: 1s, device: 1, code: 79}]}").find("outside") !=
        std::string::npos);
  CHECK(reason("{devices: [{model: A100, partitions: [1g.5gb@0]}]}").find("mode") != std::string::npos);
  CHECK(reason("{devices: [{model: A100, mode: partitioned, partitions: [7g.40gb@0, 1g.5gb@0]}]}")
            .find("room") != std::string::npos);
  CHECK_THROWS_WITH(static_cast<void>(open_scripted("/nowhere.yaml")), "cannot read /nowhere.yaml");
}
