// SPDX-License-Identifier: Apache-2.0
// Signals of NVIDIA devices: what the driver's library counts, and what the driver writes into the kernel's
// log. The library is a table of functions here; the log is a file, and once the kernel's own.
#include "gpu/nvml_health.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "gpu/kernel_log.hpp"
#include "wire/health_codes.hpp"

using namespace tranche;
using namespace tranche::gpu;

namespace {

// What the driver would answer now, for every device.
struct Driver {
  unsigned long long corrected = 0, uncorrected = 0, reasons = 0;
  unsigned ecc = 1, pending = 0, failed = 0, width = 16, links = 18;
  bool lost = false, mute = false;
  std::vector<nvml::Event> events{};
};
Driver driver;
char first_device;

nvml::Api table_of_functions() {
  nvml::Api api;
  api.memory = [](nvml::Device, nvml::Memory*) {
    return driver.lost ? nvml::kGpuIsLost : driver.mute ? 999 : 0;
  };
  api.pci = [](nvml::Device, nvml::Pci* out) { return out->bus = 0x3B, 0; };
  api.ecc_errors = [](nvml::Device, unsigned kind, unsigned, unsigned long long* out) {
    *out = kind == nvml::kCorrected ? driver.corrected : driver.uncorrected;
    return 0;
  };
  api.ecc_mode = [](nvml::Device, unsigned* now, unsigned* then) { return *now = *then = driver.ecc, 0; };
  api.remapped_rows = [](nvml::Device, unsigned* a, unsigned* b, unsigned* pending, unsigned* failed) {
    *a = *b = 1;
    *pending = driver.pending;
    *failed = driver.failed;
    return 0;
  };
  api.throttle_reasons = [](nvml::Device, unsigned long long* out) { return *out = driver.reasons, 0; };
  api.link_width = [](nvml::Device, unsigned* out) { return *out = driver.width, 0; };
  api.link_width_max = [](nvml::Device, unsigned* out) { return *out = 16, 0; };
  api.link_state = [](nvml::Device, unsigned link, unsigned* out) { return *out = link < driver.links, 0; };
  api.event_set = [](nvml::EventSet* out) { return *out = &driver, 0; };
  api.register_events = [](nvml::Device, unsigned long long, nvml::EventSet) { return 0; };
  api.wait_event = [](nvml::EventSet, nvml::Event* out, unsigned) {
    if (driver.events.empty()) return 10;  // Nothing within that time.
    *out = driver.events.front();
    driver.events.erase(driver.events.begin());
    return 0;
  };
  return api;
}

struct World {
  World() {
    driver = {};
    std::ofstream(log) << "4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, from before\n";
    health.emplace(table_of_functions(), log);
    CHECK(poll().empty());
  }
  ~World() { std::filesystem::remove(log); }

  void write(const std::string& line) { std::ofstream(log, std::ios::app) << line << "\n"; }
  static void raise(std::uint64_t xid) {
    driver.events.push_back({&first_device, nvml::kEventXid, xid, 0, 0});
  }
  // "GPU-a xid 79 0"
  std::vector<std::string> poll(Duration later = std::chrono::milliseconds(500)) {
    now += later;
    std::vector<std::string> out;
    for (const HealthSignal& signal : health->poll({{"GPU-a", &first_device}}, now)) {
      CHECK_FALSE(signal.text.empty());
      CHECK(signal.at <= now);
      out.push_back(signal.uuid + " " + signal.source + " " + std::to_string(signal.code) + " " +
                    std::to_string(signal.value));
    }
    return out;
  }

  std::string log =
      (std::filesystem::temp_directory_path() / ("kernel-log-" + std::to_string(::getpid()))).string();
  Instant now{std::chrono::hours(24 * 365)};
  std::optional<nvml::Health> health{};
};

using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("an Xid is read out of a record of the kernel's log") {
  const auto line = parse_xid(
      "3,1205,5140900,-;NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off "
      "the bus.\n SUBSYSTEM=pci\n");
  REQUIRE(line);
  CHECK(line->address == "0000:3b:00");
  CHECK(line->code == 79);
  CHECK(line->microseconds == 5140900);
  CHECK(line->text.ends_with("GPU has fallen off the bus."));
  CHECK(parse_xid("NVRM: Xid (PCI:0000:af:00.0): 13, Graphics Exception")->address == "0000:af:00");
  CHECK(parse_xid("NVRM: Xid (0000:AF:00): 31, as older drivers write it")->address == "0000:af:00");
  for (const char* nameless :
       {"NVRM: Xid 79, gone", "NVRM: Xid: 79, gone", "3,1,2,-;NVRM: Xid (): 79, gone"}) {
    const auto read = parse_xid(nameless);
    REQUIRE_MESSAGE(read, nameless);
    CHECK(read->code == 79);
    CHECK(read->address.empty());
  }
  CHECK(
      parse_xid("6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 "
                "(Node Reboot Required)")
          ->value == 2);
  CHECK(parse_xid("NVRM: Xid (PCI:0000:3b:00): 154, in words of another driver")->value == -1);
  for (const char* other : {"",
                            "6,1,2,-;usb 1-1: new device",
                            "NVRM: loading",
                            "NVRM: Xid",
                            "NVRM: Xid ?",
                            "NVRM: Xid (PCI:",
                            "NVRM: Xid (PCI:0000:3b:00): ?",
                            "NVRM: Xid (PCI:0000:3b:00)"})
    CHECK_MESSAGE(!parse_xid(other), other);
}

TEST_CASE("a line of the kernel's log is told of its device, once, and not what is old") {
  World world;
  world.write("4,2,2,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=7, name=python, DBE");
  world.write("4,3,3,-;usb 1-1: new device");
  world.write("4,4,4,-;NVRM: Xid (PCI:0000:c1:00): 62, of a device that no port has");
  world.write("4,5,5,-;NVRM: Xid 79, of nobody knows which");
  CHECK(world.poll() == Told{"GPU-a xid 48 0", "pci:0000:c1:00 xid 62 0", " xid 79 0"});
  CHECK(world.poll().empty());
}

TEST_CASE("a device of which the driver says nothing is told as silent, and as back, once each") {
  World world;
  driver.mute = true;
  CHECK(world.poll().empty());  // It may be busy, for a moment.
  CHECK(world.poll(std::chrono::seconds(9)).empty());
  CHECK(world.poll(std::chrono::seconds(1)) == Told{"GPU-a telemetry 2 0"});
  CHECK(world.poll(std::chrono::seconds(20)).empty());
  driver.mute = false;
  CHECK(world.poll() == Told{"GPU-a telemetry 3 0"});
  CHECK(world.poll().empty());
  driver.mute = true;
  CHECK(world.poll().empty());
  driver.mute = false;
  CHECK(world.poll().empty());  // Short, and never told.
}

TEST_CASE("one fault that the library and the log both tell is one signal") {
  World world;
  World::raise(95);
  world.write("4,2,2,-;NVRM: Xid (PCI:0000:3b:00): 95, uncontained");
  CHECK(world.poll() == Told{"GPU-a xid 95 0"});
  World::raise(31);
  CHECK(world.poll() == Told{"GPU-a xid 31 0"});
  world.write("4,3,3,-;NVRM: Xid (PCI:0000:3b:00): 31, MMU fault");  // A moment later.
  CHECK(world.poll().empty());
  world.write("4,4,4,-;NVRM: Xid (PCI:0000:3b:00): 31, MMU fault");  // Again, and long after.
  CHECK(world.poll(std::chrono::minutes(1)) == Told{"GPU-a xid 31 0"});
  World::raise(46);
  World::raise(46);
  CHECK(world.poll().size() == 2);  // Twice by one of them is twice.
}

TEST_CASE("what the driver recommends comes out of the log, and is never taken for nothing") {
  World world;
  World::raise(154);
  CHECK(world.poll() == Told{"GPU-a xid 154 -1"});
  world.write(
      "4,2,2,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU "
      "Reset Required)");
  CHECK(world.poll() == Told{"GPU-a xid 154 1"});
}

TEST_CASE("counters and limits are told when they begin") {
  World world;
  driver.uncorrected = 1;
  driver.pending = 1;
  CHECK(world.poll() == Told{"GPU-a ecc 1 1", "GPU-a ecc 3 2"});
  driver.failed = 1;
  driver.width = 8;
  driver.reasons = nvml::kReasonHardwareThermal | nvml::kReasonPowerBrake;
  CHECK(world.poll().size() == 4);
  CHECK(world.poll().empty());
  driver.width = 16;
  driver.reasons = 0;
  CHECK(world.poll().empty());
  driver.width = 4;
  CHECK(world.poll() == Told{"GPU-a link 1 4"});
  driver.lost = true;
  CHECK(world.poll() == Told{"GPU-a telemetry 1 0"});
  world.write("4,9,9,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.");
  CHECK(world.poll() == Told{"GPU-a xid 79 0"});
}

TEST_CASE("corrected errors are told when too many come within an hour") {
  World world;
  driver.corrected = 99;
  CHECK(world.poll().empty());
  CHECK(world.poll(std::chrono::hours(2)).empty());
  driver.corrected = 198;
  CHECK(world.poll(std::chrono::minutes(30)).empty());
  driver.corrected = 199;
  CHECK(world.poll(std::chrono::minutes(1)) == Told{"GPU-a ecc 2 100"});
  driver.corrected = 900;
  CHECK(world.poll().empty());
}

TEST_CASE("memory without error correction is told, and again after a reset") {
  World world;
  driver.ecc = 0;
  CHECK(world.poll() == Told{"GPU-a ecc 5 0"});
  CHECK(world.poll().empty());
  world.health->forget("GPU-a");
  CHECK(world.poll() == Told{"GPU-a ecc 5 0"});
}

TEST_CASE("a link to other devices that went down is told with what is left") {
  World world;
  driver.links = 17;
  CHECK(world.poll() == Told{"GPU-a link 2 17"});
  CHECK(world.poll().empty());
}

TEST_CASE("the kernel's own log is read") {
  KernelLog log;
  const int kernel = ::open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
  if (!log.is_open() || kernel < 0) {
    MESSAGE("skipped: this user may not read or write the kernel's log");
    return;
  }
  const std::string mark = "written by a test, process " + std::to_string(::getpid());
  const std::string line = "NVRM: Xid (PCI:ffff:ff:1f): 13, " + mark + "\n";  // Where no device can be.
  REQUIRE(::write(kernel, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  ::close(kernel);
  bool found = false;
  for (const XidLine& one : log.read()) {
    if (one.text.find(mark) == std::string::npos) continue;
    found = true;
    CHECK(one.address == "ffff:ff:1f");
    CHECK(one.code == 13);
    CHECK(one.microseconds.has_value());
    const Instant now{std::chrono::hours(24 * 365)};
    CHECK(time_of(one, now) <= now);
    CHECK(now - time_of(one, now) < std::chrono::minutes(1));
  }
  CHECK(found);
}
