// SPDX-License-Identifier: Apache-2.0
// The claims of contracts: how they end, are cut short, and come back.
#include "engine/market_claims.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/access.hpp"
#include "engine/attempt.hpp"
#include "engine/booking_limits.hpp"
#include "engine/claim_parts.hpp"

namespace tranche::engine {
namespace {

struct KeptPart {
  TimeSpan span{};
  std::uint32_t quantity = 0;
};

std::multimap<ContractId, ContractId> sold_on(const State& state) {
  std::multimap<ContractId, ContractId> made_of;
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    const Piece* piece = state.market.pieces.find(contract.piece.value);
    const bool over =
        contract.state == ContractState::kCompleted || contract.state == ContractState::kDefaulted;
    if (!over && piece != nullptr && piece->bought != ContractId{})
      made_of.emplace(piece->bought, contract.id);
  }
  return made_of;
}

// What of a contract its buyer did not sell on, by time.
std::vector<KeptPart> kept_parts(const State& state,
                                 const Contract& contract,
                                 const TimeSpan& span,
                                 ClaimsMade& made) {
  if (!made.sold_on) made.sold_on = sold_on(state);
  std::map<Instant, std::int64_t> steps{{span.from, contract.quantity}, {span.to, 0}};
  const auto [first, last] = made.sold_on->equal_range(contract.id);
  for (auto one = first; one != last; ++one) {
    const Contract& other = *state.market.contracts.find(one->second.value);
    const Instant from = std::max(other.start, span.from);
    const Instant to = std::min(other.end, span.to);
    if (from >= to) continue;
    steps[from] -= other.quantity;
    steps[to] += other.quantity;
  }
  std::vector<KeptPart> parts;
  std::int64_t kept = 0;
  for (auto at = steps.begin(); at != steps.end(); ++at) {
    kept += at->second;
    const auto next = std::next(at);
    if (next != steps.end() && kept > 0)
      parts.push_back({{at->first, next->first}, static_cast<std::uint32_t>(kept)});
  }
  return parts;
}

}  // namespace

const Booking* claim_of(const State& state, ContractId contract) {
  const Booking* claim = state.booking(state.index.calendar->claim_of(contract));
  return claim == nullptr || claim->state != BookingState::kBooked ? nullptr : claim;
}

const Instrument& instrument_of(const State& state, std::uint64_t book) {
  static const Instrument kFraction;
  return book == 0 || book > state.market.instruments.size() ? kFraction
                                                             : state.market.instruments[book - 1].instrument;
}

const Piece* piece_under(const State& state, const Piece& piece) {
  if (piece.bought == ContractId{}) return &piece;
  const Contract* contract = state.market.contracts.find(piece.bought.value);
  const Piece* before = contract == nullptr ? nullptr : state.market.pieces.find(contract->piece.value);
  return before == nullptr ? nullptr : piece_under(state, *before);
}

WindowsBooked claim_for(
    const State& state, ClaimId id, PartyId buyer, ContractId contract, const Portion& portion) {
  const PartyId tenant = tenant_of(state, buyer);
  return {.id = id,
          .kind = ClaimKind::kContract,
          .owner = buyer,
          .tenant = tenant,
          .name = "bought on the market",
          .ask = ask_of(state, portion),
          .trust_group = trust_group(state, tenant),
          .zone = "UTC",
          .contract = contract};
}

void append_claim_end(const State& state, ContractId contract, Events& events) {
  const Booking* claim = claim_of(state, contract);
  if (claim == nullptr) return;
  for (const LeaseId id : leases_in(state, *claim)) {
    const Lease& lease = state.leases.at(id);
    if (lease.live() && !lease.revoked)
      events.push_back(
          revocation(state, lease, EndReason::kWindowClosed, "its contract was interrupted", JobId{}));
  }
  events.emplace_back(BookingCancelled{claim->id, claim->owner});
}

void append_claim_cut(const State& state, ContractId contract, Instant end, Events& events) {
  const Booking* claim = claim_of(state, contract);
  if (claim == nullptr) return;
  std::vector<BookedWindow> windows;
  for (BookedWindow window : claim->windows) {
    if (window.from >= end) continue;
    window.to = std::min(window.to, end);
    windows.push_back(std::move(window));
  }
  events.emplace_back(
      WindowsChanged{claim->id, std::move(windows), "taken back by its seller, with notice", claim->owner});
}

std::optional<Refusal> append_claim_again(
    const State& state, Instant at, const Contract& contract, ClaimsMade& made, Events& events) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  const Device* device = piece == nullptr ? nullptr : state.device(device_under(state, *piece));
  const TimeSpan span{std::max(contract.start, at), contract.end};
  if (device == nullptr || span.from >= span.to || claim_of(state, contract.id) != nullptr)
    return std::nullopt;
  const Instrument& traded = instrument_of(state, contract.book);
  const std::uint8_t start = piece_under(state, *piece)->start;
  const auto portion = [&](std::uint32_t quantity) {
    return Portion{*device, quantity, traded.isolation, traded.shape, start};
  };
  WindowsBooked booked = claim_for(
      state, {state.next_claim + made.count}, contract.buyer, contract.id, portion(contract.quantity));
  const WantedEnvironment none;
  std::vector<CalendarClaim> claims = made.on[device->id];
  for (const KeptPart& part : kept_parts(state, contract, span, made)) {
    const wire::Ask ask = ask_of(state, portion(part.quantity));
    const WindowAsk wanted{ask, booked.trust_group, none, part.span, {}, device->id, true, start, &claims};
    auto places = find_places(state, at, wanted);
    if (!places) {
      return Refusal{.reason = Reason::kConflict,
                     .rule = "calendar",
                     .message = text(device->id) + " is not free for the rest of the contract",
                     .fix = "free it first, or let the contract run out"};
    }
    claims.push_back({.from = part.span.from,
                      .to = part.span.to,
                      .use = use_of(*device, ask, booked.trust_group, places->front().slices.front())});
    booked.windows.push_back({.from = part.span.from, .to = part.span.to, .places = std::move(*places)});
  }
  if (booked.windows.empty()) return std::nullopt;  // All of it was sold on.
  ++made.count;
  made.on[device->id] = std::move(claims);
  events.emplace_back(std::move(booked));
  return std::nullopt;
}

}  // namespace tranche::engine
