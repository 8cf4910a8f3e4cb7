// SPDX-License-Identifier: Apache-2.0
#pragma once
// One page of a file between the agent and a lease's supervisor. It outlives both: what is written there is
// in the page cache, and the next agent reads how far things went. All zero is "not begun".
#include <atomic>
#include <cstdint>
#include <filesystem>

#include "wire/states.hpp"

namespace tranche::agent {

enum class JobPhase : std::uint32_t {
  kNotBegun = 0,
  kPreparing = 1,  // The setup step.
  kRunning = 2,
  kPaused = 3,
  kStopping = 4,  // Asked to end, within its grace.
  kCleaning = 5,  // Nothing of the job runs; its places are being wiped.
  kEnded = 6,     // All of the fields about the end hold.
  kStuck = 7,     // Could not be ended: its devices must not be given to anybody.
};

inline constexpr std::uint32_t kMeteredDevices = 16;
inline constexpr std::uint32_t kStreams = 4;  // As wire::LogStream counts them.

struct LeasePage {
  using Word32 = std::atomic<std::uint32_t>;
  using Word64 = std::atomic<std::uint64_t>;
  // By the agent.
  Word64 expires_at;  // CLOCK_BOOTTIME ns: the job ends itself then.
  // By the supervisor.
  Word64 supervisor;        // Its process id; its start time tells it from a later one.
  Word64 supervisor_start;  //
  Word64 init;              // Process 1 of the sandbox, as the node counts.
  Word32 phase;             // JobPhase. Written last.
  Word32 bell;              // One: a note about new output is on the way, so no other is needed.
  Word64 running_since;     // Wall clock, microseconds. Zero: never ran.
  Word64 ended_at;          //
  std::atomic<std::int32_t> exit_code;
  std::atomic<std::int32_t> exit_signal;
  Word32 reason;           // wire::EndReason.
  Word32 processes_ended;  // Left over when the job itself had ended.
  Word32 scratch_wiped;
  Word32 running_told;       // By the agent: the server knows that it ran.
  Word64 written[kStreams];  // Bytes in the log files.
  Word64 dropped[kStreams];  // Past the quota.
  // By the agent, for itself after a restart.
  Word64 acknowledged[kStreams];  // Log bytes that the server holds.
  Word32 reported;                // JobPhase that was last told to the server, plus one.
  Word32 settled;                 // The end with all its receipts is in the spool.
  Word64 meter_sequence;
  Word64 metered_until;  // Wall clock, microseconds.
  Word64 metered_ns[kMeteredDevices];
  Word64 metered_copies[kMeteredDevices];
  Word64 last_sequence;  // Of the spool: when the server holds it, nothing of the lease is left to say.
  // By the supervisor: how the job behaved. See wire::BehaviourRecord.
  Word64 processes_most;
  Word64 highest_process;  // The largest number that a process of the sandbox was seen under.
  Word64 processes_refused;
  Word64 memory_most;
  Word64 memory_kills;
  Word64 cpu_microseconds;
  Word64 throttled_microseconds;
  Word64 sessions;
  Word64 network_bytes;  // In and out.
  // By the agent.
  Word64 metered_network;
  // By the supervisor: whether files opened outside of the job's places were noted, and how many beyond those
  // listed.
  Word64 files_watched;
  Word64 files_more;
  Word64
      grant_bytes;  // Of the grant, behind the page in the same file. Written last: then the lease is whole.
  Word64 end_told;  // By the agent: that it is over is in the spool; its slices may not be clean yet.
};
inline constexpr std::size_t kLeasePageBytes = 4096;
static_assert(sizeof(LeasePage) <= kLeasePageBytes);

inline JobPhase phase_of(const LeasePage& page) {
  return static_cast<JobPhase>(page.phase.load(std::memory_order_acquire));
}
inline bool is_over(JobPhase phase) {
  return phase == JobPhase::kEnded || phase == JobPhase::kStuck;
}

class MappedLeasePage {
 public:
  // Makes the file when it is absent; throws std::runtime_error.
  explicit MappedLeasePage(const std::filesystem::path& file);
  ~MappedLeasePage();
  MappedLeasePage(const MappedLeasePage&) = delete;
  MappedLeasePage& operator=(const MappedLeasePage&) = delete;
  LeasePage& operator*() const { return *page_; }
  LeasePage* operator->() const { return page_; }

 private:
  LeasePage* page_ = nullptr;
};

// Field 22 of /proc/PID/stat; zero: there is no such process.
[[nodiscard]] std::uint64_t process_start(int pid);

}  // namespace tranche::agent
