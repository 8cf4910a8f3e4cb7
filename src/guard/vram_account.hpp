// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many bytes of a device does this tenant hold, exactly, whatever dies or stops in between?
//
// Lock-free: nobody ever waits for anybody, so a killed or stopped process delays no one. The total and the
// part of the process change through one 16-byte word that also says what the last operation was; whoever
// comes next finishes that operation in the slot before it begins its own. Cost does not depend on live
// allocations.
#include <cstdint>

#include "guard/process_identity.hpp"
#include "guard/region.hpp"

namespace tranche::guard {

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct VramAnswer {
  bool granted = false;
  std::uint64_t used = 0;   // Before a refusal, or after a grant.
  std::uint64_t limit = 0;  // As it stood at the decision.
};

class VramAccount {
 public:
  VramAccount(LedgerRegion* ledger, std::uint32_t device) : ledger_(ledger), device_(device) {}

  // Adds `bytes` for the process in `slot`, unless that would pass `limit`. Reserve before the driver is
  // asked; release when it refuses. There is no separate commit: a reservation is already the account.
  VramAnswer reserve(std::uint32_t slot, std::uint64_t bytes, std::uint64_t limit);
  // Never refuses; for memory that the driver has already handed out (contexts, modules).
  void add_unasked(std::uint32_t slot, std::uint64_t bytes);
  void release(std::uint32_t slot, std::uint64_t bytes);
  // Takes back everything `slot` holds as long as it still belongs to `owner`; says how much that was.
  std::uint64_t reclaim(std::uint32_t slot, const ProcessIdentity& owner);

  [[nodiscard]] std::uint64_t used() const;
  [[nodiscard]] std::uint64_t peak() const;
  [[nodiscard]] std::uint64_t used_by(std::uint32_t slot) const;

 private:
  bool change(std::uint32_t slot, std::int64_t delta, std::uint64_t limit, VramAnswer& answer);
  void finish(const Pair& head);
  DeviceLedger& device() const { return ledger_->devices[device_]; }

  LedgerRegion* ledger_ = nullptr;
  std::uint32_t device_ = 0;
};

// Slots. Claiming is one atomic step, so a process that dies while it attaches leaves nothing half done.
std::uint32_t claim_slot(LedgerRegion& ledger, const ProcessIdentity& self);
// Gives the memory of `slot` back on every device, then the slot itself, if it still belongs to `owner`.
// Returns the bytes that came back.
std::uint64_t reclaim_slot(LedgerRegion& ledger, std::uint32_t slot, const ProcessIdentity& owner);
// Reclaims every slot whose process is certainly dead, seen from the process `self`.
std::uint64_t reclaim_dead(LedgerRegion& ledger, const ProcessIdentity& self);

}  // namespace tranche::guard
