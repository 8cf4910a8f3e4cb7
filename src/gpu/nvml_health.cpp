// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml_health.hpp"

#include <algorithm>
#include <utility>

#include "gpu/child_program.hpp"
#include "gpu/device_identity.hpp"
#include "wire/health_codes.hpp"

namespace tranche::gpu::nvml {
namespace {

// The driver tells a fault through its library and through the kernel's log: within so long it is one fault.
constexpr Duration kSameFault = std::chrono::seconds(10);
constexpr unsigned long long kCorrectedMost = 100;  // In an hour; one that is well has a few in a month.
constexpr Duration kCorrectedWindow = std::chrono::hours(1);
constexpr std::int64_t kXidRecommends = 154;
constexpr Duration kMuteMost = std::chrono::seconds(10);

// True when a condition has just begun; it is told again only after it has ended.
bool begins(bool& seen, bool now) {
  return now && !std::exchange(seen, now) ? true : (seen = now, false);
}

}  // namespace

std::vector<HealthSignal> Health::poll(const std::map<std::string, Device>& devices, Instant now) {
  std::vector<HealthSignal> out;
  if (events_ == nullptr) succeeds(api_.event_set, &events_);
  for (const auto& [uuid, device] : devices) {
    listen_to(uuid, device);
    if (!answers(uuid, device, now, out)) continue;
    read_counters(uuid, device, now, out);
    read_limits(uuid, device, now, out);
    read_links(uuid, device, now, out);
  }
  read_xids(devices, now, out);
  return out;
}

// One that the driver lost is gone at once; one of which it says nothing may be busy, for a moment.
bool Health::answers(const std::string& uuid, Device device, Instant now, std::vector<HealthSignal>& out) {
  const auto tell = [&](std::int64_t code, Instant at, const char* text) {
    out.push_back({.uuid = uuid, .source = "telemetry", .code = code, .at = at, .text = text});
  };
  Memory memory{};
  const int said = api_.memory == nullptr ? 0 : api_.memory(device, &memory);
  Seen& seen = seen_[uuid];
  const bool lost = said == kGpuIsLost;
  if (begins(seen.lost, lost)) tell(wire::kDeviceLost, now, "the driver lost the device");
  if (lost) return false;
  if (said == 0) {
    if (std::exchange(seen.mute_told, false))
      tell(wire::kDeviceBack, now, "the driver speaks of the device again");
    seen.mute_since = {};
    return true;
  }
  if (seen.mute_since == Instant{}) seen.mute_since = now;
  if (now - seen.mute_since >= kMuteMost && !std::exchange(seen.mute_told, true))
    tell(wire::kDeviceSilent, seen.mute_since, "the driver says nothing of the device");
  return false;
}

void Health::listen_to(const std::string& uuid, Device device) {
  Pci pci{};
  if (succeeds(api_.pci, device, &pci)) {
    const std::string address = pci_address_text(pci.domain, pci.bus, pci.device, 0);
    at_address_[address.substr(0, address.find('.'))] = uuid;
  }
  if (events_ == nullptr || !listening_.insert(uuid).second) return;
  if (!succeeds(api_.register_events, device, kEventXid | kEventDoubleBitEcc, events_))
    succeeds(api_.register_events, device, kEventXid, events_);
}

// The log after the events: what one of them says is in both by then.
void Health::read_xids(const std::map<std::string, Device>& devices,
                       Instant now,
                       std::vector<HealthSignal>& out) {
  const std::vector<HealthSignal> heard = events(devices, now);
  for (HealthSignal& line : lines(now))
    if (is_news(line, true, now)) out.push_back(std::move(line));
  for (const HealthSignal& event : heard)
    if (is_news(event, false, now)) out.push_back(event);
}

std::vector<HealthSignal> Health::events(const std::map<std::string, Device>& devices, Instant now) {
  std::vector<HealthSignal> out;
  Event event{};
  for (int i = 0; i < 256 && events_ != nullptr && succeeds(api_.wait_event, events_, &event, 0U); ++i) {
    if (event.type != kEventXid) continue;  // Double-bit errors are counted by read_counters.
    HealthSignal signal{.source = "xid", .code = static_cast<std::int64_t>(event.data), .at = now};
    if (signal.code == kXidRecommends) signal.value = -1;  // What, only the log says.
    for (const auto& [uuid, device] : devices) {
      if (device == event.device) signal.uuid = uuid;
    }
    signal.text = "Xid " + std::to_string(event.data);
    out.push_back(std::move(signal));
  }
  return out;
}

std::vector<HealthSignal> Health::lines(Instant now) {
  std::vector<HealthSignal> out;
  for (XidLine& line : kernel_log_.read()) {
    const auto device = at_address_.find(line.address);
    // One that this driver has not shown us is named by its place; the server may know it from before.
    const std::string place = line.address.empty() ? "" : "pci:" + line.address;
    out.push_back({.uuid = device == at_address_.end() ? place : device->second,
                   .source = "xid",
                   .code = line.code,
                   .value = line.value,
                   .at = time_of(line, now),
                   .text = std::move(line.text)});
  }
  return out;
}

bool Health::is_news(const HealthSignal& signal, bool by_log, Instant now) {
  Told& told = told_[{signal.uuid, signal.code}];
  const bool known = told.by_log != by_log && told.at != Instant{} && now - told.at <= kSameFault;
  const bool says_more = by_log && signal.code == kXidRecommends;
  if (known && !says_more) return false;
  told = {now, by_log};
  return true;
}

void Health::read_counters(const std::string& uuid,
                           Device device,
                           Instant now,
                           std::vector<HealthSignal>& out) {
  Seen& seen = seen_[uuid];
  const auto tell = [&](std::int64_t code, std::uint64_t value, std::string text) {
    out.push_back({.uuid = uuid,
                   .source = "ecc",
                   .code = code,
                   .value = static_cast<std::int64_t>(value),
                   .at = now,
                   .text = std::move(text)});
  };
  unsigned long long uncorrected = 0;
  if (succeeds(api_.ecc_errors, device, kUncorrected, kSinceBoot, &uncorrected)) {
    if (seen.known && uncorrected > seen.uncorrected)
      tell(wire::kEccUncorrected, uncorrected, "uncorrected memory errors rose");
    seen.uncorrected = uncorrected;
    seen.known = true;
  }
  unsigned long long corrected = 0;
  if (succeeds(api_.ecc_errors, device, kCorrected, kSinceBoot, &corrected)) {
    if (seen.corrected_since == Instant{} || now - seen.corrected_since > kCorrectedWindow) {
      seen.corrected = corrected;
      seen.corrected_since = now;
      seen.corrected_told = false;
    }
    if (corrected > seen.corrected &&
        begins(seen.corrected_told, corrected - seen.corrected >= kCorrectedMost))
      tell(
          wire::kEccCorrectedRate, corrected - seen.corrected, "many corrected memory errors within an hour");
  }
  unsigned protects = 1, will_protect = 1;
  if (succeeds(api_.ecc_mode, device, &protects, &will_protect) && begins(seen.unprotected, protects == 0))
    tell(wire::kEccOff, 0, "error correction of the memory is switched off");
  unsigned corrected_rows = 0, uncorrected_rows = 0, pending = 0, failed = 0;
  if (!succeeds(api_.remapped_rows, device, &corrected_rows, &uncorrected_rows, &pending, &failed)) return;
  if (begins(seen.remap_pending, pending != 0))
    tell(wire::kEccRemapPending, corrected_rows + uncorrected_rows, "a row remap waits for a reset");
  if (begins(seen.remap_failed, failed != 0))
    tell(wire::kEccRemapFailed, corrected_rows + uncorrected_rows, "a row could not be remapped");
}

void Health::read_limits(const std::string& uuid,
                         Device device,
                         Instant now,
                         std::vector<HealthSignal>& out) {
  Seen& seen = seen_[uuid];
  const auto tell = [&](const char* source, std::int64_t code, std::uint64_t value, const char* text) {
    out.push_back({.uuid = uuid,
                   .source = source,
                   .code = code,
                   .value = static_cast<std::int64_t>(value),
                   .at = now,
                   .text = text});
  };
  unsigned long long reasons = 0;
  if (succeeds(api_.throttle_reasons, device, &reasons)) {
    const auto heat = kReasonHardwareSlowdown | kReasonSoftwareThermal | kReasonHardwareThermal;
    if (begins(seen.slow, (reasons & heat) != 0))
      tell("thermal", wire::kThermalSlowdown, reasons, "clocks are held down by heat");
    if (begins(seen.braked, (reasons & kReasonPowerBrake) != 0))
      tell("thermal", wire::kPowerBrake, reasons, "the power supply asked for less load");
  }
  unsigned width = 0, most = 0;
  if (succeeds(api_.link_width, device, &width) && succeeds(api_.link_width_max, device, &most)) {
    if (begins(seen.narrow, width < most))
      tell("link", wire::kLinkWidth, width, "the PCIe link is narrower than it could be");
  }
}

// As many as were up once should be up: which are wired, the driver does not say.
void Health::read_links(const std::string& uuid, Device device, Instant now, std::vector<HealthSignal>& out) {
  unsigned up = 0;
  for (unsigned link = 0; link < kLinksMax; ++link) {
    unsigned active = 0;
    if (!succeeds(api_.link_state, device, link, &active)) break;
    up += active != 0;
  }
  Seen& seen = seen_[uuid];
  seen.links = std::max(seen.links, up);
  if (begins(seen.unlinked, up < seen.links))
    out.push_back({.uuid = uuid,
                   .source = "link",
                   .code = wire::kLinkDown,
                   .value = up,
                   .at = now,
                   .text = "of " + std::to_string(seen.links) + " links to other devices " +
                           std::to_string(up) + " are up"});
}

Result<void, std::string> set_time_slice(const std::string& uuid, TimeSlice length) {
  const std::string program = find_program("nvidia-smi");
  if (program.empty())
    return refuse(std::string("nvidia-smi is not installed: time slices stay as they are"));
  const ProgramEnd end =
      run_program({.command = {program,
                               "compute-policy",
                               "-i",
                               uuid,
                               "--set-timeslice=" + std::to_string(static_cast<int>(length))},
                   .limit = std::chrono::seconds(30)});
  if (end.started && end.exit_code == 0) return {};
  return refuse("the driver did not change the time slice: " + end.output.substr(0, 300));
}

Result<void, std::string> reset_device(const std::string& uuid) {
  const std::string program = find_program("nvidia-smi");
  if (program.empty()) return refuse(std::string("nvidia-smi is not installed: reboot the node instead"));
  const ProgramEnd end =
      run_program({.command = {program, "--gpu-reset", "-i", uuid}, .limit = std::chrono::seconds(120)});
  if (end.started && !end.timed_out && end.exit_code == 0) return {};
  return refuse("the reset failed: " + end.output.substr(0, 200) + " (reboot the node if it stays so)");
}

}  // namespace tranche::gpu::nvml
