// SPDX-License-Identifier: Apache-2.0
#include "engine/market_fill.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "engine/market_claims.hpp"
#include "engine/resale.hpp"
#include "engine/trade_rules.hpp"

namespace tranche::engine {
namespace {

constexpr Int128 kValueMost = Int128{1} << 52;  // Of one order; the ledger keeps far more.
constexpr std::int64_t kPieceKept = 96 * 8;     // Slots after its window; contracts are settled by then.
constexpr std::size_t kDueMost = 10'000;        // Events of one tick: what is left waits for the next.

bool admits(const void* context, const MarketOrder& ask, const MarketOrder& bid) {
  const auto& [state, fresh] = *static_cast<const Admitting*>(context);
  const Piece* piece =
      fresh != nullptr && fresh->id.value == ask.piece ? fresh : state.market.pieces.find(ask.piece);
  if (piece == nullptr || !may_meet(state, *piece, ask, bid)) return false;
  const std::int64_t first = std::max(ask.first_slot, bid.first_slot);
  if (!can_be_sold(state, *piece, ask, first, std::min(ask.end_slot(), bid.end_slot()))) return false;
  const auto& [parties, kinds] = piece->audience;
  const bool known = parties.empty() || std::any_of(parties.begin(), parties.end(), [&](PartyId party) {
                       return is_at_or_below(state, bid.party, party);
                     });
  const auto kind = static_cast<wire::WorkloadKind>(bid.workload);
  if (!may_trade_with(state, bid.party, ask.party, kind) ||
      !may_trade_with(state, ask.party, bid.party, kind))
    return false;
  return known && (kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end());
}

struct Running {  // An order in the middle of a match that fills it more than once.
  std::uint64_t id = 0;
  std::int64_t area = 0;
  Money held{};
};

Running& running(std::vector<Running>& all, const MarketOrder& order) {
  for (Running& one : all) {
    if (one.id == order.id) return one;
  }
  return all.emplace_back(Running{order.id, order.open_area(), order.held});
}

// An ask's price on its way from where it began to its floor, which it reaches as its window begins.
std::int64_t price_at(const MarketOrder& ask, Instant at) {
  const Duration all = start_of(ask.first_slot) - ask.decays_from;
  if (all <= Duration{} || at >= start_of(ask.first_slot)) return ask.floor;
  const Duration gone = std::max(at - ask.decays_from, Duration{});
  const Int128 fall = Int128{ask.price_first - ask.floor} * gone.count() / all.count();
  return ask.price_first - static_cast<std::int64_t>(fall);
}

// Cancelled orders stay behind; without this a busy trader would fill the memory with them. Whoever adds one
// looks at two, round and round: at most about as many are gone as rest, and nobody waits for a long search.
void drop_gone(const policy::OrderBooks& books, Due& due) {
  for (int i = 0; i < 2 && !due.ids.empty(); ++i) {
    if (due.looked >= due.ids.size()) due.looked = 0;
    if (books.order(due.ids[due.looked]) != nullptr) {
      ++due.looked;
      continue;
    }
    due.ids[due.looked] = due.ids.back();
    due.ids.pop_back();
  }
}

// What rests of those, oldest first.
std::vector<std::uint64_t> resting(const policy::OrderBooks& books, const Due& due) {
  std::vector<std::uint64_t> ids;
  for (const std::uint64_t id : due.ids)
    if (books.order(id) != nullptr) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void append_decay(const State& state, Instant at, Events& events) {
  const Admitting context{state, nullptr};
  for (const std::uint64_t id : state.market.decaying) {
    const MarketOrder* resting = state.market.books.order(id);
    if (events.size() > kDueMost) return;
    if (resting == nullptr) continue;
    MarketOrder ask = *resting;
    const std::int64_t price = price_at(ask, at);
    if (price >= ask.price) continue;
    ask.price = price;
    const Money held = std::min(ask.held, cover_of(state, ask).value_or(ask.held));
    ask.held = held;
    events.emplace_back(OrderRepriced{id, ask.party, price, held});
    if (start_of(ask.first_slot) <= at) continue;
    // One ask a tick may trade: a second one would be matched against bids that the first has taken.
    const policy::Match match = state.market.books.match(ask, admission_of(context));
    if (match.fills.empty()) continue;
    append_fills(state, ask, match, at, events, state.market.next_contract);
    append_claims(state, at, events);
    return;
  }
}

}  // namespace

bool can_be_sold(const State& state,
                 const Piece& piece,
                 const MarketOrder& ask,
                 std::int64_t first_slot,
                 std::int64_t end_slot) {
  if (!is_held(state, piece, ask, first_slot, end_slot)) return false;
  const Device* device = state.device(device_under(state, piece));
  return device == nullptr || is_in_service(device->state);
}

Money value_of(const policy::Fill& fill, Instant at) {
  const std::int64_t whole = fill.price * fill.quantity * fill.slots;
  const Duration gone = at - start_of(fill.first_slot);
  if (gone <= Duration{}) return {whole};
  const Int128 passed = Int128{fill.price} * fill.quantity * gone.count() / kSlot.count();
  return {whole - static_cast<std::int64_t>(passed)};
}

policy::Admission admission_of(const Admitting& context) {
  return {&admits, &context};
}

std::optional<Money> cover_of(const State& state, const MarketOrder& order) {
  const Int128 value = Int128{order.price} * order.open_area();
  if (value > kValueMost) return std::nullopt;
  if (order.side == Side::kBuy) return Money{static_cast<std::int64_t>(value)};
  return Money{static_cast<std::int64_t>((value * state.market.rules.bond_bps + 9'999) / 10'000)};
}

Money append_fills(const State& state,
                   const MarketOrder& taker,
                   const policy::Match& match,
                   Instant at,
                   Events& events,
                   std::uint64_t next) {
  Money paid{};
  if (match.fills.empty()) return paid;
  std::vector<Running> open;
  open.reserve(match.fills.size() + 1);
  for (const policy::Fill& fill : match.fills) {
    const MarketOrder& maker = *state.market.books.order(fill.maker);
    const MarketOrder& bid = taker.side == Side::kBuy ? taker : maker;
    const MarketOrder& ask = taker.side == Side::kBuy ? maker : taker;
    const std::int64_t area = std::int64_t{fill.quantity} * fill.slots;
    Running& offer = running(open, ask);
    const auto bond = area == offer.area ? offer.held.micros
                                         : static_cast<std::int64_t>(Int128{offer.held.micros} * area /
                                                                     std::max<std::int64_t>(offer.area, 1));
    offer.held.micros -= bond;
    offer.area -= area;
    const Money value = value_of(fill, at);
    paid.micros += value.micros;
    events.emplace_back(OrderFilled{.contract = {next++},
                                    .party = bid.party,
                                    .seller = ask.party,
                                    .buy = bid.id,
                                    .sell = ask.id,
                                    .price = fill.price,
                                    .first_slot = fill.first_slot,
                                    .slots = fill.slots,
                                    .quantity = fill.quantity,
                                    .value = value,
                                    .released = {bid.price * area},
                                    .bond = {bond}});
  }
  return paid;
}

void note_due(Market& market, const MarketOrder& order) {
  std::int64_t slot = order.end_slot() - order.slots_min + 1;
  if (order.expires != Instant{}) slot = std::min(slot, slot_of(order.expires + kSlot - Duration(1)));
  Due& due = market.orders_due[slot];
  due.ids.push_back(order.id);
  if (order.floor > 0 && order.floor < order.price) market.decaying.insert(order.id);
  drop_gone(market.books, due);
}

void note_piece(Market& market, const Piece& piece) {
  if (piece.device != DeviceId{}) market.pieces_of[piece.device].push_back(piece.id);
  market.pieces_due[piece.first_slot + piece.slots + kPieceKept].push_back(piece.id);
}

void forget_past(Market& market, Instant at) {
  const std::int64_t now = slot_of(at);
  bool any = false;
  while (!market.orders_due.empty() && market.orders_due.begin()->first <= now) {
    const auto& ids = market.orders_due.begin()->second.ids;
    const bool alive = std::any_of(
        ids.begin(), ids.end(), [&](std::uint64_t id) { return market.books.order(id) != nullptr; });
    if (alive) break;
    market.orders_due.erase(market.orders_due.begin());
    any = true;
  }
  if (any) market.books.drop_empty_lanes();
  forget_contracts_due(market, at);
  while (!market.pieces_due.empty() && market.pieces_due.begin()->first <= now) {
    for (const PieceId id : market.pieces_due.begin()->second) {
      const Piece* piece = market.pieces.find(id.value);
      if (piece == nullptr) continue;
      const auto of = market.pieces_of.find(piece->device);
      if (of != market.pieces_of.end()) std::erase(of->second, id);
      market.pieces.erase(id.value);
    }
    market.pieces_due.erase(market.pieces_due.begin());
  }
}

void append_market_due(const State& state, Instant at, bool quiet, Events& events) {
  const std::size_t most = events.size() + kDueMost;
  append_quotes_over(state, at, events);
  for (const auto& [slot, due] : state.market.orders_due) {
    if (slot > slot_of(at)) break;
    for (const std::uint64_t id : resting(state.market.books, due)) {
      const MarketOrder* order = state.market.books.order(id);
      if (order->quoted) continue;
      if (events.size() >= most) return;
      events.emplace_back(OrderClosed{id, order->party, CloseReason::kExpired, order->book});
    }
  }
  // Prices fall only when nothing expires: both would look at the same orders.
  if (quiet && events.size() + kDueMost == most) append_decay(state, at, events);
  append_contracts_due(state, at, events);
}

}  // namespace tranche::engine
