// SPDX-License-Identifier: Apache-2.0
#include "agent/lease_table.hpp"

#include <algorithm>

namespace tranche::agent {
namespace {

constexpr std::size_t kEndedRemembered = 20'000;
constexpr std::size_t kHeartbeatsOpen = 64;

}  // namespace

Offer LeaseTable::offer(LeaseId lease, std::uint64_t epoch, BootTime now, BootTime expires_at) {
  if (const auto over = ended_.find(lease); over != ended_.end())
    return epoch < over->second ? Offer::kStale : Offer::kKnown;
  const auto [at, is_new] =
      entries_.try_emplace(lease, Entry{.epoch = epoch, .granted_at = now, .expires_at = expires_at});
  if (is_new) return Offer::kTake;
  Entry& known = at->second;
  if (epoch < known.epoch) return Offer::kStale;
  if (epoch == known.epoch) return Offer::kKnown;
  known.epoch = epoch;
  known.revoked = false;
  known.granted_at = now;
  known.expires_at = std::max(known.expires_at, expires_at);
  return Offer::kNewEpoch;
}

void LeaseTable::adopt(LeaseId lease, std::uint64_t epoch, BootTime expires_at) {
  entries_[lease] = Entry{.epoch = epoch, .expires_at = expires_at};
}

Door LeaseTable::door(LeaseId lease, std::uint64_t epoch) const {
  const auto found = entries_.find(lease);
  if (found == entries_.end()) return Door::kUnknown;
  return found->second.epoch == epoch ? Door::kOpen : Door::kStale;
}

void LeaseTable::heartbeat_sent(Instant at, BootTime now) {
  heartbeats_[at] = now;
  if (heartbeats_.size() > kHeartbeatsOpen) heartbeats_.erase(heartbeats_.begin());
}

std::vector<std::pair<LeaseId, BootTime>> LeaseTable::heartbeat_answered(Instant at, Duration lease) {
  std::vector<std::pair<LeaseId, BootTime>> renewed;
  const auto sent = heartbeats_.find(at);
  if (sent == heartbeats_.end()) return renewed;
  const BootTime from = sent->second;
  heartbeats_.erase(heartbeats_.begin(), std::next(sent));
  for (auto& [id, entry] : entries_) {
    if (entry.revoked || entry.granted_at > from) continue;
    const BootTime expires = from + nanoseconds(lease);
    if (expires <= entry.expires_at) continue;
    entry.expires_at = expires;
    renewed.emplace_back(id, expires);
  }
  return renewed;
}

bool LeaseTable::renew(LeaseId lease, std::uint64_t epoch, BootTime expires_at) {
  if (door(lease, epoch) != Door::kOpen) return false;
  Entry& entry = entries_[lease];
  if (entry.revoked) return false;
  entry.expires_at = std::max(entry.expires_at, expires_at);
  return true;
}

void LeaseTable::revoke(LeaseId lease, BootTime last_moment) {
  const auto found = entries_.find(lease);
  if (found == entries_.end()) return;
  found->second.revoked = true;
  found->second.expires_at = last_moment;
}

void LeaseTable::end(LeaseId lease) {
  const auto found = entries_.find(lease);
  if (found == entries_.end()) return;
  ended_[lease] = found->second.epoch;
  entries_.erase(found);
  ended_order_.push_back(lease);
  if (ended_order_.size() <= kEndedRemembered) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

std::vector<LeaseId> LeaseTable::expired(BootTime now) const {
  std::vector<LeaseId> over;
  for (const auto& [id, entry] : entries_)
    if (now >= entry.expires_at) over.push_back(id);
  return over;
}

std::optional<BootTime> LeaseTable::next_expiry() const {
  std::optional<BootTime> next;
  for (const auto& [id, entry] : entries_)
    if (!next || entry.expires_at < *next) next = entry.expires_at;
  return next;
}

std::size_t LeaseTable::live() const {
  return entries_.size();
}

std::optional<BootTime> LeaseTable::expiry_of(LeaseId lease) const {
  const auto found = entries_.find(lease);
  if (found == entries_.end()) return std::nullopt;
  return found->second.expires_at;
}

}  // namespace tranche::agent
