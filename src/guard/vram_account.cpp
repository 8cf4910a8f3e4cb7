// SPDX-License-Identifier: Apache-2.0
#include "guard/vram_account.hpp"

namespace tranche::guard {
namespace {

// head.low  = total (44 bits) << 20 | sequence of the head (20 bits)
// head.high = slot (10 bits) << 54 | slot sequence (8 bits) << 46 | delta (46 bits, two's complement)
// The slot sequence says whether the operation has reached its slot: slot.low (mod 256) is one less before,
// equal after. Nobody can move the head on before that, so eight bits are enough for the live operation.
constexpr unsigned kSequenceBits = 20;
constexpr unsigned kDeltaBits = 46;
constexpr std::uint64_t kSequenceMask = (1ULL << kSequenceBits) - 1;
constexpr std::uint64_t kDeltaMask = (1ULL << kDeltaBits) - 1;
constexpr std::uint64_t kBytesMax = (1ULL << 44) - 1;

std::uint64_t total_of(const Pair& head) {
  return head.low >> kSequenceBits;
}
std::uint32_t slot_of(const Pair& head) {
  return static_cast<std::uint32_t>(head.high >> 54);
}
std::uint8_t slot_sequence_of(const Pair& head) {
  return static_cast<std::uint8_t>(head.high >> kDeltaBits);
}
std::int64_t delta_of(const Pair& head) {
  return static_cast<std::int64_t>(head.high << (64 - kDeltaBits)) >> (64 - kDeltaBits);
}

Pair make_head(
    const Pair& before, std::uint64_t total, std::uint32_t slot, std::uint8_t seq, std::int64_t by) {
  return {(total << kSequenceBits) | ((before.low + 1) & kSequenceMask),
          (std::uint64_t{slot} << 54) | (std::uint64_t{seq} << kDeltaBits) |
              (static_cast<std::uint64_t>(by) & kDeltaMask)};
}

}  // namespace

// Carries the operation that `head` describes into its slot, if nobody has yet.
void VramAccount::finish(const Pair& head) {
  AtomicPair& target = ledger_->processes[slot_of(head) % kProcessesMax].used[device_];
  const Pair slot = target.load();
  const auto pending = static_cast<std::uint8_t>(slot_sequence_of(head) - 1);
  if (static_cast<std::uint8_t>(slot.low) != pending) return;
  // Seen from a stale head the slot could look pending by chance; the head must still stand now.
  if (!(device().head.load() == head)) return;
  target.replace(slot, {slot.low + 1, slot.high + static_cast<std::uint64_t>(delta_of(head))});
}

bool VramAccount::change(std::uint32_t slot, std::int64_t delta, std::uint64_t limit, VramAnswer& answer) {
  AtomicPair& head = device().head;
  for (;;) {
    const Pair before = head.load();
    finish(before);
    const std::uint64_t total = total_of(before);
    answer.used = total;
    if (delta > 0 && (total > limit || static_cast<std::uint64_t>(delta) > limit - total)) return false;
    const Pair own = ledger_->processes[slot].used[device_].load();
    const auto next = static_cast<std::uint8_t>(own.low + 1);
    // A scribbled ledger must not wrap the total: it only ever hurts its own tenant, and stays in range.
    const std::uint64_t after = delta < 0 && total < static_cast<std::uint64_t>(-delta)
                                    ? 0
                                    : total + static_cast<std::uint64_t>(delta);
    const Pair desired = make_head(before, after & kBytesMax, slot, next, delta);
    if (!head.replace(before, desired)) continue;
    finish(desired);
    answer.used = after;
    return true;
  }
}

VramAnswer VramAccount::reserve(std::uint32_t slot, std::uint64_t bytes, std::uint64_t limit) {
  VramAnswer answer{false, used(), limit};
  if (slot >= kProcessesMax || bytes > kBytesMax) return answer;
  if (limit > kBytesMax) limit = kBytesMax;
  answer.granted = change(slot, static_cast<std::int64_t>(bytes), limit, answer);
  if (!answer.granted) {
    device().refusals.fetch_add(1, std::memory_order_relaxed);
    return answer;
  }
  std::uint64_t peak = device().peak_bytes.load(std::memory_order_relaxed);
  while (answer.used > peak && !device().peak_bytes.compare_exchange_weak(peak, answer.used)) {}
  return answer;
}

void VramAccount::add_unasked(std::uint32_t slot, std::uint64_t bytes) {
  reserve(slot, bytes, kBytesMax);
}

void VramAccount::release(std::uint32_t slot, std::uint64_t bytes) {
  if (slot >= kProcessesMax || bytes == 0 || bytes > kBytesMax) return;
  VramAnswer ignored;
  change(slot, -static_cast<std::int64_t>(bytes), 0, ignored);
}

std::uint64_t VramAccount::reclaim(std::uint32_t slot, const ProcessIdentity& owner) {
  AtomicPair& head = device().head;
  const AtomicPair& identity = ledger_->processes[slot].identity;
  for (;;) {
    const Pair before = head.load();
    finish(before);
    const Pair own = ledger_->processes[slot].used[device_].load();
    // The order matters. A new owner can spend only after the slot was freed, and spending moves the head: if
    // the head is still `before` below, the slot belonged to `owner` throughout.
    if (!(identity.load() == pack(owner)) || own.high == 0) return 0;
    const std::uint64_t held = own.high & kBytesMax;
    const std::uint64_t total = total_of(before) < held ? 0 : total_of(before) - held;
    const auto next = static_cast<std::uint8_t>(own.low + 1);
    const Pair desired = make_head(before, total, slot, next, -static_cast<std::int64_t>(held));
    if (!head.replace(before, desired)) continue;
    finish(desired);
    return held;
  }
}

std::uint64_t VramAccount::used() const {
  return total_of(device().head.load());
}
std::uint64_t VramAccount::peak() const {
  return device().peak_bytes.load(std::memory_order_relaxed);
}
std::uint64_t VramAccount::used_by(std::uint32_t slot) const {
  return slot < kProcessesMax ? ledger_->processes[slot].used[device_].load().high : 0;
}

std::uint32_t claim_slot(LedgerRegion& ledger, const ProcessIdentity& self) {
  const Pair mine = pack(self);
  // Start at a place of one's own, so that 300 processes that attach at once do not fight for slot zero.
  const std::uint32_t start = (self.pid * 2654435761U) % kProcessesMax;
  for (std::uint32_t i = 0; i < kProcessesMax; ++i) {
    const std::uint32_t slot = (start + i) % kProcessesMax;
    AtomicPair& identity = ledger.processes[slot].identity;
    if (identity.load() == Pair{} && identity.replace({}, mine)) return slot;
  }
  return kNoSlot;
}

std::uint64_t reclaim_slot(LedgerRegion& ledger, std::uint32_t slot, const ProcessIdentity& owner) {
  AtomicPair& identity = ledger.processes[slot].identity;
  if (!(identity.load() == pack(owner))) return 0;
  std::uint64_t bytes = 0;
  for (std::uint32_t device = 0; device < kDevicesMax; ++device)
    bytes += VramAccount(&ledger, device).reclaim(slot, owner);
  identity.replace(pack(owner), {});
  return bytes;
}

std::uint64_t reclaim_dead(LedgerRegion& ledger, const ProcessIdentity& self) {
  std::uint64_t bytes = 0;
  for (std::uint32_t slot = 0; slot < kProcessesMax; ++slot) {
    const Pair packed = ledger.processes[slot].identity.load();
    if (packed == Pair{}) continue;
    const ProcessIdentity owner = unpack_identity(packed);
    if (liveness(owner, self) == Liveness::kDead) bytes += reclaim_slot(ledger, slot, owner);
  }
  return bytes;
}

}  // namespace tranche::guard
