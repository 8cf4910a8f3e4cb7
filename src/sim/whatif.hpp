// SPDX-License-Identifier: Apache-2.0
#pragma once
// What if? The very engine that serves people, with its admission, order, placement, lending and wiping, on a
// described fleet and a described workload, in time that jumps from event to event.
//
// A job keeps `busy_milli` of each of its devices busy while it runs, however much it was given: that is the
// work done. Restarts after a preemption begin anew. Nothing here is measured on a device; reports say so.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/job.hpp"
#include "wire/quota.hpp"

namespace tranche::sim {

struct WhatIfJob {
  std::int64_t submit = 0;    // Seconds.
  std::int64_t duration = 0;  // Seconds on what it asks for.
  std::string tenant{};
  wire::Ask ask{};
  std::uint32_t busy_milli = 0;  // Of each device.
  std::int64_t vram_used = 0;    // On each device, on average, by its meters; zero: not known.
};

struct WhatIfDevice {  // What a device of the past was used for.
  std::string name{};
  std::string node{};
  std::string model{};
  double held_percent = 0;  // Of the time looked at.
  double busy_percent = 0;
};

struct WhatIfNodes {
  std::uint32_t nodes = 0;
  std::uint32_t devices = 0;  // On each.
  std::string model{};
};

enum class Sharing : std::uint8_t {
  kAsAsked,     // Slices, as the jobs ask for them; tenants have opted in.
  kDedicated,   // A whole device for every instance asked for.
  kPartitions,  // The smallest hardware partition that holds what is asked for, where a device has them.
};
[[nodiscard]] std::string_view sharing_name(Sharing sharing);

struct WhatIfWorld {
  std::vector<WhatIfNodes> fleet{};
  std::vector<WhatIfJob> jobs{};                // In order of submission.
  std::map<std::string, wire::Quota> quotas{};  // By tenant.
  std::vector<WhatIfDevice> devices{};          // Where the workload is a server's past.
};

struct WhatIfOptions {
  Sharing sharing = Sharing::kAsAsked;
  std::uint32_t prepare_percent = 0;             // Of the demand foreseen that is kept free; see settings.
  std::int64_t warm_up_seconds = 0;              // What is submitted before counts in no figure.
  std::int64_t wipe_seconds = 1;                 // A slice that changes hands is wiped so long.
  double device_hour = 0;                        // What an hour of a device costs; zero: not said.
  std::function<void(std::int64_t)> progress{};  // Jobs ended so far.
};

struct WhatIfWaits {
  std::int64_t jobs = 0;
  double mean_seconds = 0;
  std::int64_t p95_seconds = 0;
  std::int64_t max_seconds = 0;
};

struct WhatIfTenant {
  WhatIfWaits waits{};
  double held_device_hours = 0;
  double mean_slowdown = 1;  // Time from submission to end, over the time it ran (a minute at least).
};

struct WhatIfReport {
  std::int64_t jobs = 0;
  std::int64_t refused = 0;
  std::string first_refusal{};
  std::int64_t unfinished = 0;  // Could never be placed.
  std::int64_t preemptions = 0;
  std::uint32_t devices = 0;
  std::int64_t window_seconds = 0;       // From the first to the last submission.
  std::int64_t makespan_seconds = 0;     // Until the last job ended.
  double busy_percent = 0;               // Devices really at work, in the window.
  double held_percent = 0;               // Devices given to somebody, in the window.
  double work_device_hours = 0;          // All the work that was done.
  double fleet_hours_per_work_hour = 0;  // What the fleet costs for one hour of work, over the makespan.
  WhatIfWaits waits{};
  std::map<std::string, WhatIfTenant> by_tenant{};
  double fairness_index = 1;  // Of mean slowdowns between tenants (Jain): 1 when all are alike.
  std::vector<double> busy_by_hour{}, held_by_hour{};  // Percent of the devices, from the first submission.
  // How devices were cut when most of them were, for partitions: "3g.40gb + 3g.40gb" on so many.
  std::map<std::string, std::uint32_t> layouts{};
  std::map<std::string, WhatIfWaits> by_kind{};
  // Of jobs that were submitted in the three hours of the day in which most work is handed in.
  WhatIfWaits peak{};
  std::map<std::string, WhatIfWaits> peak_by_kind{};
};

[[nodiscard]] WhatIfReport what_if(const WhatIfWorld& world, const WhatIfOptions& options);
[[nodiscard]] std::string what_if_json(const WhatIfReport& report, const WhatIfOptions& options);

}  // namespace tranche::sim
