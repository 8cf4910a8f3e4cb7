// SPDX-License-Identifier: Apache-2.0
#pragma once
// This process's place at the broker: its regions, its slot, and the bell it rings when it waits.
#include <atomic>

#include "guard/process_identity.hpp"
#include "guard/region.hpp"
#include "guard/vram_account.hpp"

namespace tranche::guard {

struct Session {
  std::atomic<const ControlRegion*> control;
  std::atomic<LedgerRegion*> ledger;
  std::atomic<std::uint32_t> slot;
  std::atomic<int> bell;
  std::atomic<int> link;  // The connection whose end tells the broker that we died.
  std::atomic<std::atomic<std::uint64_t>*>
      mark;  // On a page that a fork wipes: zero means "not this process".
  ProcessIdentity self;
  std::uint64_t ledger_number;  // Inode of the ledger's memory.
};

extern Session session;

// The broker died and another took its place: goes on with the new one's rules and the same ledger. Called by
// whoever waits at a gate; at most ten times a second, and never waits for a broker that is merely slow.
void rejoin_if_orphaned(std::uint64_t now);

// What the slice says of a device; null where there is none. Rings the bell of the broker: look at the
// ledger.
const DeviceControl* settings_of(std::uint32_t device);
void ring_broker();

// True when the calling process itself has a slot; false in a forked child until it attaches for itself.
inline bool has_slot() {
  const auto* mark = session.mark.load(std::memory_order_acquire);
  return mark != nullptr && mark->load(std::memory_order_relaxed) != 0;
}
// Where brokers listen: the fixed path that a sandbox binds wins over the environment, which a job can
// change.
inline constexpr const char* kSandboxSocket = "/run/tranche/guard.sock";
inline constexpr const char* kSocketVariable = "TRANCHE_GUARD_SOCKET";

}  // namespace tranche::guard
