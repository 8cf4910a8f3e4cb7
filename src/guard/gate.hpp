// SPDX-License-Identifier: Apache-2.0
#pragma once
// May this process put more work on a lane of a device now, and if not, until when does it wait?
//
// Works on the two regions alone, so it is tested without broker or driver. Work is charged before it is
// given to the driver. A cap needs nobody else; a grant comes from the broker; without a live broker the
// share is a ceiling. The gate opens as soon as anything at all is left and lets the account go into debt: a
// kernel cannot be cut in two, and its overrun is paid from later time.
#include <cstdint>

#include "guard/ceiling.hpp"
#include "guard/region.hpp"

namespace tranche::guard {

inline constexpr std::uint64_t kBrokerSilentNs = 2'000'000'000;  // Then the share becomes a ceiling.

enum class Passage {
  kPassed,  // Charged; go.
  kWait,    // Not now; `Verdict` says how long to sleep at most.
  kEnded,   // The execution time is over: refuse the work.
};

struct Verdict {
  Passage passage = Passage::kWait;
  std::uint64_t sleep_ns = 0;
  bool wants_broker = false;   // Announce the wait: only a grant can end it.
  bool only_time = false;      // The ceiling is reached.
  std::uint64_t mark = 0;      // Passed: `submitted_ns` up to and with this work.
  std::uint64_t clear_at = 0;  // Passed: when the work of others before it will be done.
  bool orphaned = false;       // The broker gave no sign of life for long.
};

class LaneGate {
 public:
  LaneGate(const ControlRegion& control, LedgerRegion& ledger, std::uint32_t device, Lane lane)
      : control_(&control),
        settings_(&control.devices[device]),
        rules_(&settings_->lanes[static_cast<std::uint32_t>(lane)]),
        ledger_(&ledger.devices[device].lanes[static_cast<std::uint32_t>(lane)]),
        ceiling_(*rules_, *ledger_) {}

  // Charges `amount_ns` and passes, or says how long to wait. Never blocks.
  Verdict try_pass(std::uint64_t amount_ns, std::uint64_t now);
  // Whether launches are held to anything here: a cap, a grant, or a broker that is silent.
  [[nodiscard]] bool limited(std::uint64_t now) const;
  [[nodiscard]] bool arbitrated() const {
    return static_cast<Gate>(rules_->gate.load(std::memory_order_relaxed)) == Gate::kArbitrated;
  }
  [[nodiscard]] std::uint32_t share() const { return rules_->share.load(std::memory_order_relaxed); }
  // Tells the broker (through memory; the caller rings the bell) that a thread waits for `amount_ns`.
  void announce_wait(std::uint64_t amount_ns);
  void sleep(std::uint32_t seen, std::uint64_t for_ns) const;
  // Sleeps as the verdict says. Where the host wakes too late, that is not the job's loss.
  void wait_out(std::uint32_t seen, const Verdict& verdict);
  void woken_late(std::uint64_t by_ns) { ceiling_.woken_late(by_ns); }
  [[nodiscard]] std::uint32_t wake_word() const { return rules_->wake.load(std::memory_order_acquire); }
  void correct(std::int64_t charge_ns, std::uint64_t confirmed_ns);
  void report_end(std::uint64_t mark, std::uint64_t end_at);
  // When the work of others before the launch with this mark had ended; zero: it is not known (yet).
  [[nodiscard]] std::uint64_t began_at(std::uint64_t mark, std::uint64_t ended_at) const;
  void count(std::uint64_t operations, std::uint64_t bytes);
  void count_throttled(std::uint64_t wall_ns) {
    ledger_->throttled_ns.fetch_add(wall_ns, std::memory_order_relaxed);
  }

 private:
  const ControlRegion* control_;
  const DeviceControl* settings_;
  const LaneControl* rules_;
  LaneLedger* ledger_;
  Ceiling ceiling_;
};

}  // namespace tranche::guard
