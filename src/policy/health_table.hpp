// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a signal of a device's health means: what to do with the device, what becomes of its jobs, who pays.
//
// A versioned table of data for each family of devices, which an operator may replace by a file. A code that
// no row names follows the row `unknown`, and is never ignored.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "wire/agent_message.hpp"

namespace tranche::policy {

enum class HealthAction : std::uint8_t {
  kIgnore,         // Of no account by itself; still written down.
  kNote,           // Counted: repetition makes more of it.
  kResetWhenIdle,  // The device goes on until its jobs have ended.
  kTestWhenIdle,   // Watched closely, and tested as soon as it is free.
  kSuspect,        // No new tenants; what runs may stay.
  kDedicatedOnly,  // Never shared until it is over.
  kLeaveGangs,     // Jobs of one device may stay, jobs that use the link may not.
  kDrainAndReset,
  kDrainNode,  // The whole node, then a reboot.
  kQuarantine,
  kRepair,
  kLost,
  kDirective,  // The signal's value says what to do.
};
BOOST_DESCRIBE_ENUM(HealthAction,
                    kIgnore,
                    kNote,
                    kResetWhenIdle,
                    kTestWhenIdle,
                    kSuspect,
                    kDedicatedOnly,
                    kLeaveGangs,
                    kDrainAndReset,
                    kDrainNode,
                    kQuarantine,
                    kRepair,
                    kLost,
                    kDirective)

// Of the jobs on the device when it happened.
enum class JobFate : std::uint8_t {
  kKept,
  kFailed,            // By the job's own doing.
  kInterrupted,       // By the platform: requeued from the checkpoint.
  kGangsInterrupted,  // Only those that use more than one device.
  kNodeInterrupted,   // All jobs of the node.
  kNotStarted,
};
BOOST_DESCRIBE_ENUM(JobFate, kKept, kFailed, kInterrupted, kGangsInterrupted, kNodeInterrupted, kNotStarted)

enum class FaultBill : std::uint8_t {
  kCharged,
  kNotSinceCheckpoint,  // What was lost is not charged.
  kCredited,            // Not charged from the first fault on, and credited.
  kUntilHeartbeat,      // Charged until the agent was last heard.
  kNone,                // Nothing ran that could be charged.
};
BOOST_DESCRIBE_ENUM(FaultBill, kCharged, kNotSinceCheckpoint, kCredited, kUntilHeartbeat, kNone)

struct HealthRow {
  std::string source{};  // xid, ecc, link, thermal, telemetry, test
  std::vector<std::int64_t> codes{};
  HealthAction action = HealthAction::kSuspect;
  JobFate jobs = JobFate::kKept;
  FaultBill bill = FaultBill::kCharged;
  HealthAction repeated =
      HealthAction::kIgnore;  // Instead, from `repeats` in the window on; kIgnore: as before.
  std::uint32_t repeats = 0;  // Zero: repetition changes nothing.
  std::string means{};        // For people.
  bool operator==(const HealthRow&) const = default;
};
BOOST_DESCRIBE_STRUCT(HealthRow, (), (source, codes, action, jobs, bill, repeated, repeats, means))

struct HealthTable {
  std::string version{};
  std::string family{};  // nvidia, amd, any
  std::vector<HealthRow> rows{};
  HealthRow unknown{};
  bool operator==(const HealthTable&) const = default;
};
BOOST_DESCRIBE_STRUCT(HealthTable, (), (version, family, rows, unknown))

const HealthTable& health_table(wire::GpuVendor vendor);
// YAML or JSON of the same fields. Refuses a table in which a code has two rows, or `unknown` ignores.
Result<HealthTable, std::string> parse_health_table(std::string_view text);

// What the signal alone does not tell.
struct HealthHistory {
  std::uint32_t same_signal = 0;   // Of this device in the window of the row, this one not counted.
  std::uint32_t tenants_hit = 0;   // Different tenants with this signal on this device within a day.
  std::uint32_t remediations = 0;  // Of this device within seven days.
  bool after_our_kill = false;     // Within ten seconds of a process that we ended ourselves.
  bool remap_failed = false;       // The device's own flag, beside a pending remap.
};

struct HealthDecision {
  HealthAction action = HealthAction::kSuspect;
  JobFate jobs = JobFate::kKept;
  FaultBill bill = FaultBill::kCharged;
  bool known = true;         // A row names it.
  bool tell_tenant = false;  // The same job again and again: it is their code.
  std::string table_version{};
  std::string reason{};
  bool operator==(const HealthDecision&) const = default;
};
HealthDecision decide_health(const HealthTable& table,
                             const wire::HealthSignal& signal,
                             const HealthHistory& history);

}  // namespace tranche::policy
