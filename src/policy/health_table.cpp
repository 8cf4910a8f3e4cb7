// SPDX-License-Identifier: Apache-2.0
#include "policy/health_table.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "wire/codec_impl.hpp"
#include "wire/health_codes.hpp"
#include "wire/yaml_document.hpp"

namespace tranche::policy {
namespace {

constexpr std::uint32_t kTenantsOfASuspect = 3;
constexpr std::uint32_t kRemediationsOfALemon = 1;  // More than so many in seven days.
constexpr std::int64_t kXidPreemptiveRemoval = 45;
constexpr std::int64_t kXidDirective = 154;

HealthRow row(std::string source,
              std::vector<std::int64_t> codes,
              HealthAction action,
              JobFate jobs,
              FaultBill bill,
              std::string means) {
  return {.source = std::move(source),
          .codes = std::move(codes),
          .action = action,
          .jobs = jobs,
          .bill = bill,
          .means = std::move(means)};
}

HealthRow repeating(HealthRow first, std::uint32_t repeats, HealthAction then) {
  first.repeats = repeats;
  first.repeated = then;
  return first;
}

HealthRow unknown_row() {
  return row("", {}, HealthAction::kSuspect, JobFate::kKept, FaultBill::kCharged, "a code that no row names");
}

// What every family shares: signals that we make ourselves out of counters, links and tests.
std::vector<HealthRow> common_rows() {
  using A = HealthAction;
  using J = JobFate;
  using B = FaultBill;
  using namespace wire;
  return {
      repeating(row("ecc",
                    {kEccUncorrected},
                    A::kDrainAndReset,
                    J::kInterrupted,
                    B::kCredited,
                    "memory errors that could not be corrected"),
                2,
                A::kRepair),
      row("ecc",
          {kEccCorrectedRate},
          A::kTestWhenIdle,
          J::kKept,
          B::kCharged,
          "corrected errors come too often"),
      row("ecc",
          {kEccRemapPending},
          A::kResetWhenIdle,
          J::kKept,
          B::kCharged,
          "a row remap waits for a reset"),
      repeating(row("ecc",
                    {kEccRemapFailed},
                    A::kDrainAndReset,
                    J::kInterrupted,
                    B::kCredited,
                    "a row could not be remapped"),
                1,
                A::kRepair),
      row("ecc", {kEccOff}, A::kDedicatedOnly, J::kKept, B::kCharged, "memory without error correction"),
      repeating(
          row("link", {kLinkWidth}, A::kSuspect, J::kKept, B::kCharged, "a link narrower than it could be"),
          3,
          A::kDrainAndReset),
      repeating(
          row("link", {kLinkDown}, A::kLeaveGangs, J::kGangsInterrupted, B::kCredited, "a link is down"),
          1,
          A::kRepair),
      repeating(row("thermal",
                    {kThermalSlowdown, kPowerBrake},
                    A::kSuspect,
                    J::kKept,
                    B::kCharged,
                    "clocks are held down"),
                3,
                A::kDrainAndReset),
      repeating(row("telemetry",
                    {kDeviceLost},
                    A::kDrainNode,
                    J::kNodeInterrupted,
                    B::kCredited,
                    "the device left the bus"),
                1,
                A::kRepair),
      row("telemetry", {kDeviceSilent}, A::kLost, J::kInterrupted, B::kUntilHeartbeat, "the agent is silent"),
      row("telemetry", {kDeviceBack}, A::kTestWhenIdle, J::kKept, B::kCharged, "the device answers again"),
      row("agent",
          {kLeaseStuck},
          A::kQuarantine,
          J::kInterrupted,
          B::kCredited,
          "a job on it cannot be ended"),
      row("agent",
          {kShareStuck},
          A::kDrainAndReset,
          J::kInterrupted,
          B::kCredited,
          "what was set up for a lease cannot be taken down"),
      row("agent", {kWentAround}, A::kNote, J::kKept, B::kCharged, "a job went around the guard"),
      row("agent", {kForeignProcess}, A::kNote, J::kKept, B::kCharged, "a process of no lease uses it"),
      row("test", {kTestFailed}, A::kQuarantine, J::kNotStarted, B::kNone, "a test found it unfit"),
      repeating(
          row("test", {kTestCannotRun}, A::kTestWhenIdle, J::kNotStarted, B::kNone, "a test could not run"),
          1,
          A::kQuarantine),
      row("test", {kScrubNotVerified}, A::kQuarantine, J::kNotStarted, B::kNone, "memory was not wiped"),
      repeating(row("test", {kStraggler}, A::kSuspect, J::kKept, B::kCharged, "slower than its peers"),
                3,
                A::kDrainAndReset),
  };
}

HealthTable nvidia_table() {
  using A = HealthAction;
  using J = JobFate;
  using B = FaultBill;
  HealthTable table{
      .version = "signals-2", .family = "nvidia", .rows = common_rows(), .unknown = unknown_row()};
  const auto add = [&](HealthRow one) { table.rows.push_back(std::move(one)); };
  // Where operators disagree (43, 92, 109) the stricter reading stands.
  add(row("xid",
          {13, 31, 32, 39, 40, 41, 43, 60, 68, 69, 70,  71,  72,  75,  76,  77,  80, 82,
           83, 84, 85, 86, 88, 89, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 139},
          A::kNote,
          J::kFailed,
          B::kCharged,
          "the program's own fault"));
  add(row("xid", {kXidPreemptiveRemoval}, A::kSuspect, J::kKept, B::kCharged, "a process was removed"));
  add(row(
      "xid", {94}, A::kResetWhenIdle, J::kInterrupted, B::kNotSinceCheckpoint, "a contained memory error"));
  add(row("xid",
          {46, 48, 62, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158},
          A::kDrainAndReset,
          J::kInterrupted,
          B::kCredited,
          "the device needs a reset"));
  add(row("xid", {63}, A::kResetWhenIdle, J::kKept, B::kCharged, "a row remap was recorded"));
  add(repeating(row("xid", {64}, A::kDrainAndReset, J::kInterrupted, B::kCredited, "a row remap failed"),
                1,
                A::kRepair));
  add(repeating(row("xid", {79, 151}, A::kDrainNode, J::kNodeInterrupted, B::kCredited, "it left the bus"),
                1,
                A::kRepair));
  add(repeating(row("xid",
                    {74, 144, 145, 146, 147, 148, 149, 150},
                    A::kLeaveGangs,
                    J::kGangsInterrupted,
                    B::kCredited,
                    "a fault of the link between devices"),
                1,
                A::kRepair));
  add(row("xid", {92}, A::kTestWhenIdle, J::kKept, B::kCharged, "single-bit errors come too often"));
  add(row("xid", {54}, A::kRepair, J::kInterrupted, B::kCredited, "auxiliary power is not connected"));
  add(row("xid",
          {37, 38, 44, 66, 67, 93, 106, 107, 121, 137, 141, 157, 160, 161},
          A::kIgnore,
          J::kKept,
          B::kCharged,
          "information"));
  add(row("xid", {kXidDirective}, A::kDirective, J::kKept, B::kCharged, "the driver says what to do"));
  return table;
}

// As the driver numbers what it recommends.
void follow_directive(HealthDecision& decision, std::int64_t value) {
  const auto become = [&](HealthAction action, JobFate jobs, FaultBill bill) {
    decision.action = action;
    decision.jobs = jobs;
    decision.bill = bill;
  };
  switch (value) {
    case 0:
      return become(HealthAction::kNote, JobFate::kKept, FaultBill::kCharged);
    case 1:
    case 4:
      return become(HealthAction::kDrainAndReset, JobFate::kInterrupted, FaultBill::kCredited);
    case 2:
      return become(HealthAction::kDrainNode, JobFate::kNodeInterrupted, FaultBill::kCredited);
    case 3:
      return become(HealthAction::kLeaveGangs, JobFate::kGangsInterrupted, FaultBill::kCredited);
    default:
      return become(HealthAction::kSuspect, JobFate::kKept, FaultBill::kCharged);
  }
}

bool is_remediation(HealthAction action) {
  return action == HealthAction::kDrainAndReset || action == HealthAction::kDrainNode;
}

const HealthRow* find_row(const HealthTable& table, const wire::HealthSignal& signal) {
  for (const HealthRow& one : table.rows) {
    if (one.source == signal.source &&
        std::find(one.codes.begin(), one.codes.end(), signal.code) != one.codes.end())
      return &one;
  }
  return nullptr;
}

void consider_xid(HealthDecision& decision, const wire::HealthSignal& signal, const HealthHistory& history) {
  if (signal.code == kXidPreemptiveRemoval && history.after_our_kill) decision.action = HealthAction::kIgnore;
  if (decision.action != HealthAction::kNote || decision.jobs != JobFate::kFailed) return;
  if (history.tenants_hit >= kTenantsOfASuspect) {  // Three strangers do not make the same mistake.
    decision.action = HealthAction::kSuspect;
    decision.reason += "; several tenants met it on this device";
  } else if (history.same_signal + 1 >= 3) {
    decision.tell_tenant = true;
  }
}

}  // namespace

const HealthTable& health_table(wire::GpuVendor vendor) {
  static const HealthTable nvidia = nvidia_table();
  static const HealthTable any{
      .version = "signals-2", .family = "any", .rows = common_rows(), .unknown = unknown_row()};
  return vendor == wire::GpuVendor::kNvidia ? nvidia : any;
}

HealthDecision decide_health(const HealthTable& table,
                             const wire::HealthSignal& signal,
                             const HealthHistory& history) {
  const HealthRow* const found = find_row(table, signal);
  const HealthRow& rule = found == nullptr ? table.unknown : *found;
  HealthDecision decision{.action = rule.action,
                          .jobs = rule.jobs,
                          .bill = rule.bill,
                          .known = found != nullptr,
                          .table_version = table.version,
                          .reason = signal.source + " " + std::to_string(signal.code) + ": " + rule.means};
  if (rule.action == HealthAction::kDirective) follow_directive(decision, signal.value);
  if (signal.source == "xid") consider_xid(decision, signal, history);
  if (rule.repeats > 0 && history.same_signal >= rule.repeats) {
    decision.action = rule.repeated;
    decision.reason += "; again";
  }
  if (signal.source == "ecc" && signal.code == wire::kEccRemapPending && history.remap_failed)
    decision.action = HealthAction::kRepair;
  if (is_remediation(decision.action) && history.remediations > kRemediationsOfALemon) {
    decision.action = HealthAction::kRepair;
    decision.reason += "; mended too often in a week";
  }
  return decision;
}

Result<HealthTable, std::string> parse_health_table(std::string_view text) {
  const auto document = wire::parse_yaml_document(text);
  if (!document) return refuse(wire::text(document.error()));
  auto table = wire::detail::read_document<HealthTable>(*document);
  if (!table) return refuse(wire::text(table.error()));
  if (table->version.empty()) return refuse(std::string("a table needs a version"));
  if (table->unknown.action == HealthAction::kIgnore || table->unknown.action == HealthAction::kNote)
    return refuse(std::string("an unknown code is never ignored: give `unknown` at least suspect"));
  std::set<std::pair<std::string, std::int64_t>> seen;
  for (const HealthRow& one : table->rows) {
    if (one.source.empty() || one.codes.empty()) return refuse(std::string("a row needs a source and codes"));
    for (const std::int64_t code : one.codes) {
      if (!seen.emplace(one.source, code).second)
        return refuse(one.source + " " + std::to_string(code) + " has two rows");
    }
  }
  return std::move(*table);
}

}  // namespace tranche::policy

TRANCHE_WIRE_JSON(tranche::policy::HealthTable);
