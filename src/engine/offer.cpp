// SPDX-License-Identifier: Apache-2.0
#include "engine/offer.hpp"

#include <algorithm>

#include "engine/access.hpp"
#include "engine/market_claims.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kWholeDevice = 1000;

// The most that pieces of the device offer at once in any slot of the window.
std::int64_t offered(const State& state, const Offer& offer) {
  const auto pieces = state.market.pieces_of.find(offer.device);
  if (pieces == state.market.pieces_of.end()) return 0;
  std::vector<std::int64_t> by_slot(offer.slots, 0);
  for (const PieceId id : pieces->second) {
    const Piece* piece = state.market.pieces.find(id.value);
    if (piece == nullptr) continue;
    const std::int64_t first = std::max(piece->first_slot, offer.first_slot);
    const std::int64_t end = std::min(piece->first_slot + piece->slots, offer.first_slot + offer.slots);
    for (std::int64_t slot = first; slot < end; ++slot)
      by_slot[static_cast<std::size_t>(slot - offer.first_slot)] +=
          piece->promised[static_cast<std::size_t>(slot - piece->first_slot)];
  }
  return by_slot.empty() ? 0 : *std::max_element(by_slot.begin(), by_slot.end());
}

}  // namespace

std::optional<Refusal> offer_problem(const State& state, Instant now, const Offer& offer) {
  const auto found = state.market.certified.find(offer.device);
  if (found == state.market.certified.end() || !is_at_or_below(state, offer.owner, found->second.owner))
    return not_found();
  if (!found->second.accepted) {
    return Refusal{.reason = Reason::kPolicy,
                   .rule = "acceptance",
                   .message = text(offer.device) + " has not passed its acceptance test",
                   .fix = "wait for the test, or offer another device"};
  }
  const std::int64_t taken = offered(state, offer);
  if (taken + offer.quantity <= kWholeDevice) return calendar_problem(state, now, offer);
  return Refusal{.reason = Reason::kConflict,
                 .rule = "calendar",
                 .message = text(offer.device) + " is offered or sold already during that window",
                 .fix = taken < kWholeDevice
                            ? "offer at most " + std::to_string(kWholeDevice - taken) + " thousandths of it"
                            : "choose another window or device",
                 .limit = kWholeDevice,
                 .used = taken,
                 .asked = offer.quantity};
}

}  // namespace tranche::engine
