// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says of the health of devices, of repairs, and of the proofs behind a job's leases.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/receipt.hpp"
#include "wire/states.hpp"

namespace tranche::wire {

struct SignalView {  // One piece of evidence.
  Instant at{};
  std::string source{};
  std::int64_t code = 0;
  std::int64_t value = 0;
  std::string text{};
  std::string action{};  // What the table made of it.
  std::string table_version{};
};
BOOST_DESCRIBE_STRUCT(SignalView, (), (at, source, code, value, text, action, table_version))

struct DeviceHealth {
  DeviceId device{};
  std::string node{};
  std::string model{};
  bool simulated = false;
  DeviceState state = DeviceState::kNew;
  Instant since{};
  std::string reason{};
  std::string health{};  // In a tenant's words.
  std::uint32_t leases = 0;
  std::uint32_t resets = 0;
  std::uint32_t remediations = 0;  // Within seven days.
  std::optional<AcceptanceReceipt> last_test{};
  std::vector<SignalView> signals{};  // Newest last.
};
BOOST_DESCRIBE_STRUCT(DeviceHealth,
                      (),
                      (device,
                       node,
                       model,
                       simulated,
                       state,
                       since,
                       reason,
                       health,
                       leases,
                       resets,
                       remediations,
                       last_test,
                       signals))

struct HealthBoard {
  std::map<std::string, std::int64_t> states{};  // How many devices are in each.
  bool breaker_open = false;                     // Too much left at once: nothing more is drained by itself.
  Instant breaker_since{};
  std::uint32_t left_lately = 0;  // Devices that were taken out within the breaker's window.
  std::string table_version{};
  std::vector<DeviceHealth> items{};
  TestLevel acceptance = TestLevel::kFull;  // Of new devices, by the policy in force.
};
BOOST_DESCRIBE_STRUCT(HealthBoard,
                      (),
                      (states, breaker_open, breaker_since, left_lately, table_version, items, acceptance))

enum class RepairState : std::uint8_t { kOpen, kAccepted, kDismissed, kReturned, kRetired };
BOOST_DESCRIBE_ENUM(RepairState, kOpen, kAccepted, kDismissed, kReturned, kRetired)

struct RepairView {
  std::string id{};  // rep_…
  DeviceId device{};
  std::string node{};
  std::string model{};
  RepairState state = RepairState::kOpen;
  DeviceState device_state = DeviceState::kQuarantined;
  Instant opened{};
  std::optional<Instant> closed{};
  std::string reason{};
  std::string ticket{};
  std::optional<Instant> expected{};  // When it should be back.
  std::string note{};
  std::vector<SignalView> evidence{};
};
BOOST_DESCRIBE_STRUCT(
    RepairView,
    (),
    (id, device, node, model, state, device_state, opened, closed, reason, ticket, expected, note, evidence))

struct RepairList {
  std::vector<RepairView> items{};
};
BOOST_DESCRIBE_STRUCT(RepairList, (), (items))

struct RepairOpen {
  DeviceId device{};
  std::string reason{};
};
BOOST_DESCRIBE_STRUCT(RepairOpen, (), (device, reason))

struct RepairChange {
  std::string ticket{};
  std::string note{};
  std::optional<Instant> expected{};
};
BOOST_DESCRIBE_STRUCT(RepairChange, (), (ticket, note, expected))

struct NodeTest {  // The wish, and with `ordered` and `skipped` the answer.
  TestLevel level = TestLevel::kQuick;
  std::vector<DeviceId> ordered{};
  std::vector<std::string> skipped{};  // Device and why, in a sentence.
};
BOOST_DESCRIBE_STRUCT(NodeTest, (), (level, ordered, skipped))

struct BreakerChange {
  bool open = false;
};
BOOST_DESCRIBE_STRUCT(BreakerChange, (), (open))

struct JournalProof {  // Where a receipt stands in the journal.
  std::uint64_t sequence = 0;
  Instant at{};
  std::string record_hash{};  // SHA-256 of the record's bytes; the chain is checked by audit verify.
  bool found = false;         // The record was read back, and holds this very receipt.
};
BOOST_DESCRIBE_STRUCT(JournalProof, (), (sequence, at, record_hash, found))

struct ProvenScrub {
  ScrubReceipt receipt{};
  bool clean = false;
  JournalProof proof{};
};
BOOST_DESCRIBE_STRUCT(ProvenScrub, (), (receipt, clean, proof))
struct ProvenTest {
  AcceptanceReceipt receipt{};
  JournalProof proof{};
};
BOOST_DESCRIBE_STRUCT(ProvenTest, (), (receipt, proof))
struct ProvenLimit {
  LimitReceipt receipt{};
  JournalProof proof{};
};
BOOST_DESCRIBE_STRUCT(ProvenLimit, (), (receipt, proof))

struct LeaseReceipts {
  LeaseId lease{};
  std::uint32_t attempt = 1;
  std::string node{};
  bool simulated = false;
  std::vector<ProvenTest> acceptances{};  // That its devices had passed when it was granted.
  std::vector<ProvenScrub> scrubs{};      // Before it, and of what it left.
  std::vector<ProvenLimit> limits{};
  std::string hand_over{};  // In words, when no wipe was due at its end.
};
BOOST_DESCRIBE_STRUCT(LeaseReceipts,
                      (),
                      (lease, attempt, node, simulated, acceptances, scrubs, limits, hand_over))

struct ReceiptBook {
  JobId job{};
  std::vector<LeaseReceipts> leases{};
  bool verified = false;  // Every receipt was found in the journal.
};
BOOST_DESCRIBE_STRUCT(ReceiptBook, (), (job, leases, verified))

}  // namespace tranche::wire
