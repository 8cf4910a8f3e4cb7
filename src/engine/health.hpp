// SPDX-License-Identifier: Apache-2.0
#pragma once
// The health of devices: what was seen, what was made of it, who mends it, and when nothing more is taken out
// by itself. The life of a device is policy/device_lifecycle; what signals mean is policy/health_table.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "policy/health_table.hpp"
#include "wire/agent_message.hpp"
#include "wire/api_health.hpp"
#include "wire/codec.hpp"
#include "wire/receipt.hpp"
#include "wire/states.hpp"

namespace tranche::engine {

using wire::DeviceState;
using wire::DeviceTask;
using wire::RepairState;
using wire::TestLevel;

struct SeenSignal {
  Instant at{};
  std::string source{};
  std::int64_t code = 0;
  std::int64_t value = 0;
  std::string text{};
  policy::HealthAction action = policy::HealthAction::kIgnore;
  std::string table_version{};
  std::vector<PartyId> tenants{};  // Who had the device then.
};
BOOST_DESCRIBE_STRUCT(SeenSignal, (), (at, source, code, value, text, action, table_version, tenants))

// What is done with a device once nobody is on it.
enum class WhenIdle : std::uint8_t { kNothing, kTest, kReset, kQuarantine, kRepair };
BOOST_DESCRIBE_ENUM(WhenIdle, kNothing, kTest, kReset, kQuarantine, kRepair)

// What is known of a device's health beside its state; part of the device.
struct DeviceRecord {
  bool tested = false;    // Since it was last out of our hands.
  bool scrubbed = false;  // The same.
  std::uint8_t resets = 0;
  bool probation = false;
  bool dedicated_only = false;
  WhenIdle when_idle = WhenIdle::kNothing;
  std::uint64_t order = 0;  // That the node has not answered yet; zero: none.
  DeviceTask task = DeviceTask::kTest;
  TestLevel level = TestLevel::kQuick;
  std::uint8_t tries = 0;         // Of a test that could not run.
  std::uint64_t test_record = 0;  // Journal record of the last test that it passed.
  std::optional<wire::AcceptanceReceipt> last_test{};
  std::vector<SeenSignal> signals{};    // The newest last; the oldest are forgotten.
  std::vector<Instant> remediations{};  // Within the last week.
  Instant tallied{};                    // Its time is counted until then.
  LeaseId left_by{};                    // Of the whole device: it ended, and what it left was not wiped yet.
  PartyId kept_for{};       // Its tenant, whose next job may have the device as it is; nobody else may.
  Instant watched_since{};  // When probation began; hand-overs in between do not begin it anew.
  std::vector<LeaseId>
      owed{};  // Of one tenant: ended, given back, and not wiped yet. Nobody else's until then.
  std::uint64_t quick_record = 0;  // Journal record of the last test between two leases that it passed.
};
BOOST_DESCRIBE_STRUCT(DeviceRecord,
                      (),
                      (tested,
                       scrubbed,
                       resets,
                       probation,
                       dedicated_only,
                       when_idle,
                       order,
                       task,
                       level,
                       tries,
                       test_record,
                       last_test,
                       signals,
                       remediations,
                       tallied,
                       left_by,
                       kept_for,
                       watched_since,
                       owed,
                       quick_record))

struct DeviceOrdered {  // The node is told; its answer comes as receipts.
  DeviceId device{};
  std::uint64_t order = 0;
  DeviceTask task = DeviceTask::kTest;
  TestLevel level = TestLevel::kQuick;
  std::uint8_t tries = 0;
  LeaseId lease{};  // Of a wipe: whose leftovers.
};
BOOST_DESCRIBE_STRUCT(DeviceOrdered, (), (device, order, task, level, tries, lease))

// A lease of whole devices ended. From now on their state keeps others away until they are wiped; unless the
// same tenant waits for them.
struct DevicesLeft {
  LeaseId lease{};
  PartyId tenant{};
  bool kept = false;
};
BOOST_DESCRIBE_STRUCT(DevicesLeft, (), (lease, tenant, kept))

struct DeviceMarked {  // What waits for the device to be free, and what it may be used for meanwhile.
  DeviceId device{};
  WhenIdle when_idle = WhenIdle::kNothing;
  bool dedicated_only = false;
  bool departed = false;  // It was taken out by itself: counts for the breaker, and as a remediation.
};
BOOST_DESCRIBE_STRUCT(DeviceMarked, (), (device, when_idle, dedicated_only, departed))

struct Repair {
  std::uint64_t id = 0;
  DeviceId device{};
  RepairState state = RepairState::kOpen;
  Instant opened{};
  Instant closed{};
  std::string reason{};
  std::string ticket{};
  Instant expected{};
  std::string note{};
};
BOOST_DESCRIBE_STRUCT(Repair, (), (id, device, state, opened, closed, reason, ticket, expected, note))

[[nodiscard]] bool is_closed(RepairState state);

struct RepairOpened {
  std::uint64_t id = 0;
  DeviceId device{};
  std::string reason{};
};
BOOST_DESCRIBE_STRUCT(RepairOpened, (), (id, device, reason))

struct OpenRepair {  // Somebody takes a device out of service by hand: its jobs are moved first.
  DeviceId device{};
  std::string reason{};
};
struct ChangeRepair {
  std::uint64_t id = 0;
  RepairState to = RepairState::kAccepted;
  std::string ticket{};
  Instant expected{};
  std::string note{};
};
struct RepairChanged {
  std::uint64_t id = 0;
  RepairState before = RepairState::kOpen;
  RepairState after = RepairState::kOpen;
  std::string ticket{};
  Instant expected{};
  std::string note{};
};
BOOST_DESCRIBE_STRUCT(RepairChanged, (), (id, before, after, ticket, expected, note))

struct TestNode {
  NodeId node{};
  TestLevel level = TestLevel::kQuick;
};

// Which tests are asked for when, how long things are watched, and when the breaker opens.
struct HealthPolicy {
  TestLevel acceptance = TestLevel::kFull;
  TestLevel validation = TestLevel::kStandard;  // After a reset, a suspicion or maintenance.
  TestLevel repaired = TestLevel::kFull;
  TestLevel rejoined = TestLevel::kQuick;  // After it was lost.
  // Below a floor, and nothing wrong: on probation until a test finds it well. False: healthy, with the
  // finding shown.
  bool probation_on_warning = true;
  Duration suspect_for = std::chrono::hours(24);
  Duration probation_for = std::chrono::hours(72);
  std::uint32_t breaker_percent = 10;  // Of the nodes, within the window; never fewer than `breaker_nodes`.
  std::uint32_t breaker_nodes = 3;
  Duration breaker_window = std::chrono::minutes(10);
  std::vector<policy::HealthTable> tables{};  // Instead of the built-in one of the same family.
};
BOOST_DESCRIBE_STRUCT(HealthPolicy,
                      (),
                      (acceptance,
                       validation,
                       repaired,
                       rejoined,
                       suspect_for,
                       probation_for,
                       breaker_percent,
                       breaker_nodes,
                       breaker_window,
                       tables,
                       probation_on_warning))
[[nodiscard]] Result<HealthPolicy, wire::Problem> parse_health_policy(std::string_view text);
struct SetHealthPolicy {
  HealthPolicy policy{};
};
struct HealthPolicySet {
  HealthPolicy before{};
  HealthPolicy after{};
};
BOOST_DESCRIBE_STRUCT(HealthPolicySet, (), (before, after))

struct SetBreaker {
  bool open = false;
};
struct BreakerChanged {
  bool open = false;
  std::uint32_t nodes = 0;  // That had left when it opened.
  std::string reason{};
};
BOOST_DESCRIBE_STRUCT(BreakerChanged, (), (open, nodes, reason))

struct Departure {  // A device was taken out of service by itself.
  Instant at{};
  NodeId node{};
};
BOOST_DESCRIBE_STRUCT(Departure, (), (at, node))

struct Health {
  HealthPolicy policy{};
  std::uint64_t next_repair = 1, next_order = 1;
  bool breaker_open = false;
  Instant breaker_since{};
  std::vector<Departure> departures{};  // Within the breaker's window.
};
BOOST_DESCRIBE_STRUCT(Health, (), (policy, next_repair, next_order, breaker_open, breaker_since, departures))

}  // namespace tranche::engine
