// SPDX-License-Identifier: Apache-2.0
#pragma once
// Proof that is kept of a hand-over: memory wiped, device tested, limits held. Auditors check it against the
// journal.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/states.hpp"

namespace tranche::wire {

struct ScrubReceipt {
  DeviceId device{};
  LeaseId lease{};   // Whose leftovers were removed.
  PartyId tenant{};  // Of that lease.
  Instant at{};
  Duration took{};
  Bytes zeroed{};
  Bytes verified{};
  std::int64_t nonzero_bytes = 0;  // Found by the read-back; anything but zero is a failed scrub.
  std::uint32_t processes_ended = 0;
  bool partition_rebuilt = false;
  bool scratch_wiped = false;
  std::string method{};
  bool deferred =
      false;  // Its tenant uses the device alone: wiped before anybody else does, told again then.
  bool operator==(const ScrubReceipt&) const = default;
};
BOOST_DESCRIBE_STRUCT(ScrubReceipt,
                      (),
                      (device,
                       lease,
                       tenant,
                       at,
                       took,
                       zeroed,
                       verified,
                       nonzero_bytes,
                       processes_ended,
                       partition_rebuilt,
                       scratch_wiped,
                       method,
                       deferred))
constexpr bool is_clean(const ScrubReceipt& receipt) {
  return receipt.nonzero_bytes == 0 && receipt.verified.count > 0 && receipt.verified == receipt.zeroed;
}

enum class TestLevel : std::uint8_t { kQuick, kStandard, kFull };
BOOST_DESCRIBE_ENUM(TestLevel, kQuick, kStandard, kFull)

struct TestOutcome {
  std::string name{};
  Verdict verdict = Verdict::kUnknown;
  std::int64_t measured = 0;
  std::int64_t floor = 0;  // The least that passes; zero: none.
  std::string unit{};
  std::string detail{};
  bool operator==(const TestOutcome&) const = default;
};
BOOST_DESCRIBE_STRUCT(TestOutcome, (), (name, verdict, measured, floor, unit, detail))

struct AcceptanceReceipt {
  DeviceId device{};
  TestLevel level = TestLevel::kQuick;
  Verdict verdict = Verdict::kUnknown;
  Instant at{};
  Duration took{};
  std::string table_version{};  // Of the floors and signals that were applied.
  std::vector<TestOutcome> tests{};
  LeaseId lease{};  // After which it was tested, for whoever comes next; empty: for another reason.
  bool operator==(const AcceptanceReceipt&) const = default;
};
BOOST_DESCRIBE_STRUCT(AcceptanceReceipt, (), (device, level, verdict, at, took, table_version, tests, lease))

struct LimitReceipt {
  LeaseId lease{};
  DeviceId device{};
  Instant from{};
  Instant to{};
  Bytes vram_limit{};
  Bytes vram_peak{};
  std::uint16_t compute_limit_milli = 0;
  std::uint16_t compute_used_milli = 0;
  std::uint64_t vram_refusals = 0;  // How often the limit said no.
  Duration throttled{};
  bool operator==(const LimitReceipt&) const = default;
};
BOOST_DESCRIBE_STRUCT(LimitReceipt,
                      (),
                      (lease,
                       device,
                       from,
                       to,
                       vram_limit,
                       vram_peak,
                       compute_limit_milli,
                       compute_used_milli,
                       vram_refusals,
                       throttled))

// What a job used of one device: as it was counted, and as the device itself reports it.
struct DeviceUse {
  DeviceId device{};
  Bytes vram_granted{};
  Bytes vram_counted{};   // The most at once.
  Bytes vram_reported{};  // The same, as the device says. Zero where it does not tell processes apart.
  Duration time_counted{};
  Duration time_reported{};
  bool operator==(const DeviceUse&) const = default;
};
BOOST_DESCRIBE_STRUCT(DeviceUse,
                      (),
                      (device, vram_granted, vram_counted, vram_reported, time_counted, time_reported))

// What a job did on its node, as the node's kernel counted it: for its tenant and its auditor.
struct BehaviourRecord {
  LeaseId lease{};
  std::uint64_t processes_most = 0;     // At once, as seen once a second and at the end.
  std::uint64_t processes_started = 0;  // At least so many, threads included.
  std::uint64_t processes_refused = 0;  // The limit said no so often.
  std::uint32_t processes_ended = 0;    // Left over when the job itself had ended.
  Bytes memory_most{};
  std::uint64_t memory_kills = 0;
  Duration cpu_used{};
  Duration cpu_throttled{};
  Bytes output{};              // Written to stdout and stderr.
  Bytes output_dropped{};      // Past the quota.
  std::uint32_t sessions = 0;  // Commands that people ran beside it.
  bool network = false;        // It could reach the node's network.
  std::vector<std::string> limits_hit{};
  std::vector<std::string> peers{};  // "tcp 203.0.113.7:443": the first so many it spoke to.
  std::uint64_t peers_more = 0;      // Not listed.
  std::vector<std::string> files{};  // Outside of its own places: the first so many it opened.
  std::uint64_t files_more = 0;      // Not listed.
  bool files_watched = false;        // False: this node cannot tell, and an empty list says nothing.
  std::vector<DeviceUse> devices{};
  std::vector<std::string> findings{};  // Where its use of a device and its account differed.
  bool operator==(const BehaviourRecord&) const = default;
};
BOOST_DESCRIBE_STRUCT(BehaviourRecord,
                      (),
                      (lease,
                       processes_most,
                       processes_started,
                       processes_refused,
                       processes_ended,
                       memory_most,
                       memory_kills,
                       cpu_used,
                       cpu_throttled,
                       output,
                       output_dropped,
                       sessions,
                       network,
                       limits_hit,
                       peers,
                       peers_more,
                       files,
                       files_more,
                       files_watched,
                       devices,
                       findings))

}  // namespace tranche::wire
