// SPDX-License-Identifier: Apache-2.0
// The claims of contracts: how they end, are cut short, and come back.
#include "engine/market_claims.hpp"

#include <algorithm>
#include <set>

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

Portion portion_of(const State& state, const Contract& contract, const Device& device, const Piece& piece) {
  const Instrument& traded = instrument_of(state, contract.book);
  return {device, contract.quantity, traded.isolation, traded.shape, piece_under(state, piece)->start};
}

std::vector<BookedWindow> parts_within(const std::vector<BookedWindow>& windows, const TimeSpan& span) {
  std::vector<BookedWindow> parts;
  for (const BookedWindow& window : windows) {
    const Instant from = std::max(window.from, span.from);
    const Instant to = std::min(window.to, span.to);
    if (window.state != WindowState::kClosed && from < to)
      parts.push_back({.from = from, .to = to, .places = window.places});
  }
  return parts;
}

// As the events leave them; nothing: the claim is over by then.
std::optional<std::vector<BookedWindow>> windows_after(const Booking* claim, const Events& events) {
  if (claim == nullptr) return std::nullopt;
  std::optional windows = claim->windows;
  for (const Event& event : events) {
    const auto* changed = std::get_if<WindowsChanged>(&event);
    if (changed != nullptr && changed->id == claim->id) windows = changed->windows;
    const auto* cancelled = std::get_if<BookingCancelled>(&event);
    if (cancelled != nullptr && cancelled->id == claim->id) windows.reset();
  }
  return windows;
}

const BookedWindow* window_over(const std::vector<BookedWindow>& windows, const TimeSpan& span) {
  const auto found = std::find_if(windows.begin(), windows.end(), [&](const BookedWindow& window) {
    return window.state != WindowState::kClosed && window.from <= span.from && window.to >= span.to;
  });
  return found == windows.end() ? nullptr : &*found;
}

const Slice& slice_in(const BookedWindow& window) {
  return window.places.front().slices.front();
}

// Whether one goes on where the other ends, so that work need not stop there.
bool goes_on(const BookedWindow& before, const BookedWindow& after) {
  const Slice& one = slice_in(before);
  const Slice& other = slice_in(after);
  return before.state != WindowState::kClosed && before.to == after.from && one.device == other.device &&
         one.milli == other.milli && one.start == other.start;
}

// Both together: where they meet, one window with the sum.
std::vector<BookedWindow> joined(const State& state,
                                 const std::vector<BookedWindow>& own,
                                 const std::vector<BookedWindow>& more) {
  std::vector<BookedWindow> all;
  std::set<Instant> edges;
  for (const auto* windows : {&own, &more}) {
    for (const BookedWindow& window : *windows) {
      if (window.state == WindowState::kClosed) all.push_back(window);
      if (window.state != WindowState::kClosed) edges.insert({window.from, window.to});
    }
  }
  for (auto from = edges.begin(); from != edges.end() && std::next(from) != edges.end(); ++from) {
    const TimeSpan span{*from, *std::next(from)};
    const BookedWindow* mine = window_over(own, span);
    const BookedWindow* added = window_over(more, span);
    if (mine == nullptr && added == nullptr) continue;
    BookedWindow part = mine != nullptr ? *mine : *added;
    part.from = span.from;
    part.to = span.to;
    if (mine != nullptr && span.from > mine->from) part.state = WindowState::kPlanned;
    if (mine != nullptr && added != nullptr) {
      Slice& slice = part.places.front().slices.front();
      const std::uint32_t sum = std::uint32_t{slice.milli} + slice_in(*added).milli;
      slice = slice_of(state, {state.devices.at(slice.device), sum});
    }
    if (!all.empty() && goes_on(all.back(), part))
      all.back().to = part.to;
    else
      all.push_back(std::move(part));
  }
  return all;
}

// What was sold on of a contract, however often, is not delivered for longer than that.
void append_cuts_above(const State& state,
                       ContractId contract,
                       const TimeSpan& span,
                       std::vector<BookedWindow>& back,
                       Events& events) {
  const auto made_of = sold_on(state);
  std::vector<ContractId> ended{contract};
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const auto [first, last] = made_of.equal_range(ended[i]);
    for (auto one = first; one != last; ++one) {
      ended.push_back(one->second);
      const auto windows = windows_after(claim_of(state, one->second), events);
      const auto parts = parts_within(windows.value_or(std::vector<BookedWindow>{}), span);
      if (parts.empty()) continue;
      back = joined(state, back, parts);
      append_claim_cut(state, one->second, span.from, events);
    }
  }
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
  const auto before = windows_after(claim, events);
  if (!before) return;
  const bool shorter =
      std::any_of(before->begin(), before->end(), [&](const BookedWindow& one) { return one.to > end; });
  if (!shorter) return;
  std::vector<BookedWindow> windows;
  for (BookedWindow window : *before) {
    if (window.from >= end) continue;
    window.to = std::min(window.to, end);
    windows.push_back(std::move(window));
  }
  if (windows.empty()) return append_claim_end(state, contract, events);
  events.emplace_back(
      WindowsChanged{claim->id, std::move(windows), "taken back by its seller, with notice", claim->owner});
}

void append_claim_back(const State& state, const Contract& contract, Instant from, Events& events) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  if (piece == nullptr) return;
  const Contract* under = state.market.contracts.find(piece->bought.value);
  const TimeSpan span{from, under == nullptr ? contract.end : under->end};
  std::vector<BookedWindow> back;
  if (const Booking* claim = claim_of(state, contract.id)) back = parts_within(claim->windows, span);
  append_cuts_above(state, contract.id, span, back, events);
  if (under == nullptr || back.empty()) return;
  const Booking* own = claim_of(state, under->id);
  if (const auto windows = windows_after(own, events)) {
    events.emplace_back(WindowsChanged{
        own->id, joined(state, *windows, back), "taken back from whom it was sold to", own->owner});
    return;
  }
  const Piece* of = state.market.pieces.find(under->piece.value);
  const Device* device = of == nullptr ? nullptr : state.device(device_under(state, *of));
  // One that is interrupted has it with the rest when it is resumed.
  if (device == nullptr || under->state != ContractState::kAgreed) return;
  const auto before = std::count_if(events.begin(), events.end(), [](const Event& event) {
    return std::holds_alternative<WindowsBooked>(event);
  });
  const ClaimId id{state.next_claim + static_cast<std::uint64_t>(before)};
  WindowsBooked booked =
      claim_for(state, id, under->buyer, under->id, portion_of(state, *under, *device, *of));
  booked.windows = std::move(back);
  events.emplace_back(std::move(booked));
}

std::optional<Refusal> append_claim_again(
    const State& state, Instant at, const Contract& contract, ClaimsMade& made, Events& events) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  const Device* device = piece == nullptr ? nullptr : state.device(device_under(state, *piece));
  const TimeSpan span{std::max(contract.start, at), contract.end};
  if (device == nullptr || span.from >= span.to || claim_of(state, contract.id) != nullptr)
    return std::nullopt;
  Portion portion = portion_of(state, contract, *device, *piece);
  WindowsBooked booked =
      claim_for(state, {state.next_claim + made.count}, contract.buyer, contract.id, portion);
  const WantedEnvironment none;
  std::vector<CalendarClaim> claims = made.on[device->id];
  for (const KeptPart& part : kept_parts(state, contract, span, made)) {
    portion.quantity = part.quantity;
    const wire::Ask ask = ask_of(state, portion);
    const WindowAsk wanted{
        ask, booked.trust_group, none, part.span, {}, device->id, true, portion.start, &claims};
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
