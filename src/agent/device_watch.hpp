// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who uses a device past what the guard counted? The device tells which processes are on it, how much memory
// each has and how busy it keeps the device; the guard tells what it let through. Pure: both come in, with
// the time, and what differs twice in a row comes out.
//
// The guard's own numbers lie in memory that the job can write, so they are believed only as far as the
// device agrees with them.
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/host_time.hpp"
#include "base/ids.hpp"

namespace tranche::agent {

struct SeenProcess {  // As the device reports it.
  std::int32_t pid = 0;
  std::string name{};
  std::uint64_t vram = 0;
  std::uint16_t busy_milli = 0;  // Over the last second.
  bool joined = false;           // The guard in it has spoken to the broker.
};

// One lease on one device at one moment.
struct SeenUse {
  LeaseId lease{};
  std::string uuid{};
  bool granted = true;    // It has a slice there.
  bool separated = true;  // By hardware, or nobody else is there: what it uses is its own.
  std::vector<SeenProcess> processes{};
  std::uint64_t vram_limit = 0;
  std::uint64_t vram_counted = 0;
  std::uint64_t counted_ns = 0;    // Device time, as it was charged.
  std::uint64_t submitted_ns = 0;  // Of that, what only ever grows.
  std::uint64_t measured_ns = 0;   // What the guard itself saw the device do of it.
  std::uint64_t account = 0;       // Another one: counting began anew.
  Duration since_launch{};         // Since the guard last let work through.
  bool neighbours = false;         // Other tenants are on the device now.
};

struct Finding {
  LeaseId lease{};
  std::string uuid{};
  std::string evidence{};
  bool ends = false;  // The job is to be ended for it.
};

// What a device said of a lease so far, for its record.
struct ReportedUse {
  std::uint64_t vram_most = 0;
  std::uint64_t busy_ns = 0;
};

class DeviceWatch {
 public:
  // What is new and certain. `uses` has every lease with a process on a device, or with an account there.
  std::vector<Finding> look(BootTime now, const std::vector<SeenUse>& uses);
  [[nodiscard]] ReportedUse reported(LeaseId lease, const std::string& uuid) const;
  void forget(LeaseId lease);

 private:
  struct Point {
    BootTime at = 0;
    std::uint64_t counted_ns = 0, measured_ns = 0, busy_ns = 0;
  };
  struct History {
    std::deque<Point> points{};  // Of the last minute.
    std::uint64_t submitted_ns = 0, account = 0;
    std::uint64_t allowed = 0;  // The limit, or what it still held when that was lowered.
    ReportedUse reported{};
    std::set<std::string> suspected{};  // At the last look.
    std::set<std::string> told{};
  };
  using Evidence = std::map<std::string, std::string>;  // Words by what they are about.
  static void judge_processes(const SeenUse& use, Evidence& found);
  static void judge_memory(const SeenUse& use, const History& history, Evidence& found);
  static void judge_time(const SeenUse& use, const History& history, Evidence& found);
  static void judge_account(const SeenUse& use, const History& history, Evidence& found);
  static void remember(BootTime now, const SeenUse& use, History& history);
  std::map<std::pair<LeaseId, std::string>, History> histories_;
};

}  // namespace tranche::agent
