// SPDX-License-Identifier: Apache-2.0
#include "agent/device_watch.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/text.hpp"

namespace tranche::agent {
namespace {

// Drivers round, and take memory for themselves that no call of the job asked for.
constexpr std::uint64_t kSlackLeast = 64ULL << 20U;
constexpr std::uint64_t kSlackPart = 32;  // Of the limit.
constexpr BootTime kSecond = 1'000'000'000;
constexpr BootTime kRemembered = 60 * kSecond;
constexpr std::uint64_t kUnexplainedMilli = 250;  // Of the device, in the last second.
// A kernel whose length nobody knows is charged when it has ended. One that takes half of the last minute
// while others wait for the device is beyond any share, whatever it is.
constexpr BootTime kUnchargedMost = 30 * kSecond;
constexpr Duration kLaunchExplains = std::chrono::seconds(60);

std::string bytes(std::uint64_t count) {
  return text(Bytes{static_cast<std::int64_t>(count)});
}

std::uint64_t vram_of(const SeenUse& use) {
  std::uint64_t sum = 0;
  for (const SeenProcess& process : use.processes) sum += process.vram;
  return sum;
}

std::uint64_t busy_of(const SeenUse& use) {
  std::uint64_t sum = 0;
  for (const SeenProcess& process : use.processes) sum += process.busy_milli;
  return std::min<std::uint64_t>(sum, 1000);
}

std::string called(const SeenProcess& process) {
  return "process " + std::to_string(process.pid) + (process.name.empty() ? "" : " (" + process.name + ")");
}

std::uint64_t beyond(std::uint64_t more, std::uint64_t less) {
  return more > less ? more - less : 0;
}

std::string milliseconds(std::uint64_t nanoseconds) {
  return std::to_string(nanoseconds / 1'000'000) + " ms";
}

}  // namespace

void DeviceWatch::judge_processes(const SeenUse& use, Evidence& found) {
  for (const SeenProcess& process : use.processes) {
    if (process.vram == 0 && process.busy_milli == 0) continue;
    const std::string key = "process " + std::to_string(process.pid);
    if (!use.granted)
      found[key] = called(process) + " is on " + use.uuid + ", which its job was not granted";
    else if (!process.joined)
      found[key] = called(process) + " holds " + bytes(process.vram) + " of " + use.uuid +
                   " without the guard, which counts it for no account";
  }
}

void DeviceWatch::judge_memory(const SeenUse& use, const History& history, Evidence& found) {
  if (!use.granted) return;
  const std::uint64_t reported = vram_of(use);
  const std::uint64_t slack = std::max(kSlackLeast, use.vram_limit / kSlackPart);
  const std::uint64_t most = std::min(use.vram_counted, std::max(use.vram_limit, history.allowed)) + slack;
  if (reported > most)
    found["memory"] = "the device reports " + bytes(reported) + " of " + use.uuid + " in use, the account " +
                      bytes(use.vram_counted) + ", the limit is " + bytes(use.vram_limit);
}

void DeviceWatch::judge_time(const SeenUse& use, const History& history, Evidence& found) {
  if (!use.granted || history.points.empty()) return;
  const Point& now = history.points.back();
  const auto since = [&](BootTime length) {
    const auto first = std::find_if(history.points.begin(), history.points.end(), [&](const Point& point) {
      return point.at + length >= now.at;
    });
    return *first;
  };
  // The device speaks of the last second; a charge may come a moment later, so it is given two.
  const Point lately = since(2 * kSecond);
  const std::uint64_t charged = beyond(now.counted_ns, lately.counted_ns);
  const std::uint64_t measured = beyond(now.measured_ns, lately.measured_ns);
  if (beyond(measured, charged) > kSecond / 4) {
    found["time"] = "the account of " + use.uuid + " was written by the job: " + milliseconds(measured) +
                    " of work were measured within two seconds, and " + milliseconds(charged) + " charged";
    return;
  }
  const std::uint64_t unexplained = beyond(busy_of(use), charged / (kSecond / 1000));
  if (unexplained > kUnexplainedMilli && use.since_launch > kLaunchExplains) {
    found["time"] = "the device reports " + std::to_string(busy_of(use) / 10) + " % of " + use.uuid +
                    " busy with the job, and the guard has let nothing through for " + text(kLaunchExplains);
    return;
  }
  const Point& before = since(kRemembered);
  const std::uint64_t uncharged =
      beyond(now.busy_ns - before.busy_ns, now.counted_ns - std::min(now.counted_ns, before.counted_ns));
  if (use.neighbours && uncharged > kUnchargedMost)
    found["time"] = "within a minute the device was busy with the job for " +
                    text(Duration(static_cast<std::int64_t>((now.busy_ns - before.busy_ns) / 1000))) +
                    ", of which " + text(Duration(static_cast<std::int64_t>(uncharged / 1000))) +
                    " are in no account";
}

void DeviceWatch::judge_account(const SeenUse& use, const History& history, Evidence& found) {
  if (use.granted && use.account == history.account && use.submitted_ns < history.submitted_ns)
    found["account"] = "the account of " + use.uuid + " was written by the job: it went back from " +
                       std::to_string(history.submitted_ns) + " to " + std::to_string(use.submitted_ns) +
                       " ns";
}

void DeviceWatch::remember(BootTime now, const SeenUse& use, History& history) {
  if (use.account != history.account) history.points.clear();
  const BootTime passed = history.points.empty() ? 0 : std::min(now - history.points.back().at, 2 * kSecond);
  history.reported.vram_most = std::max(history.reported.vram_most, vram_of(use));
  history.reported.busy_ns += passed * busy_of(use) / 1000;
  history.points.push_back({now, use.counted_ns, use.measured_ns, history.reported.busy_ns});
  while (history.points.front().at + kRemembered < now) history.points.pop_front();
  history.submitted_ns =
      std::max(use.account == history.account ? history.submitted_ns : 0, use.submitted_ns);
  history.account = use.account;
  history.allowed = std::max(use.vram_limit, std::min(history.allowed, vram_of(use)));
}

std::vector<Finding> DeviceWatch::look(BootTime now, const std::vector<SeenUse>& uses) {
  std::vector<Finding> findings;
  for (const SeenUse& use : uses) {
    History& history = histories_[{use.lease, use.uuid}];
    Evidence found;
    judge_account(use, history, found);
    judge_processes(use, found);
    judge_memory(use, history, found);
    remember(now, use, history);
    judge_time(use, history, found);
    std::set<std::string> suspected;
    for (const auto& [about, words] : found) {
      suspected.insert(about);
      // A number that went back cannot be a moment between two readings; everything else may be, once.
      const bool certain = about == "account" || history.suspected.contains(about);
      if (!certain || !history.told.insert(about).second) continue;
      findings.push_back({use.lease, use.uuid, words, !use.granted || !use.separated});
    }
    history.suspected = std::move(suspected);
  }
  return findings;
}

ReportedUse DeviceWatch::reported(LeaseId lease, const std::string& uuid) const {
  const auto found = histories_.find({lease, uuid});
  return found == histories_.end() ? ReportedUse{} : found->second.reported;
}

void DeviceWatch::forget(LeaseId lease) {
  std::erase_if(histories_, [&](const auto& entry) { return entry.first.first == lease; });
}

}  // namespace tranche::agent
