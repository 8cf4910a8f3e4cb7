// SPDX-License-Identifier: Apache-2.0
#include "app/guard_change.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "app/guard_run.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "guard/broker_pause.hpp"

namespace tranche::app {
namespace {

constexpr std::uint64_t kPausePatienceNs = 30'000'000'000;

struct Change {
  std::string name, vram, compute, pause, socket;
};

std::string socket_of(const Change& change) {
  return change.socket.empty() ? default_broker_socket() : change.socket;
}

void pause(const Change& change) {
  guard::BrokerClient broker(socket_of(change));
  const guard::PauseReport report = guard::pause_tenant(broker, change.name, kPausePatienceNs);
  std::printf(
      "paused: %llu of %llu bytes given back\n",
      static_cast<unsigned long long>(report.held_bytes - std::min(report.held_bytes, report.held_after)),
      static_cast<unsigned long long>(report.held_bytes));
  if (!report.trouble.empty()) throw std::runtime_error(report.trouble);
}

void resume(const Change& change) {
  guard::BrokerClient broker(socket_of(change));
  const guard::PauseReport report = guard::resume_tenant(broker, change.name);
  if (!report.trouble.empty()) throw std::runtime_error("still paused: " + report.trouble);
  std::printf("resumed\n");
}

// Changes only what was named; the broker tells what stands.
void change_limits(const Change& change) {
  guard::BrokerClient broker(socket_of(change));
  for (const guard::TenantListing& tenant : broker.list()) {
    if (tenant.name != change.name) continue;
    guard::TenantLimits limits = tenant.limits;
    for (std::uint32_t i = 0; i < limits.device_count; ++i) {
      guard::DeviceLimits& device = limits.devices[i];
      if (!change.vram.empty()) device.vram_bytes = size_of(change.vram);
      if (!change.compute.empty()) device.share = share_of(change.compute);
      // A share of a job that had all of the device is a ceiling, as with `guard run`.
      if (!change.compute.empty() && device.mode == guard::ShareMode::kUnlimited)
        device.mode = guard::ShareMode::kCap;
    }
    broker.set_limits(change.name, limits);
    return;
  }
  throw std::runtime_error("no tenant " + change.name +
                           " at this broker: `tranche guard top` shows who is there");
}

cli::Command add_change(const cli::Command& group,
                        const std::shared_ptr<Change>& change,
                        const cli::CommandText& text) {
  const cli::Command command = cli::add_local_command(group, text);
  command.add_option("tenant", change->name, "Its name in guard top").required();
  command.add_option("--socket", change->socket, "The broker's socket");
  return command;
}

}  // namespace

std::uint64_t size_of(const std::string& text) {
  const auto size = parse_bytes(text);
  if (!size || size->count < 0) throw cli::usage_failure("not a size: " + text);
  if (size->count == 0) throw cli::usage_failure("a job without VRAM cannot use a device: " + text);
  return static_cast<std::uint64_t>(size->count);
}

std::uint32_t share_of(const std::string& text) {
  if (text.find_first_not_of("0123456789.%") != std::string::npos)
    throw cli::usage_failure("not a share: " + text);
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) { throw cli::usage_failure("not a share: " + text); }
  const bool percent = used < text.size() && text[used] == '%';
  if (used + (percent ? 1 : 0) != text.size()) throw cli::usage_failure("not a share: " + text);
  if (!percent && value <= 1.0) value *= 100;
  if (!(value > 0 && value <= 100))
    throw cli::usage_failure("a share is more than 0 % and at most 100 %: " + text);
  const long share = std::lround(value * guard::kShareWhole / 100);
  if (share == 0) throw cli::usage_failure("the least share is 0.01 %: " + text);
  return static_cast<std::uint32_t>(share);
}

void add_guard_changes(const cli::Command& group) {
  auto change = std::make_shared<Change>();
  const cli::Command limit = add_change(
      group,
      change,
      {"limit", "Change the limits of a running tenant", "tranche guard limit run-1234 --compute 50%"});
  limit.add_option("--vram", change->vram, "New VRAM limit of each device");
  limit.add_option("--compute", change->compute, "New share");
  limit.add_option("--pause", change->pause, "on or off: as guard pause and guard resume")
      .one_of({"on", "off"});
  limit.callback([change] {
    if (change->vram.empty() && change->compute.empty() && change->pause.empty())
      throw cli::usage_failure("nothing to change: --vram, --compute or --pause");
    if (change->pause.empty() || !change->vram.empty() || !change->compute.empty()) change_limits(*change);
    if (change->pause == "on") pause(*change);
    if (change->pause == "off") resume(*change);
  });
  add_change(
      group, change, {"pause", "Stop a tenant's work and give its VRAM back", "tranche guard pause run-1234"})
      .callback([change] { pause(*change); });
  add_change(group, change, {"resume", "Let a paused tenant go on", "tranche guard resume run-1234"})
      .callback([change] { resume(*change); });
}

}  // namespace tranche::app
