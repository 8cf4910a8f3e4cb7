// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml_health.hpp"

#include <utility>

#include "gpu/child_program.hpp"
#include "wire/health_codes.hpp"

namespace tranche::gpu::nvml {
namespace {

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
    Memory memory{};
    const bool lost = api_.memory != nullptr && api_.memory(device, &memory) == kGpuIsLost;
    if (begins(seen_[uuid].lost, lost)) {
      out.push_back({.uuid = uuid,
                     .source = "telemetry",
                     .code = wire::kDeviceLost,
                     .at = now,
                     .text = "the driver lost the device"});
    }
    if (lost) continue;
    read_counters(uuid, device, now, out);
    read_limits(uuid, device, now, out);
  }
  read_events(devices, now, out);
  return out;
}

void Health::listen_to(const std::string& uuid, Device device) {
  if (events_ == nullptr || !listening_.insert(uuid).second) return;
  if (!succeeds(api_.register_events, device, kEventXid | kEventDoubleBitEcc, events_))
    succeeds(api_.register_events, device, kEventXid, events_);
}

void Health::read_events(const std::map<std::string, Device>& devices,
                         Instant now,
                         std::vector<HealthSignal>& out) {
  Event event{};
  for (int i = 0; i < 256 && events_ != nullptr && succeeds(api_.wait_event, events_, &event, 0U); ++i) {
    if (event.type != kEventXid) continue;  // Double-bit errors are counted by read_counters.
    HealthSignal signal{.source = "xid", .code = static_cast<std::int64_t>(event.data), .at = now};
    for (const auto& [uuid, device] : devices) {
      if (device == event.device) signal.uuid = uuid;
    }
    signal.text = "Xid " + std::to_string(event.data);
    out.push_back(std::move(signal));
  }
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
