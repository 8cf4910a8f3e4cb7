// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which leases this node may act under, and until when. Pure: time comes in as a number.
//
// The agent counts from when it SENT what the server answered, the server from when it answered: whatever the
// network does in between, the agent's end comes first.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/host_time.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"

namespace tranche::agent {

enum class Offer : std::uint8_t {
  kTake,      // New: act on it.
  kKnown,     // The same once more: nothing to do.
  kNewEpoch,  // Known under an older epoch: only the epoch and the expiry change.
  kStale,     // An older epoch than one seen: refuse.
};
enum class Door : std::uint8_t { kOpen, kStale, kUnknown };

class LeaseTable {
 public:
  Offer offer(LeaseId lease, std::uint64_t epoch, BootTime now, BootTime expires_at);
  // Found running after a restart; expires as its page says.
  void adopt(LeaseId lease, std::uint64_t epoch, BootTime expires_at);

  // Whether a message about the lease may act.
  [[nodiscard]] Door door(LeaseId lease, std::uint64_t epoch) const;

  void heartbeat_sent(Instant at, BootTime now);
  // The leases renewed, with their new expiry. An answer to a heartbeat that is not known renews nothing.
  std::vector<std::pair<LeaseId, BootTime>> heartbeat_answered(Instant at, Duration lease);
  // False: not at this door. An expiry never moves back.
  bool renew(LeaseId lease, std::uint64_t epoch, BootTime expires_at);
  // Heartbeats do not renew it any more; it may last until then, to end in order.
  void revoke(LeaseId lease, BootTime last_moment);
  void end(LeaseId lease);  // Nothing of it runs. Remembered, so that the same grant is not taken twice.
  void link_broken() { heartbeats_.clear(); }

  [[nodiscard]] std::vector<LeaseId> expired(BootTime now) const;
  [[nodiscard]] std::optional<BootTime> next_expiry() const;
  [[nodiscard]] std::size_t live() const;
  [[nodiscard]] std::optional<BootTime> expiry_of(LeaseId lease) const;

 private:
  struct Entry {
    std::uint64_t epoch = 0;
    BootTime granted_at = 0;
    BootTime expires_at = 0;
    bool revoked = false;
  };
  std::map<LeaseId, Entry> entries_;        // Those that live: every turn of the agent looks at all of them.
  std::map<LeaseId, std::uint64_t> ended_;  // With their last epoch.
  std::deque<LeaseId> ended_order_;         // Oldest first: only so many are remembered.
  std::map<Instant, BootTime> heartbeats_;
};

}  // namespace tranche::agent
