// SPDX-License-Identifier: Apache-2.0
#include "policy/health_table.hpp"

#include <doctest/doctest.h>
#include <set>

#include "wire/codec.hpp"
#include "wire/health_codes.hpp"

using namespace tranche;
using namespace tranche::policy;

namespace {

HealthDecision xid(std::int64_t code, HealthHistory history = {}, std::int64_t value = 0) {
  return decide_health(
      health_table(wire::GpuVendor::kNvidia), {.source = "xid", .code = code, .value = value}, history);
}

}  // namespace

TEST_CASE("each class of codes has its action, job verdict and bill") {
  struct Expected {
    std::int64_t code;
    HealthAction action;
    JobFate jobs;
    FaultBill bill;
  };
  for (const Expected& row :
       {Expected{31, HealthAction::kNote, JobFate::kFailed, FaultBill::kCharged},
        {43, HealthAction::kNote, JobFate::kFailed, FaultBill::kCharged},
        {94, HealthAction::kResetWhenIdle, JobFate::kInterrupted, FaultBill::kNotSinceCheckpoint},
        {48, HealthAction::kDrainAndReset, JobFate::kInterrupted, FaultBill::kCredited},
        {109, HealthAction::kDrainAndReset, JobFate::kInterrupted, FaultBill::kCredited},
        {63, HealthAction::kResetWhenIdle, JobFate::kKept, FaultBill::kCharged},
        {64, HealthAction::kDrainAndReset, JobFate::kInterrupted, FaultBill::kCredited},
        {79, HealthAction::kDrainNode, JobFate::kNodeInterrupted, FaultBill::kCredited},
        {74, HealthAction::kLeaveGangs, JobFate::kGangsInterrupted, FaultBill::kCredited},
        {92, HealthAction::kTestWhenIdle, JobFate::kKept, FaultBill::kCharged},
        {54, HealthAction::kRepair, JobFate::kInterrupted, FaultBill::kCredited},
        {37, HealthAction::kIgnore, JobFate::kKept, FaultBill::kCharged}}) {
    CAPTURE(row.code);
    const HealthDecision decision = xid(row.code);
    CHECK(decision.action == row.action);
    CHECK(decision.jobs == row.jobs);
    CHECK(decision.bill == row.bill);
    CHECK(decision.known);
    CHECK(decision.table_version == "signals-2");
  }
}

TEST_CASE("no code is ignored because nobody knows it") {
  for (const wire::GpuVendor vendor :
       {wire::GpuVendor::kNvidia, wire::GpuVendor::kAmd, wire::GpuVendor::kIntel, wire::GpuVendor::kAny}) {
    const HealthTable& table = health_table(vendor);
    std::set<std::int64_t> named;
    for (const HealthRow& row : table.rows) {
      if (row.source == "xid") named.insert(row.codes.begin(), row.codes.end());
    }
    for (std::int64_t code = 0; code < 1000; ++code) {
      const auto decision = decide_health(table, {.source = "xid", .code = code}, {});
      if (named.contains(code)) continue;
      CHECK(decision.action == HealthAction::kSuspect);
      CHECK_FALSE(decision.known);
    }
    CHECK(decide_health(table, {.source = "smoke", .code = 1}, {}).action == HealthAction::kSuspect);
  }
}

TEST_CASE("a code has one row") {
  std::set<std::pair<std::string, std::int64_t>> seen;
  for (const HealthRow& row : health_table(wire::GpuVendor::kNvidia).rows) {
    for (const std::int64_t code : row.codes) CHECK(seen.emplace(row.source, code).second);
  }
}

TEST_CASE("repetition makes more of a signal") {
  CHECK(xid(79, {.same_signal = 1}).action == HealthAction::kRepair);
  CHECK(xid(64, {.same_signal = 1}).action == HealthAction::kRepair);
  CHECK(xid(48, {.remediations = 1}).action == HealthAction::kDrainAndReset);
  CHECK(xid(48, {.remediations = 2}).action == HealthAction::kRepair);
  CHECK(xid(31, {.same_signal = 1}).tell_tenant == false);
  CHECK(xid(31, {.same_signal = 2}).tell_tenant);
  CHECK(xid(31, {.same_signal = 2, .tenants_hit = 3}).action == HealthAction::kSuspect);
}

TEST_CASE("a removed process is no news when we removed it") {
  CHECK(xid(45).action == HealthAction::kSuspect);
  CHECK(xid(45, {.after_our_kill = true}).action == HealthAction::kIgnore);
}

TEST_CASE("the driver's directive is followed, and one that is not known is not ignored") {
  CHECK(xid(154, {}, 0).action == HealthAction::kNote);
  CHECK(xid(154, {}, 1).action == HealthAction::kDrainAndReset);
  CHECK(xid(154, {}, 2).action == HealthAction::kDrainNode);
  CHECK(xid(154, {}, 3).jobs == JobFate::kGangsInterrupted);
  CHECK(xid(154, {}, 4).bill == FaultBill::kCredited);
  CHECK(xid(154, {}, 99).action == HealthAction::kSuspect);
}

TEST_CASE("what is not verified clean is not given out") {
  const auto& table = health_table(wire::GpuVendor::kAny);
  const auto decision = decide_health(table, {.source = "test", .code = wire::kScrubNotVerified}, {});
  CHECK(decision.action == HealthAction::kQuarantine);
  CHECK(decision.jobs == JobFate::kNotStarted);
  const wire::HealthSignal cannot{.source = "test", .code = wire::kTestCannotRun};
  CHECK(decide_health(table, cannot, {}).action == HealthAction::kTestWhenIdle);
  CHECK(decide_health(table, cannot, {.same_signal = 1}).action == HealthAction::kQuarantine);
}

TEST_CASE("a table can be replaced by a file, and a careless one is refused") {
  const HealthTable& built_in = health_table(wire::GpuVendor::kNvidia);
  CHECK(parse_health_table(wire::to_json(built_in)).value() == built_in);
  const auto mine = parse_health_table(R"(
version: mine-7
family: nvidia
rows:
  - {source: xid, codes: [109], action: note, jobs: failed, bill: charged, means: as the device plugin does}
unknown: {action: quarantine, jobs: interrupted, bill: credited}
)");
  REQUIRE(mine);
  const auto decision = decide_health(*mine, {.source = "xid", .code = 109}, {});
  CHECK(decision.action == HealthAction::kNote);
  CHECK(decision.table_version == "mine-7");
  CHECK(decide_health(*mine, {.source = "xid", .code = 48}, {}).action == HealthAction::kQuarantine);
  CHECK(parse_health_table("{version: a, unknown: {action: ignore}}").error().find("never ignored") !=
        std::string::npos);
  CHECK(parse_health_table("{version: a, rows: [{source: xid, codes: [1]}, {source: xid, codes: [2, 1]}]}")
            .error() == "xid 1 has two rows");
  CHECK(parse_health_table("{rows: []}").error() == "a table needs a version");
  CHECK_FALSE(parse_health_table("{version: a, rwos: []}"));
}
