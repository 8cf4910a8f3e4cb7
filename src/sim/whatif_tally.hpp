// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sums of a what-if: device time held and at work, and how long everybody waited.
#include <map>
#include <set>
#include <vector>

#include "engine/lease.hpp"
#include "sim/whatif.hpp"

namespace tranche::sim {

class WhatIfTally {
 public:
  WhatIfTally(const WhatIfWorld& world, const WhatIfOptions& options);

  void refused(const std::string& why);
  void started(std::size_t job, const engine::LeaseGranted& lease, std::int64_t milli, std::int64_t now);
  void held_until(LeaseId lease, std::int64_t now);
  void cut(const std::map<std::string, std::uint32_t>& layouts);  // As devices are cut now.
  void worked(LeaseId lease);                                     // What was held led to a result.
  void preempted() { ++preemptions_; }
  void ended(std::int64_t now);
  [[nodiscard]] WhatIfReport report() const;

 private:
  struct Held {
    std::size_t job = 0;
    std::int64_t milli = 0;
    std::int64_t busy = 0;
    std::int64_t from = 0;
    std::int64_t until = 0;
  };
  [[nodiscard]] bool is_counted(const WhatIfJob& job) const;   // Not of the warm-up.
  [[nodiscard]] std::set<std::int64_t> busiest_hours() const;  // Of the day.
  [[nodiscard]] std::int64_t inside_window(const Held& held) const;
  void add_hours(const Held& held);
  void add_tenants(WhatIfReport& out, std::map<std::string, std::vector<std::int64_t>> waits) const;

  const WhatIfWorld& world_;
  const WhatIfOptions& options_;
  std::int64_t window_from_ = 0;
  std::int64_t window_until_ = 0;
  std::vector<std::int64_t> waits_;  // By job; -1: never started.
  std::map<LeaseId, Held> leases_{};
  std::int64_t busy_milli_seconds_ = 0;  // In the window.
  std::int64_t held_milli_seconds_ = 0;  // In the window.
  std::int64_t work_milli_seconds_ = 0;
  std::int64_t refused_ = 0;
  std::string first_refusal_{};
  std::int64_t preemptions_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t last_end_ = 0;
  std::vector<double> busy_hours_{}, held_hours_{};  // Milli-device-seconds by hour.
  std::map<std::string, std::uint32_t> layouts_{};
};

}  // namespace tranche::sim
