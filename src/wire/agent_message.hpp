// SPDX-License-Identifier: Apache-2.0
#pragma once
// What agents and the server say to each other. Every message travels in a frame with the protocol's version
// and a sequence, so that a link can break anywhere and go on without loss or repetition.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "wire/checkpoint_message.hpp"
#include "wire/device_order.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/isolation.hpp"
#include "wire/job_spec.hpp"
#include "wire/meter.hpp"
#include "wire/node_features.hpp"
#include "wire/progress.hpp"
#include "wire/receipt.hpp"
#include "wire/states.hpp"
#include "wire/text_map.hpp"
#include "wire/volume.hpp"

namespace tranche::wire {

// An agent and a server that share a version in their ranges can talk; others part with a clear word.
constexpr std::uint16_t kAgentProtocolMin = 1;
constexpr std::uint16_t kAgentProtocolMax = 1;

// Numbers are never reused.
enum class AgentMessageKind : std::uint8_t {
  kHello = 1,
  kWelcome = 2,
  kParting = 3,
  kHeartbeat = 4,
  kLeaseGrant = 5,
  kLeaseRenewal = 6,
  kLeaseRevoke = 7,
  kLeaseReport = 8,
  kMeterReport = 9,
  kHealthSignal = 10,
  kLogChunk = 11,
  kReceipts = 12,
  kHeartbeatAnswer = 13,
  kLogAck = 14,
  kCertificateWish = 15,
  kCertificate = 16,
  kSessionOpen = 17,
  kSessionData = 18,
  kSessionEnd = 19,
  kVolumeOrder = 20,
  kVolumeReceipt = 21,
  kDeviceOrder = 24,
  kProgressReport = 30,
  kCheckpointWish = 31,
  kSavedJobs = 32,
  kSavedInVain = 33,
};
BOOST_DESCRIBE_ENUM(AgentMessageKind,
                    kHello,
                    kWelcome,
                    kParting,
                    kHeartbeat,
                    kLeaseGrant,
                    kLeaseRenewal,
                    kLeaseRevoke,
                    kLeaseReport,
                    kMeterReport,
                    kHealthSignal,
                    kLogChunk,
                    kReceipts,
                    kHeartbeatAnswer,
                    kLogAck,
                    kCertificateWish,
                    kCertificate,
                    kSessionOpen,
                    kSessionData,
                    kSessionEnd,
                    kVolumeOrder,
                    kVolumeReceipt,
                    kDeviceOrder,
                    kProgressReport,
                    kCheckpointWish,
                    kSavedJobs,
                    kSavedInVain)

struct AgentFrame {
  std::uint16_t version = kAgentProtocolMax;
  std::uint64_t sequence = 0;  // Of the sender, from 1; zero: not to be repeated after a break (heartbeats).
  std::uint64_t acknowledged = 0;  // The highest sequence the sender has taken in for good.
  AgentMessageKind kind = AgentMessageKind::kHello;
  std::string body{};  // The message as a record.
  bool operator==(const AgentFrame&) const = default;
};
BOOST_DESCRIBE_STRUCT(AgentFrame, (), (version, sequence, acknowledged, kind, body))

struct ProfileFacts {
  std::string name{};
  std::uint8_t compute_slices = 0;
  std::uint8_t memory_slices = 0;
  std::uint8_t starts = 0;  // Bit n: may start at memory slice n.
  std::uint8_t count_max = 0;
  Bytes memory{};
  bool operator==(const ProfileFacts&) const = default;
};
BOOST_DESCRIBE_STRUCT(ProfileFacts, (), (name, compute_slices, memory_slices, starts, count_max, memory))

// A device as it describes itself.
struct DeviceFacts {
  std::string uuid{};
  GpuVendor vendor = GpuVendor::kAny;
  std::string model{};  // Short name of the catalogue where it is known.
  std::string name{};   // As the driver calls it.
  Bytes vram{};
  std::int32_t multiprocessors = 0;
  std::string pci_address{};
  std::string driver_version{};
  std::int32_t numa_node = -1;
  DeviceMode mode = DeviceMode::kWhole;
  std::vector<ProfileFacts> profiles{};  // Empty: it cannot be partitioned.
  bool soft_capable = false;             // The guard covers its API.
  bool simulated = false;
  std::string near_cpus{};  // "0-15,32-47": the processors closest to it; empty: unknown.
  std::string
      behind{};  // The PCI bridge that it shares with its nearest neighbours; empty: none, or unknown.
  bool operator==(const DeviceFacts&) const = default;
};
BOOST_DESCRIBE_STRUCT(DeviceFacts,
                      (),
                      (uuid,
                       vendor,
                       model,
                       name,
                       vram,
                       multiprocessors,
                       pci_address,
                       driver_version,
                       numa_node,
                       mode,
                       profiles,
                       soft_capable,
                       simulated,
                       near_cpus,
                       behind))

struct RunningLease {
  LeaseId lease{};
  std::uint64_t epoch = 0;
  LeaseState state = LeaseState::kRunning;
  bool operator==(const RunningLease&) const = default;
};
BOOST_DESCRIBE_STRUCT(RunningLease, (), (lease, epoch, state))

struct Hello {
  std::uint16_t version_min = kAgentProtocolMin;
  std::uint16_t version_max = kAgentProtocolMax;
  std::string software{};
  std::string node{};
  std::string boot_id{};       // Another one: nothing that ran before is running.
  std::uint64_t received = 0;  // Highest sequence of the server that was taken in for good.
  std::uint32_t cpus = 0;
  Bytes memory{};
  Bytes disk{};
  TextMap labels{};
  std::vector<DeviceFacts> devices{};
  std::vector<RunningLease> running{};
  bool simulated = false;
  NodeFeatures features{};
  bool operator==(const Hello&) const = default;
};
BOOST_DESCRIBE_STRUCT(Hello,
                      (),
                      (version_min,
                       version_max,
                       software,
                       node,
                       boot_id,
                       received,
                       cpus,
                       memory,
                       disk,
                       labels,
                       devices,
                       running,
                       simulated,
                       features))

struct Welcome {
  std::uint16_t version = kAgentProtocolMax;
  NodeId node{};
  std::uint64_t epoch = 0;     // Of the server's leadership: messages of an older one are refused.
  std::uint64_t received = 0;  // Highest sequence of the agent that was taken in for good.
  Duration heartbeat = std::chrono::seconds(5);
  Duration lease = std::chrono::seconds(30);
  Instant server_time{};
  bool operator==(const Welcome&) const = default;
};
BOOST_DESCRIBE_STRUCT(Welcome, (), (version, node, epoch, received, heartbeat, lease, server_time))

// The last message on a link: why the sender ends it.
struct Parting {
  std::string reason{};  // version, identity, replaced, shutdown
  std::string message{};
  bool operator==(const Parting&) const = default;
};
BOOST_DESCRIBE_STRUCT(Parting, (), (reason, message))

// Readings of a sample that a device may not give: what stands there is no reading then.
enum : std::uint8_t {
  kNoBusy = 1,
  kNoMemory = 2,
  kNoPower = 4,
  kNoTemperature = 8,
  kNoClock = 16,
  kNoErrors = 32,
};

struct DeviceSample {
  std::string uuid{};
  std::uint16_t busy_milli = 0;
  Bytes vram_used{};
  std::int32_t power_milliwatts = 0;
  std::int32_t temperature_celsius = 0;
  std::int32_t sm_clock_megahertz = 0;
  std::uint64_t ecc_uncorrected = 0;
  // Absent where the device or its driver does not measure it.
  std::optional<std::uint64_t> ecc_corrected{};
  std::optional<std::uint16_t> memory_busy_milli{};    // Of the time, memory was being read or written.
  std::optional<std::uint16_t> sm_active_milli{};      // Of all multiprocessors, those with work.
  std::optional<std::uint16_t> dram_active_milli{};    // Of the memory's throughput, what was used.
  std::optional<std::uint64_t> energy_millijoules{};   // Since the driver was loaded.
  std::optional<std::uint16_t> tensor_active_milli{};  // Of the time, tensor cores were at work.
  std::uint8_t missing = 0;                            // kNoBusy and the like.
  bool operator==(const DeviceSample&) const = default;
};
BOOST_DESCRIBE_STRUCT(DeviceSample,
                      (),
                      (uuid,
                       busy_milli,
                       vram_used,
                       power_milliwatts,
                       temperature_celsius,
                       sm_clock_megahertz,
                       ecc_uncorrected,
                       ecc_corrected,
                       memory_busy_milli,
                       sm_active_milli,
                       dram_active_milli,
                       energy_millijoules,
                       tensor_active_milli,
                       missing))

// What the guard counts of one slice, since its lease began.
struct SliceSample {
  LeaseId lease{};
  DeviceId device{};
  std::uint64_t device_nanoseconds = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t vram_refusals = 0;
  std::uint64_t throttled_nanoseconds = 0;
  Bytes vram_used{};
  bool operator==(const SliceSample&) const = default;
};
BOOST_DESCRIBE_STRUCT(
    SliceSample,
    (),
    (lease, device, device_nanoseconds, copied_bytes, vram_refusals, throttled_nanoseconds, vram_used))

struct Heartbeat {
  Instant at{};
  std::uint32_t leases = 0;
  std::uint16_t cpu_milli = 0;  // Busy share of all CPUs.
  Bytes memory_used{};
  std::vector<DeviceSample> devices{};
  std::vector<SliceSample> slices{};
  bool operator==(const Heartbeat&) const = default;
};
BOOST_DESCRIBE_STRUCT(Heartbeat, (), (at, leases, cpu_milli, memory_used, devices, slices))

// Renews every lease of the node that was granted before it on this link and not revoked since. The agent
// counts from when it sent the heartbeat, the server from when it answered: the agent always ends first.
struct HeartbeatAnswer {
  Instant heartbeat_at{};  // The `at` of the heartbeat answered.
  Duration lease{};
  bool operator==(const HeartbeatAnswer&) const = default;
};
BOOST_DESCRIBE_STRUCT(HeartbeatAnswer, (), (heartbeat_at, lease))

struct SliceGrant {
  DeviceId device{};
  std::string uuid{};
  Isolation isolation = Isolation::kDedicated;
  Bytes vram{};
  std::uint16_t milli = 1000;
  std::string profile{};   // Of a hardware partition.
  std::uint8_t start = 0;  // Its memory slice.
  bool operator==(const SliceGrant&) const = default;
};
BOOST_DESCRIBE_STRUCT(SliceGrant, (), (device, uuid, isolation, vram, milli, profile, start))

struct LeaseGrant {
  LeaseId lease{};
  std::uint64_t epoch = 0;
  JobId job{};
  std::uint32_t attempt = 1;
  PartyId owner{};
  PartyId tenant{};
  Duration expires_in{};  // From receipt, on the agent's monotonic clock.
  std::vector<SliceGrant> slices{};
  JobSpec spec{};
  std::uint32_t rank = 0;
  std::vector<std::string> peers{};  // Addresses of the gang, by rank.
  std::string scrubbed_for{};        // Receipt that made the slices clean for this tenant.
  bool must_scrub = true;            // Wipe the slices when it ends, and send the receipt.
  std::vector<VolumeGrant> volumes{};
  UnitSet units{};  // Of a chunk: the frames still to do, one run of the command each.
  // For the node alone, and never written down there: the key of the tenant's volumes, and that of what
  // members of this attempt of a gang say to each other.
  std::string volume_key{};
  std::string gang_key{};
  std::vector<LeaseId> members{};  // Of the gang, by rank.
  // What the last attempt saved, on the nodes that it ran on: by rank, the first rank's counts most.
  std::vector<CheckpointSource> resume{};
  bool operator==(const LeaseGrant&) const = default;
};
BOOST_DESCRIBE_STRUCT(LeaseGrant,
                      (),
                      (lease,
                       epoch,
                       job,
                       attempt,
                       owner,
                       tenant,
                       expires_in,
                       slices,
                       spec,
                       rank,
                       peers,
                       scrubbed_for,
                       must_scrub,
                       volumes,
                       units,
                       volume_key,
                       gang_key,
                       members,
                       resume))

struct LeaseRenewal {
  LeaseId lease{};
  std::uint64_t epoch = 0;
  Duration expires_in{};
  std::optional<std::uint16_t> milli{};  // New limits, while it runs.
  std::optional<Bytes> vram{};
  UnitSet units{};   // More of them, after those it has.
  Duration grace{};  // To give back what it holds beyond the new limits.
  bool operator==(const LeaseRenewal&) const = default;
};
BOOST_DESCRIBE_STRUCT(LeaseRenewal, (), (lease, epoch, expires_in, milli, vram, units, grace))

enum class RevokeWay : std::uint8_t { kCheckpoint, kPause, kResume, kKill };
BOOST_DESCRIBE_ENUM(RevokeWay, kCheckpoint, kPause, kResume, kKill)

struct LeaseRevoke {
  LeaseId lease{};
  std::uint64_t epoch = 0;
  RevokeWay way = RevokeWay::kCheckpoint;
  EndReason reason = EndReason::kStopped;
  Duration grace{};
  std::string message{};  // For the job's owner.
  bool operator==(const LeaseRevoke&) const = default;
};
BOOST_DESCRIBE_STRUCT(LeaseRevoke, (), (lease, epoch, way, reason, grace, message))

struct LeaseReport {
  LeaseId lease{};
  std::uint64_t epoch = 0;
  LeaseState state = LeaseState::kAccepted;
  Instant at{};
  EndReason reason = EndReason::kNone;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
  std::optional<Instant> checkpoint{};  // When the last complete one was taken.
  std::uint16_t port = 0;               // Where its service is reached on the node; zero: it has none.
  bool port_sealed = false;             // There it speaks TLS, and to the server alone.
  // Of each slice, in force since `at`: the answer to new limits.
  std::optional<std::uint16_t> milli{};
  std::optional<Bytes> vram{};
  bool declined = false;  // What was asked for last (new limits, a pause, going on) could not be done.
  bool operator==(const LeaseReport&) const = default;
};
BOOST_DESCRIBE_STRUCT(LeaseReport,
                      (),
                      (lease,
                       epoch,
                       state,
                       at,
                       reason,
                       exit_code,
                       exit_signal,
                       message,
                       checkpoint,
                       port,
                       port_sealed,
                       milli,
                       vram,
                       declined))

struct MeterReport {
  std::vector<MeterRecord> records{};
  bool operator==(const MeterReport&) const = default;
};
BOOST_DESCRIBE_STRUCT(MeterReport, (), (records))

struct HealthSignal {
  std::string uuid{};    // Of the device; empty: the node.
  std::string source{};  // xid, ecc, link, thermal, telemetry, test
  std::int64_t code = 0;
  std::int64_t value = 0;
  Instant at{};
  std::string text{};  // As the source wrote it.
  bool operator==(const HealthSignal&) const = default;
};
BOOST_DESCRIBE_STRUCT(HealthSignal, (), (uuid, source, code, value, at, text))

enum class LogStream : std::uint8_t { kStdout, kStderr, kPlatform, kResults };
BOOST_DESCRIBE_ENUM(LogStream, kStdout, kStderr, kPlatform, kResults)

struct LogChunk {
  LeaseId lease{};
  std::uint64_t epoch = 0;
  LogStream stream = LogStream::kStdout;
  std::uint64_t offset = 0;  // Of the first byte in its stream.
  Instant at{};
  std::string bytes{};
  bool operator==(const LogChunk&) const = default;
};
BOOST_DESCRIBE_STRUCT(LogChunk, (), (lease, epoch, stream, offset, at, bytes))

// How much of a stream the server holds for good: the agent may forget it, and goes on from here after a
// break.
struct LogAck {
  LeaseId lease{};
  LogStream stream = LogStream::kStdout;
  std::uint64_t offset = 0;
  bool operator==(const LogAck&) const = default;
};
BOOST_DESCRIBE_STRUCT(LogAck, (), (lease, stream, offset))

struct CertificateWish {  // Before its own runs out, on the link that it secures.
  std::string request_pem{};
  bool operator==(const CertificateWish&) const = default;
};
BOOST_DESCRIBE_STRUCT(CertificateWish, (), (request_pem))

struct Certificate {
  std::string certificate_pem{};  // Empty: refused.
  std::string message{};
  bool operator==(const Certificate&) const = default;
};
BOOST_DESCRIBE_STRUCT(Certificate, (), (certificate_pem, message))

// A command inside a running job's sandbox, for exec and cp. The server names the session.
struct SessionOpen {
  std::uint64_t session = 0;
  LeaseId lease{};
  std::uint64_t epoch = 0;
  std::vector<std::string> command{};
  bool terminal = false;
  std::uint16_t rows = 0;
  std::uint16_t columns = 0;
  bool operator==(const SessionOpen&) const = default;
};
BOOST_DESCRIBE_STRUCT(SessionOpen, (), (session, lease, epoch, command, terminal, rows, columns))

struct SessionData {  // To the command: its input. From it: what it wrote. No bytes: the end of the stream.
  std::uint64_t session = 0;
  LogStream stream = LogStream::kStdout;
  std::string bytes{};
  bool operator==(const SessionData&) const = default;
};
BOOST_DESCRIBE_STRUCT(SessionData, (), (session, stream, bytes))

struct SessionEnd {  // From either side; the agent's has the exit.
  std::uint64_t session = 0;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
  bool operator==(const SessionEnd&) const = default;
};
BOOST_DESCRIBE_STRUCT(SessionEnd, (), (session, exit_code, exit_signal, message))

struct Receipts {
  std::vector<ScrubReceipt> scrubs{};
  std::vector<AcceptanceReceipt> acceptances{};
  std::vector<LimitReceipt> limits{};
  std::vector<DeviceOutcome> outcomes{};
  std::vector<BehaviourRecord> behaviours{};
  bool operator==(const Receipts&) const = default;
};
BOOST_DESCRIBE_STRUCT(Receipts, (), (scrubs, acceptances, limits, outcomes, behaviours))

template <class Message>
constexpr AgentMessageKind kMessageKind = AgentMessageKind::kHello;
template <>
inline constexpr AgentMessageKind kMessageKind<Welcome> = AgentMessageKind::kWelcome;
template <>
inline constexpr AgentMessageKind kMessageKind<Parting> = AgentMessageKind::kParting;
template <>
inline constexpr AgentMessageKind kMessageKind<Heartbeat> = AgentMessageKind::kHeartbeat;
template <>
inline constexpr AgentMessageKind kMessageKind<LeaseGrant> = AgentMessageKind::kLeaseGrant;
template <>
inline constexpr AgentMessageKind kMessageKind<LeaseRenewal> = AgentMessageKind::kLeaseRenewal;
template <>
inline constexpr AgentMessageKind kMessageKind<LeaseRevoke> = AgentMessageKind::kLeaseRevoke;
template <>
inline constexpr AgentMessageKind kMessageKind<LeaseReport> = AgentMessageKind::kLeaseReport;
template <>
inline constexpr AgentMessageKind kMessageKind<MeterReport> = AgentMessageKind::kMeterReport;
template <>
inline constexpr AgentMessageKind kMessageKind<HealthSignal> = AgentMessageKind::kHealthSignal;
template <>
inline constexpr AgentMessageKind kMessageKind<LogChunk> = AgentMessageKind::kLogChunk;
template <>
inline constexpr AgentMessageKind kMessageKind<Receipts> = AgentMessageKind::kReceipts;
template <>
inline constexpr AgentMessageKind kMessageKind<HeartbeatAnswer> = AgentMessageKind::kHeartbeatAnswer;
template <>
inline constexpr AgentMessageKind kMessageKind<LogAck> = AgentMessageKind::kLogAck;
template <>
inline constexpr AgentMessageKind kMessageKind<CertificateWish> = AgentMessageKind::kCertificateWish;
template <>
inline constexpr AgentMessageKind kMessageKind<Certificate> = AgentMessageKind::kCertificate;
template <>
inline constexpr AgentMessageKind kMessageKind<SessionOpen> = AgentMessageKind::kSessionOpen;
template <>
inline constexpr AgentMessageKind kMessageKind<SessionData> = AgentMessageKind::kSessionData;
template <>
inline constexpr AgentMessageKind kMessageKind<SessionEnd> = AgentMessageKind::kSessionEnd;
template <>
inline constexpr AgentMessageKind kMessageKind<DeviceOrder> = AgentMessageKind::kDeviceOrder;
template <>
inline constexpr AgentMessageKind kMessageKind<CheckpointWish> = AgentMessageKind::kCheckpointWish;
template <>
inline constexpr AgentMessageKind kMessageKind<SavedJobs> = AgentMessageKind::kSavedJobs;
template <>
inline constexpr AgentMessageKind kMessageKind<SavedInVain> = AgentMessageKind::kSavedInVain;
template <>
inline constexpr AgentMessageKind kMessageKind<VolumeOrder> = AgentMessageKind::kVolumeOrder;
template <>
inline constexpr AgentMessageKind kMessageKind<VolumeReceipt> = AgentMessageKind::kVolumeReceipt;

template <>
inline constexpr AgentMessageKind kMessageKind<ProgressReport> = AgentMessageKind::kProgressReport;

// The version two sides speak; nothing when their ranges do not meet.
std::optional<std::uint16_t> agree_on_version(const Hello& hello,
                                              std::uint16_t server_min = kAgentProtocolMin,
                                              std::uint16_t server_max = kAgentProtocolMax);

struct FramePosition {
  std::uint16_t version = kAgentProtocolMax;
  std::uint64_t sequence = 0;
  std::uint64_t acknowledged = 0;
};
template <class Message>
std::string frame_bytes(FramePosition position, const Message& message) {
  AgentFrame frame{.version = position.version,
                   .sequence = position.sequence,
                   .acknowledged = position.acknowledged,
                   .kind = kMessageKind<Message>};
  encode(frame.body, message);
  std::string bytes;
  encode(bytes, frame);
  return bytes;
}
// The message inside; a reason when the frame holds another kind, or its body is broken.
template <class Message>
Result<Message, std::string> open_frame(const AgentFrame& frame) {
  if (frame.kind != kMessageKind<Message>)
    return refuse(std::string("the frame holds another kind of message"));
  return decode<Message>(frame.body);
}

}  // namespace tranche::wire
