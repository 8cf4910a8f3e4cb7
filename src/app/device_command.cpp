// SPDX-License-Identifier: Apache-2.0
// `tranche device`: the accelerators of this very machine, and whether they are fit for tenants. Needs no
// server and no agent.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "app/commands.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "gpu/device_tests.hpp"
#include "gpu/port.hpp"
#include "gpu/scrub.hpp"
#include "wire/codec.hpp"
#include "wire/test_progress.hpp"

namespace tranche::app {
namespace {

using cli::Align;
using cli::Session;
using cli::Show;
using cli::Table;

struct TestFlags {
  std::string level = "quick";
  std::string device{};
  std::string memory{};
  std::string cpu_memory{};
  std::string report{};
  std::string progress{};
  std::vector<std::string> together{};
  bool own_only = false;
  bool scrub = false;
};

std::vector<wire::DeviceFacts> devices_of(const std::string& script) {
  std::vector<wire::DeviceFacts> out;
  if (!script.empty()) return gpu::open_scripted(script)->discover();
  for (const auto& port : gpu::open_ports()) {
    for (wire::DeviceFacts& device : port->discover()) out.push_back(std::move(device));
  }
  return out;
}

std::string size_text(Bytes size) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f GB", static_cast<double>(size.count) / 1e9);
  return out;
}

Table device_table(const std::vector<wire::DeviceFacts>& devices) {
  Table table({{"UUID"},
               {"MODEL"},
               {"NAME"},
               {"VRAM", Align::kRight},
               {"MODE"},
               {"SOFT"},
               {"NUMA", Align::kRight, Show::kWide},
               {"PCI", Align::kLeft, Show::kWide},
               {"DRIVER", Align::kLeft, Show::kWide}});
  for (const wire::DeviceFacts& device : devices) {
    table.add({device.uuid,
               device.model.empty() ? "-" : device.model,
               device.name,
               size_text(device.vram),
               std::string(wire::name_of(device.mode)),
               device.soft_capable ? "yes" : "no",
               std::to_string(device.numa_node),
               device.pci_address,
               device.driver_version});
  }
  return table;
}

void list(Session& session, const std::string& script) {
  const gpu::DeviceFactsList devices{.items = devices_of(script)};
  session.print(wire::to_json(devices),
                {.table = [&] { return device_table(devices.items); },
                 .names =
                     [&] {
                       std::string names;
                       for (const wire::DeviceFacts& device : devices.items) names += device.uuid + "\n";
                       return names;
                     }});
}

std::string upper(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

Table test_table(const gpu::DeviceReports& reports) {
  Table table({{"DEVICE", Align::kLeft, reports.items.size() > 1 ? Show::kAlways : Show::kWide},
               {"TEST"},
               {"VERDICT"},
               {"MEASURED", Align::kRight},
               {"FLOOR", Align::kRight},
               {"UNIT"},
               {"DETAIL"}});
  for (const gpu::DeviceReport& report : reports.items) {
    for (const wire::TestOutcome& row : report.receipt.tests) {
      table.add({report.uuid,
                 row.name,
                 upper(wire::name_of(row.verdict)),
                 std::to_string(row.measured),
                 row.floor == 0 ? std::string("-") : std::to_string(row.floor),
                 row.unit,
                 row.detail});
    }
  }
  return table;
}

std::string test_text(const gpu::DeviceReports& reports) {
  std::string out = test_table(reports).text();
  for (const gpu::DeviceReport& report : reports.items) {
    out += "\n" + report.uuid + " (" + report.name + "): " + upper(wire::name_of(report.receipt.verdict)) +
           " at level " + std::string(wire::name_of(report.receipt.level)) + " in " +
           text(report.receipt.took) + "\n";
  }
  return out;
}

std::int64_t size_of(const std::string& flag, const std::string& given) {
  if (given.empty()) return 0;
  const auto memory = parse_bytes(given);
  if (!memory || memory->count < 4096)
    throw cli::usage_failure(flag + " takes a size such as 2GiB, not '" + given + "'");
  return memory->count;
}

gpu::DeviceTestOptions options_from(const TestFlags& flags) {
  return {.level = cli::enum_value<wire::TestLevel>("--level", flags.level),
          .memory_budget = size_of("--memory", flags.memory),
          .vendor_tools = !flags.own_only,
          .cpu_memory_budget = size_of("--cpu-memory", flags.cpu_memory)};
}

bool is_fit(wire::Verdict verdict) {
  return verdict == wire::Verdict::kPass || verdict == wire::Verdict::kInfo;
}

wire::ScrubReceipt wiped(const gpu::OpenClDevice& device) {
  try {
    wire::ScrubReceipt receipt =
        gpu::receipt_of(gpu::zero_and_verify(device, gpu::enough_to_wipe(device, 0)));
    receipt.at = wall_clock();
    receipt.method += gpu::why_a_part(device, 0);
    return receipt;
  } catch (const gpu::CannotRun& problem) { return {.method = std::string("none: ") + problem.what()}; }
}

// For the agent, which looks at the file while the test runs; and for whoever sits before it.
gpu::TestListener listener_for(Session& session, const TestFlags& flags) {
  const bool shown = cli::stderr_is_terminal() && !session.flags().quiet;
  if (flags.progress.empty() && !shown) return {};
  return [file = flags.progress, shown](unsigned percent, const std::string& part) {
    if (!file.empty()) {
      const std::string fresh = file + ".new";
      std::ofstream(fresh, std::ios::binary) << wire::to_json(wire::TestProgress{0, percent, part});
      std::rename(fresh.c_str(), file.c_str());
    }
    if (shown) cli::write_stderr("\r\x1b[K" + std::to_string(percent) + " %  " + part);
  };
}

bool is_wanted(const gpu::OpenClDevice& device, const std::string& wanted) {
  return wanted.empty() || device.facts.uuid == wanted ||
         (!device.facts.pci_address.empty() && device.facts.pci_address == wanted);
}

bool is_one_of(const gpu::OpenClDevice& device, const std::vector<std::string>& named) {
  return std::any_of(
      named.begin(), named.end(), [&](const std::string& one) { return is_wanted(device, one); });
}

void test(Session& session, const TestFlags& flags) {
  gpu::DeviceTestOptions options = options_from(flags);
  gpu::DeviceReports reports;
  const std::vector<gpu::OpenClDevice> devices = gpu::opencl_devices();
  for (const gpu::OpenClDevice& device : devices)
    if (device.facts.vendor == wire::GpuVendor::kNvidia &&
        (is_wanted(device, flags.device) || is_one_of(device, flags.together)))
      options.together.push_back(device.facts.uuid);
  for (const std::string& other : flags.together)
    if (std::none_of(devices.begin(), devices.end(), [&](const gpu::OpenClDevice& device) {
          return is_wanted(device, other);
        }))
      session.say("no device " + other + ": what is between it and others is not tested");
  options.told = listener_for(session, flags);
  for (const gpu::OpenClDevice& device : devices) {
    if (!is_wanted(device, flags.device)) continue;
    if (flags.scrub && options.told) options.told(0, "wiping");
    const wire::ScrubReceipt scrub = flags.scrub ? wiped(device) : wire::ScrubReceipt{};
    reports.items.push_back(gpu::test_device(device, options));
    reports.items.back().scrub = scrub;
  }
  if (options.told && cli::stderr_is_terminal()) cli::write_stderr("\r\x1b[K");
  if (reports.items.empty()) {
    throw cli::Failure(
        cli::kNotFound,
        {flags.device.empty() ? "no OpenCL device on this machine" : "no device " + flags.device,
         "tranche device list shows what there is; testing needs the vendor's OpenCL driver"});
  }
  gpu::compare_with_peers(reports.items);
  if (!flags.report.empty() &&
      !(std::ofstream(flags.report, std::ios::binary) << wire::to_json(reports) << std::flush))
    throw cli::Failure(cli::kOther, {"cannot write the report to " + flags.report});
  session.print(wire::to_json(reports),
                {.table = [&] { return test_table(reports); },
                 .text = [&] { return test_text(reports); },
                 .names =
                     [&] {
                       std::string names;
                       for (const gpu::DeviceReport& report : reports.items) names += report.uuid + "\n";
                       return names;
                     }});
  for (const gpu::DeviceReport& report : reports.items) {
    if (!is_fit(report.receipt.verdict)) throw cli::quiet_end(cli::kOther);
  }
}

}  // namespace

void add_device_commands(const cli::Command& root, cli::Program& program) {
  const cli::Command group = cli::add_group(root,
                                            {"device",
                                             "Accelerators of this machine, without a server",
                                             "tranche device list\ntranche device test --level standard"});
  const auto script = std::make_shared<std::string>();
  const cli::Command listing = cli::add_command(
      group, {"list", "What is in this machine", "tranche device list -o wide\ntranche device list -o json"});
  listing.add_option("--simulated", *script, "List a scripted machine instead").type_name("FILE");
  listing.callback([script, &program] { list(program.session(), *script); });

  const auto flags = std::make_shared<TestFlags>();
  const cli::Command testing =
      cli::add_command(group,
                       {"test",
                        "Is a device fit for tenants? Exits with 1 when one is not",
                        "tranche device test\n"
                        "tranche device test --level full --device GPU-1f2e -o json"});
  testing.add_option("--level", flags->level, "quick (seconds), standard (all memory once) or full");
  testing.add_option("--device", flags->device, "Only this one, by UUID or PCI address").type_name("UUID");
  testing.add_option("--memory", flags->memory, "At most so much memory, e.g. 2GiB");
  testing.add_option("--cpu-memory",
                     flags->cpu_memory,
                     "Of a CPU device, whose memory is the machine's own, at most so much from standard on");
  testing.add_option("--report", flags->report, "Write the report there, too, as JSON").type_name("FILE");
  testing.add_option("--progress", flags->progress, "Write there how far the test is, as JSON")
      .type_name("FILE");
  testing
      .add_option("--together",
                  flags->together,
                  "Other devices that nobody uses: what is between them and this one is tested, too (NCCL)")
      .type_name("UUID");
  testing.add_flag("--scrub", flags->scrub, "Wipe free memory and read it back before the test");
  testing.add_flag("--own-only", flags->own_only, "Leave out tools of vendors");
  testing.callback([flags, &program] { test(program.session(), *flags); });
}

}  // namespace tranche::app
