// SPDX-License-Identifier: Apache-2.0
#include "guard/ceiling.hpp"

#include <algorithm>

namespace tranche::guard {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kPieceNs = 16'000'000;
static_assert(kPieceNs * (kSavedKept - 1) > kSecondNs, "what was saved a second ago is still there");

std::int64_t difference(std::uint64_t left, std::uint64_t right) {
  return static_cast<std::int64_t>(left - right);
}

}  // namespace

std::uint64_t Ceiling::earned(std::uint64_t wall_ns) const {
  return static_cast<std::uint64_t>(static_cast<Word128>(wall_ns) * rules_->share.load(kRelaxed) /
                                    kShareWhole);
}

std::uint64_t Ceiling::allowance(std::uint64_t now) const {
  for (int attempt = 0;; ++attempt) {
    const std::uint32_t seq = rules_->allowance_seq.load(std::memory_order_acquire);
    const std::uint64_t base = rules_->allowance_ns.load(kRelaxed);
    const std::uint64_t at = rules_->allowance_at.load(kRelaxed);
    const std::uint64_t since = earned(now > at ? now - at : 0);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool whole = (seq & 1) == 0 && rules_->allowance_seq.load(kRelaxed) == seq;
    // A broker that died in the middle of a change leaves the sequence odd for ever: take what is there.
    if (whole || attempt >= 1000) return base + since;
  }
}

// One look in each piece of a second, by whoever comes first.
void Ceiling::remember(std::int64_t saved, std::uint64_t now) {
  const std::uint64_t piece = now / kPieceNs;
  AtomicPair& place = ledger_->saved[piece % kSavedKept];
  const Pair seen = place.load();
  if (seen.low / kPieceNs != piece)
    place.replace(seen, {now, static_cast<std::uint64_t>(std::max<std::int64_t>(saved, 0))});
}

// What was saved a while ago, and what of it somebody saw: time that nobody stood at the gate for earns
// nothing beyond the burst, whatever it adds up to.
struct Ceiling::Past {
  bool known = false;
  std::int64_t seen = 0;
  std::int64_t saved = 0;
};

// Where nobody looked, nobody used anything either: from the first look after `then` it is known how much
// there was.
Ceiling::Past Ceiling::past(std::uint64_t then, std::uint64_t now) const {
  for (std::uint64_t piece = then / kPieceNs; piece <= now / kPieceNs; ++piece) {
    const Pair look = ledger_->saved[piece % kSavedKept].load();
    if (look.low / kPieceNs != piece) continue;
    const auto seen = static_cast<std::int64_t>(std::min(look.high, kCeilingBurstNs + kKeptOffMaxNs));
    if (look.low <= then) return {true, seen, seen + static_cast<std::int64_t>(earned(then - look.low))};
    return {true, seen, seen - static_cast<std::int64_t>(earned(look.low - then))};
  }
  return {};
}

// Whoever has less saved than a second ago used more than its share meanwhile, by just that much.
std::int64_t Ceiling::left(std::uint64_t now) {
  const auto burst = static_cast<std::int64_t>(kCeilingBurstNs);
  const Past before = now > kSecondNs ? past(now - kSecondNs, now) : Past{};
  const std::int64_t untouchable = std::max<std::int64_t>(before.saved - burst, 0);
  if (!before.known) ledger_->kept_off_ns.store(0, kRelaxed);
  for (;;) {
    std::uint64_t forfeited = ledger_->forfeited_ns.load(kRelaxed);
    std::uint64_t kept_off = ledger_->kept_off_ns.load(kRelaxed);
    const std::int64_t saved = difference(allowance(now), charged_ns(*ledger_) + forfeited);
    const auto claim = static_cast<std::int64_t>(std::min(kept_off, kKeptOffMaxNs));
    const std::int64_t most = burst + std::max({claim, before.seen - burst, std::int64_t{0}});
    const auto made_up_for = static_cast<std::uint64_t>(std::max<std::int64_t>(saved - burst, 0));
    if (made_up_for < kept_off) ledger_->kept_off_ns.compare_exchange_strong(kept_off, made_up_for, kRelaxed);
    const std::uint64_t gone =
        forfeited + static_cast<std::uint64_t>(std::max<std::int64_t>(saved - most, 0));
    if (saved > most && !ledger_->forfeited_ns.compare_exchange_weak(forfeited, gone, kRelaxed)) continue;
    remember(std::min(saved, most), now);
    return std::min(saved, most) - untouchable;
  }
}

// What a fair share used beyond itself while the device was free was its right: when the broker falls silent
// and the share becomes a ceiling, only the last of it is still owed.
std::int64_t Ceiling::orphan_left(std::uint64_t now) {
  const std::int64_t now_left = left(now);
  const auto owed_at_most = static_cast<std::int64_t>(kOrphanDebtNs);
  if (now_left >= -owed_at_most) return now_left;
  ledger_->forfeited_ns.fetch_sub(static_cast<std::uint64_t>(-now_left - owed_at_most), kRelaxed);
  return -owed_at_most;
}

void Ceiling::woken_late(std::uint64_t by_ns) {
  const std::uint64_t kept_off = ledger_->kept_off_ns.load(kRelaxed) + earned(by_ns);
  ledger_->kept_off_ns.store(std::min(kept_off, kKeptOffMaxNs), kRelaxed);
}

}  // namespace tranche::guard
