// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who may put work on a lane of a device next, and when?
//
// The device serves first come, first served and cannot be interrupted, so shares and latency are decided by
// when work is let in. The arbiter keeps a model of the device (until when is it busy?) from what tenants
// charge and from the ends they measured, and lets one waiting tenant in shortly before the device runs dry:
// late enough that an entitled or urgent tenant finds at most one kernel before its own, early enough that
// the device never idles. Whoever waits is chosen by priority, then by least device time for its share,
// overruns included. A tenant that does not wait has standing credit and is let through inline. No clock, no
// I/O: step() is given the time, so a test can play a device in virtual time.
#include <cstdint>
#include <vector>

#include "guard/device_queue.hpp"
#include "guard/region.hpp"

namespace tranche::guard {

struct ArbiterSettings {
  std::uint64_t lead_min_ns = 60'000;       // How early before the device runs dry work is let in, at least.
  std::uint64_t lead_max_ns = 10'000'000;   //
  std::uint64_t crowd_lead_ns = 2'000'000;  // So much earlier while every tenant came for its turn lately,
  std::uint64_t gate_lead_ns = 20'000'000;  // and while every one stands at the gate with more.
  std::uint64_t urgent_lead_max_ns = 300'000;      // Never earlier while somebody more urgent may come.
  std::uint64_t entitled_lead_max_ns = 2'000'000;  // Nor than this while somebody may come who has more due.
  std::uint64_t quantum_ns = 1'000'000;            // Small kernels are let in by the millisecond.
  std::uint64_t standing_ns = 12'000'000;          // Most credit an idle, entitled tenant holds.
  std::uint64_t kept_off_ns = 40'000'000;   // Most a tenant may claim back that was let in and came too late.
  std::uint64_t idle_after_ns = 3'000'000;  // A tenant that neither charged nor waited for so long is idle.
  std::uint64_t anticipate_ns = 150'000;    // After urgent work ends, wait so long for more of it.
};

class LaneArbiter {
 public:
  explicit LaneArbiter(ArbiterSettings settings = {})
      : settings_(settings), lead_ns_(4 * settings.lead_min_ns) {}

  // `key` names the tenant; rules and ledger stay mapped until remove(). share of kShareWhole.
  void add(std::uint64_t key, LaneControl* rules, const LaneLedger* ledger, std::uint64_t now);
  void remove(std::uint64_t key);
  void set(std::uint64_t key, std::uint32_t share, std::uint32_t priority, ShareMode mode);

  // Reads the ledgers, grants what is due, and says when to be called again at the latest. The lanes whose
  // `wake` word must be rung are in woken(), valid until the next step.
  std::uint64_t step(std::uint64_t now);
  [[nodiscard]] const std::vector<LaneControl*>& woken() const { return woken_; }

  [[nodiscard]] std::uint64_t busy_until() const { return queue_.busy_until(); }
  [[nodiscard]] std::uint64_t lead_ns() const { return lead_ns_; }
  [[nodiscard]] std::size_t tenants() const { return tenants_.size(); }

 private:
  struct Tenant {
    std::uint64_t key = 0;
    LaneControl* rules = nullptr;
    const LaneLedger* ledger = nullptr;
    std::uint32_t share = kShareWhole;
    std::uint32_t priority = 0;
    ShareMode mode = ShareMode::kFair;
    std::uint64_t submitted = 0;  // As read last, and so is the next.
    std::uint64_t charged = 0;
    std::uint64_t came_at = 0;
    std::uint64_t unconfirmed = 0;  // Charged, and not known to have ended.
    std::uint64_t lost = 0;         // Of that, what will never be confirmed.
    std::uint64_t confirmed = 0;
    std::uint64_t confirmed_at = 0;
    std::uint64_t active_at = 0;     // Last charge or wait.
    std::uint64_t work_ends_at = 0;  // Its own part of the model.
    std::uint64_t served_wait = 0;   // The wait that was answered last.
    std::uint64_t seen_wait = 0;
    std::uint64_t waits_since = 0;
    std::uint64_t waited_at = 0;  // Last time it was seen to come to the gate and wait.
    std::uint64_t due_at = 0;     // When its grant should have been given.
    std::uint64_t last_end = 0;
    std::uint32_t began_told = 0;  // Of `began` in its rules.
    double virtual_ns = 0;         // Device time received for each unit of share.
    bool granted = false;          // A grant is out and not all of it was used.
    bool used_grant = false;       //
    bool held = false;             // It was let in late on purpose.
    bool kept_off = false;  // Its last grant ran out before it came: it wants the device, its host is busy.
    bool probing = false;   // It was let in behind work of others that should still run; its end is awaited.
    std::uint64_t doubted_until = 0;  // It claimed work that cannot have run.
    std::uint64_t granted_at = 0;
    std::uint64_t expected_ns = 0;
    [[nodiscard]] bool waits() const { return seen_wait != served_wait; }
  };
  void read_all(std::uint64_t now);
  void read(Tenant& tenant, std::uint64_t now);
  void accept(Tenant& tenant, std::uint64_t came_at, std::uint64_t length);
  [[nodiscard]] std::uint64_t comes_until(const Tenant& tenant) const;
  [[nodiscard]] std::uint64_t expires_at(const Tenant& tenant) const;
  void count_unconfirmed(Tenant& tenant, std::uint64_t now) const;
  void learn_ends(Tenant& tenant, std::uint64_t now);
  void settle(std::uint64_t now);
  Tenant* find(std::uint64_t key);
  void adapt_lead(const Tenant& tenant, std::uint64_t came_at);
  void keep_standing(std::uint64_t now);
  [[nodiscard]] std::uint64_t busy_until(std::uint64_t now) const;
  [[nodiscard]] bool works_side_by_side(const Tenant& tenant, std::uint64_t now) const;
  [[nodiscard]] std::uint64_t horizon(std::uint64_t now) const;
  [[nodiscard]] double virtual_now() const;
  [[nodiscard]] std::uint64_t lead_for(const Tenant& chosen, std::uint64_t now) const;
  Tenant* choose();
  [[nodiscard]] std::uint64_t hold_until(const Tenant& chosen) const;
  [[nodiscard]] std::uint64_t look_at(std::uint64_t due, std::uint64_t lead, std::uint64_t now) const;
  void grant(Tenant& tenant, std::uint64_t now, std::uint64_t lead);
  void publish_clear();

  ArbiterSettings settings_;
  std::vector<Tenant> tenants_;
  DeviceQueue queue_;
  std::vector<Tenant*> arrivals_;  // In the order their work came; kept for its memory.
  std::vector<LaneControl*> woken_;
  std::uint64_t stepped_at_ = 0;
  bool ends_are_told_ = false;  // By anybody: otherwise tenants run side by side here.
  std::uint64_t lead_ns_;
  std::uint32_t late_in_a_row_ = 0;
};

}  // namespace tranche::guard
