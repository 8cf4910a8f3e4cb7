// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bodies of the API about jobs, audit and the platform, and the problem that every refusal becomes (RFC
// 9457).
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/ask.hpp"
#include "wire/job_state.hpp"
#include "wire/progress.hpp"
#include "wire/raw_json.hpp"
#include "wire/refusal.hpp"
#include "wire/settings.hpp"
#include "wire/sizing.hpp"
#include "wire/states.hpp"

namespace tranche::wire {

struct JobView {  // A row of a list: small, because lists are long.
  JobId id{};
  std::string name{};
  std::string owner{};  // Path.
  JobState state = JobState::kPending;
  std::string reason{};  // Why it waits, or how it ended.
  WorkloadKind kind = WorkloadKind::kBatch;
  std::string gpus{};  // As it was asked for, in canonical form.
  std::uint8_t priority = 0;
  Admission admission = Admission::kWithinQuota;
  Instant submitted{};
  std::optional<Instant> ended{};
  std::optional<Instant> started{};
  std::string node{};  // Where it runs or ran last; the first of a gang.
  bool simulated = false;
  std::string progress{};        // "120/1000 steps, 4m left"; empty: it says nothing.
  std::optional<JobId> group{};  // Of a chunk that has not ended: the job it is a part of.
};
BOOST_DESCRIBE_STRUCT(JobView,
                      (),
                      (id,
                       name,
                       owner,
                       state,
                       reason,
                       kind,
                       gpus,
                       priority,
                       admission,
                       submitted,
                       ended,
                       started,
                       node,
                       simulated,
                       progress,
                       group))

struct JobList {
  std::vector<JobView> items{};
  std::string next{};
};
BOOST_DESCRIBE_STRUCT(JobList, (), (items, next))

struct SliceView {
  DeviceId device{};
  std::string uuid{};
  std::string model{};
  std::int64_t milli = 0;
  Bytes vram{};
  DeviceState state = DeviceState::kHealthy;
  std::string health{};  // The state in the tenant's words, with its reason.
};
BOOST_DESCRIBE_STRUCT(SliceView, (), (device, uuid, model, milli, vram, state, health))

struct LeaseView {
  LeaseId id{};
  std::uint32_t attempt = 1;
  std::uint32_t rank = 0;
  std::string node{};
  bool simulated = false;
  LeaseState state = LeaseState::kGranted;
  std::vector<SliceView> slices{};
  Instant granted{};
  std::optional<Instant> started{};
  std::optional<Instant> ended{};
  EndReason reason = EndReason::kNone;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
  std::int64_t device_nanoseconds = 0;
  std::int64_t vram_byte_seconds = 0;
  std::optional<Instant> paused_since{};        // Off its devices for others.
  Duration paused_for{};                        // Before that, in all.
  std::optional<std::int64_t> becomes_milli{};  // Of each slice, when its node has changed it.
};
BOOST_DESCRIBE_STRUCT(LeaseView,
                      (),
                      (id,
                       attempt,
                       rank,
                       node,
                       simulated,
                       state,
                       slices,
                       granted,
                       started,
                       ended,
                       reason,
                       exit_code,
                       exit_signal,
                       message,
                       device_nanoseconds,
                       vram_byte_seconds,
                       paused_since,
                       paused_for,
                       becomes_milli))

struct UnitFailureView {
  std::int64_t unit = 0;
  std::uint32_t tries = 0;
  std::int32_t exit_code = 0;
  bool given_up = false;
  JobId job{};  // The chunk in which it failed last.
};
BOOST_DESCRIBE_STRUCT(UnitFailureView, (), (unit, tries, exit_code, given_up, job))

struct ProgressView {
  WorkUnit unit = WorkUnit::kNone;
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::int64_t failed = 0;      // Given up.
  std::int64_t running = 0;     // Of a group: units in chunks that run now.
  std::int64_t rate_milli = 0;  // Thousandths of a unit a second.
  std::optional<Duration> left{};
  Instant at{};
  std::string metrics{};
  std::uint32_t chunks = 0;
  std::vector<UnitFailureView> failures{};
  Money cost_each{};             // What one unit cost on average so far; zero: nothing was charged.
  std::int64_t pieces_done = 0;  // Of a clip, whose units are seconds.
  std::int64_t pieces = 0;
};
BOOST_DESCRIBE_STRUCT(ProgressView,
                      (),
                      (unit,
                       done,
                       total,
                       failed,
                       running,
                       rate_milli,
                       left,
                       at,
                       metrics,
                       chunks,
                       failures,
                       cost_each,
                       pieces_done,
                       pieces))

struct Interruption {  // An attempt that was cut short, and by whom.
  std::uint32_t attempt = 1;
  Instant at{};     // When it ended.
  Instant fault{};  // Since when it was not charged; zero: it was charged to the end.
  EndReason reason = EndReason::kNone;
  std::string whose{};  // "the platform", "your job", "work that goes first"
  std::string message{};
  std::string node{};
};
BOOST_DESCRIBE_STRUCT(Interruption, (), (attempt, at, fault, reason, whose, message, node))

struct JobDetail {
  JobView job{};
  Ask ask{};
  Money hold{};
  std::uint64_t version = 0;
  RawJson spec{};
  std::uint32_t attempts = 0;
  EndReason end_reason = EndReason::kNone;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
  std::vector<LeaseView> leases{};  // Of the last attempt, by rank.
  Money charged{};                  // For all attempts, less what was credited.
  Money credited{};
  Money held{};  // Set aside for what it runs now.
  std::optional<ProgressView> progress{};
  std::vector<JobId> chunks{};       // Of a group: its jobs.
  std::vector<std::string> after{};  // What it still waits for.
  std::vector<Interruption> interruptions{};
  std::vector<CheckpointNote> checkpoints{};  // That the job said are whole, the newest last.
};
BOOST_DESCRIBE_STRUCT(JobDetail,
                      (),
                      (job,
                       ask,
                       hold,
                       version,
                       spec,
                       attempts,
                       end_reason,
                       exit_code,
                       exit_signal,
                       message,
                       leases,
                       charged,
                       credited,
                       held,
                       progress,
                       chunks,
                       after,
                       interruptions,
                       checkpoints))

// What a unit of work (a token, a frame) costs beside the time of devices.
struct UnitPrice {
  std::string unit{};  // tokens
  Money per_million{};
  std::optional<std::int64_t> count{};  // How many there will be at most; absent: nobody can say.
  Money most{};                         // Of all of them, where that is known.
  bool in_most = false;                 // Part of what the job costs at most; else it comes on top.
};
BOOST_DESCRIBE_STRUCT(UnitPrice, (), (unit, per_million, count, most, in_most))

// What a job would cost. Where it may land on devices of different prices, the dearest counts.
struct JobPrice {
  std::string currency{};
  std::string rule{};           // Of the price list; empty: nothing is charged.
  Money hourly{};               // Of the whole job, busy all the time.
  Money set_aside{};            // Needed before it starts.
  std::optional<Money> most{};  // In all; absent: it has no time limit, so only a spend limit bounds it.
  std::string most_because{};   // "time limit 2h", "spend limit"
  std::string tax_name{};
  std::int64_t tax_ppm = 0;              // Comes on top, on the invoice.
  std::optional<Money> most_with_tax{};  // Where there is both.
  // Those whose count is known are in `most`; others are where a spend limit is the most.
  std::vector<UnitPrice> units{};
};
BOOST_DESCRIBE_STRUCT(
    JobPrice,
    (),
    (currency, rule, hourly, set_aside, most, most_because, tax_name, tax_ppm, most_with_tax, units))

// What a job of many units is expected to take, by what such units took before.
struct UnitEstimate {
  std::string unit{};  // frames
  std::int64_t count = 0;
  Duration each{};              // On its slice.
  Duration one_by_one{};        // All of them, on one slice.
  std::optional<Money> cost{};  // Of all; absent: none of those before was charged.
  std::int64_t seen = 0;        // Units that this is known from.
  std::string by{};             // Whose they were.
};
BOOST_DESCRIBE_STRUCT(UnitEstimate, (), (unit, count, each, one_by_one, cost, seen, by))

struct JobPlan {  // The answer to a dry run.
  bool admitted = false;
  Admission admission = Admission::kWithinQuota;
  Money hold{};
  Ask ask{};
  std::optional<Refusal> refusal{};
  JobPrice price{};                 // At that start.
  std::optional<Instant> starts{};  // Not before then, by its window or the cheapest price; absent: at once.
  std::optional<UnitEstimate> units{};
  std::optional<Sizing> sizing{};  // Of a job that describes its workload.
};
BOOST_DESCRIBE_STRUCT(JobPlan, (), (admitted, admission, hold, ask, refusal, price, starts, units, sizing))

struct AuditEntry {
  std::uint64_t sequence = 0;
  Instant at{};
  PartyId actor{};
  std::string actor_path{};
  std::string origin{};
  std::string request_id{};
  std::string action{};
  std::string outcome{};  // "done" or "refused".
  PartyId about{};
  std::string about_path{};
  std::vector<RawJson> events{};  // {"type": …, "data": …}, with before and after where something changed.
};
BOOST_DESCRIBE_STRUCT(
    AuditEntry,
    (),
    (sequence, at, actor, actor_path, origin, request_id, action, outcome, about, about_path, events))

struct AuditList {
  std::vector<AuditEntry> items{};
  std::string next{};
};
BOOST_DESCRIBE_STRUCT(AuditList, (), (items, next))

struct AuditVerdict {
  bool intact = false;
  std::uint64_t records = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t signed_through = 0;
  std::uint64_t first_bad = 0;
  std::string why{};
  std::string head{};
};
BOOST_DESCRIBE_STRUCT(AuditVerdict, (), (intact, records, checkpoints, signed_through, first_bad, why, head))

struct SkuList {
  std::vector<Sku> items{};
};
BOOST_DESCRIBE_STRUCT(SkuList, (), (items))

struct LiveEvent {
  std::uint64_t sequence = 0;
  Instant at{};
  std::string type{};
  PartyId actor{};
  PartyId about{};
  std::string about_path{};
  RawJson data{};
};
BOOST_DESCRIBE_STRUCT(LiveEvent, (), (sequence, at, type, actor, about, about_path, data))

struct ProblemDetails {
  std::string type{};
  std::string title{};
  int status = 0;
  std::string detail{};
  std::string fix{};
  std::string request_id{};
  std::vector<Refusal> reasons{};
};
BOOST_DESCRIBE_STRUCT(ProblemDetails, (), (type, title, status, detail, fix, request_id, reasons))

}  // namespace tranche::wire
