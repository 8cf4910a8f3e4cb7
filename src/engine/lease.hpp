// SPDX-License-Identifier: Apache-2.0
#pragma once
// Leases: a job's right to slices of a node's devices, handed to that node's agent. At most one of a job's
// attempt and rank is ever live.
#include <algorithm>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "policy/health_table.hpp"
#include "wire/agent_message.hpp"
#include "wire/ask.hpp"
#include "wire/boxed.hpp"
#include "wire/states.hpp"

namespace tranche::engine {

using wire::EndReason;
using wire::Isolation;
using wire::LeaseState;
using wire::RevokeWay;

struct Slice {
  DeviceId device{};
  std::uint16_t milli = 0;
  std::int64_t vram = 0;
  std::uint8_t start = 0;  // Of a hardware partition.
};
BOOST_DESCRIBE_STRUCT(Slice, (), (device, milli, vram, start))

// New limits that the agent was told and has not answered yet.
struct SliceChange {
  std::uint16_t milli = 0;
  std::int64_t vram = 0;
  Duration grace{};
};
BOOST_DESCRIBE_STRUCT(SliceChange, (), (milli, vram, grace))

// A lease that was taken off its devices and goes on there later: its job lives, and holds none of its
// slices.
enum class Parking : std::uint8_t { kNone, kAsked, kParked, kReturning };
BOOST_DESCRIBE_ENUM(Parking, kNone, kAsked, kParked, kReturning)

// What the meters of a lease have summed up to.
struct LeaseUse {
  std::uint64_t sequence = 0;  // Of the last record counted.
  Instant until{};
  std::int64_t device_nanoseconds = 0;
  std::int64_t vram_byte_seconds = 0;
  std::int64_t energy_millijoules = 0;
  std::int64_t copied_bytes = 0;
  std::int64_t network_bytes = 0;
  Instant busy_until{};  // It last used a device.
};
BOOST_DESCRIBE_STRUCT(LeaseUse,
                      (),
                      (sequence,
                       until,
                       device_nanoseconds,
                       vram_byte_seconds,
                       energy_millijoules,
                       copied_bytes,
                       network_bytes,
                       busy_until))

struct Lease {
  LeaseId id{};
  JobId job{};
  std::uint32_t attempt = 1;
  std::uint32_t rank = 0;
  NodeId node{};
  std::uint64_t epoch = 0;  // Higher than that of any lease granted before.
  PartyId owner{};
  PartyId tenant{};
  LeaseState state = LeaseState::kGranted;
  Isolation isolation = Isolation::kSoft;
  std::uint32_t trust_group = 0;  // Whom it shares a device with; see capacity.hpp.
  std::vector<Slice> slices{};
  bool scrubbed = false;  // The wipe after its end was proven; until then its slices stay taken.
  bool revoked = false;
  EndReason revoke_reason = EndReason::kNone;
  JobId promised_to{};  // Who waits for what its end will free.
  Instant granted{};
  Instant started{};
  Instant ended{};
  EndReason reason = EndReason::kNone;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
  Instant checkpoint{};
  LeaseUse use{};
  ClaimId booking{};                               // In whose window it runs; zero: none.
  Instant fault{};                                 // Since when the platform failed it; charged no further.
  std::vector<std::uint64_t> tested{};             // Records of the tests that its devices had passed.
  std::vector<std::uint64_t> receipts{};           // Records with its own receipts.
  wire::Boxed<wire::BehaviourRecord> behaviour{};  // Once it has ended.
  bool left = false;         // It had whole devices: their own state keeps others away now.
  bool kept = false;         // They went on to the same tenant as they were.
  Instant weighed_to{};      // Until then it counts for fair share by the units it did,
  std::int64_t weighed = 0;  // so many thousandths of a device times seconds; since then by its time.
  wire::Boxed<SliceChange> change{};
  Instant changed{};   // When its slices last became smaller or larger.
  bool stiff = false;  // It did not give back what it was asked for: it is not asked again.
  Parking parking = Parking::kNone;
  Instant parked{};       // Since when it is off its devices, asked to be, or back on them.
  Duration parked_for{};  // In all, before that.
  NodeId goes_to{};       // Where its job was found another place when it was asked to leave.

  [[nodiscard]] bool live() const { return !wire::is_over(state); }
  // Whether its slices are still its own: while it lives and is on them, and after that until they are clean.
  [[nodiscard]] bool holds_slices() const {
    if (parking == Parking::kParked) return false;
    return live() || (!scrubbed && !left && !slices.empty());
  }
  [[nodiscard]] Instant by_time_from() const { return std::max(granted, weighed_to); }
  [[nodiscard]] std::int64_t gpu_milli() const {
    std::int64_t sum = 0;
    for (const Slice& slice : slices) sum += slice.milli;
    return sum;
  }
};
BOOST_DESCRIBE_STRUCT(Lease,
                      (),
                      (id,
                       job,
                       attempt,
                       rank,
                       node,
                       epoch,
                       owner,
                       tenant,
                       state,
                       isolation,
                       trust_group,
                       slices,
                       scrubbed,
                       revoked,
                       revoke_reason,
                       promised_to,
                       granted,
                       started,
                       ended,
                       reason,
                       exit_code,
                       exit_signal,
                       message,
                       checkpoint,
                       use,
                       booking,
                       fault,
                       tested,
                       receipts,
                       behaviour,
                       left,
                       kept,
                       weighed_to,
                       weighed,
                       change,
                       changed,
                       stiff,
                       parking,
                       parked,
                       parked_for,
                       goes_to))

struct LeaseGranted {
  LeaseId id{};
  JobId job{};
  std::uint32_t attempt = 1;
  std::uint32_t rank = 0;
  NodeId node{};
  std::uint64_t epoch = 0;
  PartyId owner{};
  PartyId tenant{};
  Isolation isolation = Isolation::kSoft;
  std::uint32_t trust_group = 0;
  std::vector<Slice> slices{};
  std::string why{};  // The reason of the place, for people.
  ClaimId booking{};
};
BOOST_DESCRIBE_STRUCT(
    LeaseGranted,
    (),
    (id, job, attempt, rank, node, epoch, owner, tenant, isolation, trust_group, slices, why, booking))

struct LeaseRevoked {  // The agent is told; the lease ends when it reports so.
  LeaseId id{};
  RevokeWay way = RevokeWay::kCheckpoint;
  EndReason reason = EndReason::kStopped;
  Duration grace{};
  std::string message{};
  JobId promised_to{};
  PartyId owner{};
  Instant fault{};  // Of the platform: not charged from then on.
  NodeId goes_to{};
};
BOOST_DESCRIBE_STRUCT(LeaseRevoked, (), (id, way, reason, grace, message, promised_to, owner, fault, goes_to))

struct ReportLease {
  NodeId node{};
  std::uint64_t sequence = 0;  // Of the link; zero: the server's own finding.
  wire::LeaseReport report{};
};
struct LeaseReported {
  NodeId node{};
  std::uint64_t sequence = 0;
  wire::LeaseReport report{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(LeaseReported, (), (node, sequence, report, owner))

struct ReportMeters {
  NodeId node{};
  std::uint64_t sequence = 0;
  std::vector<wire::MeterRecord> records{};
};
struct UsageMetered {
  NodeId node{};
  std::uint64_t sequence = 0;
  std::vector<wire::MeterRecord> records{};
};
BOOST_DESCRIBE_STRUCT(UsageMetered, (), (node, sequence, records))

struct KeepReceipts {
  NodeId node{};
  std::uint64_t sequence = 0;
  wire::Receipts receipts{};
};
struct ReceiptsKept {
  NodeId node{};
  std::uint64_t sequence = 0;
  wire::Receipts receipts{};
};
BOOST_DESCRIBE_STRUCT(ReceiptsKept, (), (node, sequence, receipts))

struct NoteHealth {
  NodeId node{};
  std::uint64_t sequence = 0;
  wire::HealthSignal signal{};
};
struct HealthSignalled {
  NodeId node{};
  std::uint64_t sequence = 0;
  DeviceId device{};  // Zero: the node.
  wire::HealthSignal signal{};
  policy::HealthAction action = policy::HealthAction::kIgnore;
  std::string table_version{};
  bool tell_tenant = false;        // The same job again and again: it is their code.
  std::vector<PartyId> tenants{};  // Who had the device then.
};
BOOST_DESCRIBE_STRUCT(HealthSignalled,
                      (),
                      (node, sequence, device, signal, action, table_version, tell_tenant, tenants))

// The agent is told new limits of every slice of the lease. More is taken at once, less is given when the
// agent says that it holds.
struct SliceChangeAsked {
  LeaseId id{};
  PartyId owner{};
  std::uint16_t milli = 0;
  std::int64_t vram = 0;
  Duration grace{};
  JobId promised_to{};
  std::string message{};
};
BOOST_DESCRIBE_STRUCT(SliceChangeAsked, (), (id, owner, milli, vram, grace, promised_to, message))

struct SliceChanged {  // The limits in force from now on: the new ones, or what was before.
  LeaseId id{};
  PartyId owner{};
  std::uint16_t milli = 0;
  std::int64_t vram = 0;
  bool declined = false;
  Instant at{};
};
BOOST_DESCRIBE_STRUCT(SliceChanged, (), (id, owner, milli, vram, declined, at))

struct LeaseParkAsked {  // To go off its devices, for somebody.
  LeaseId id{};
  PartyId owner{};
  Duration grace{};
  JobId promised_to{};
  std::string message{};
};
BOOST_DESCRIBE_STRUCT(LeaseParkAsked, (), (id, owner, grace, promised_to, message))

struct LeaseReturned {  // Its slices are its own again; the agent is told to go on.
  LeaseId id{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(LeaseReturned, (), (id, owner))

struct JobRequeued {  // Goes back to waiting, after a preemption or a fault that was not its own.
  JobId id{};
  EndReason reason = EndReason::kNone;
  Instant not_before{};
  std::string message{};
  PartyId owner{};
  bool progressed = false;  // Since it last failed: faults of before say nothing of it any more.
};
BOOST_DESCRIBE_STRUCT(JobRequeued, (), (id, reason, not_before, message, owner, progressed))

struct JobStopRequested {
  JobId id{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(JobStopRequested, (), (id, owner))

struct Schedule {};  // Somebody waits and something changed.

}  // namespace tranche::engine
