// SPDX-License-Identifier: Apache-2.0
// Orders: who may place one, what it sets aside, what it trades, and how it ends.
#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "base/text.hpp"
#include "engine/billing.hpp"
#include "engine/contract_costs.hpp"
#include "engine/contract_terms.hpp"
#include "engine/decide.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_fill.hpp"
#include "engine/market_portion.hpp"
#include "engine/model_names.hpp"
#include "engine/offer.hpp"
#include "engine/refusals.hpp"
#include "engine/resale.hpp"
#include "engine/spend.hpp"
#include "engine/trade_rules.hpp"

namespace tranche::engine {
namespace {

constexpr std::uint32_t kQuantityMost = 10'000'000;
constexpr std::int64_t kPriceMost = 1'000'000'000;

// What an order is about; a book that it opens is not there yet.
const Instrument& traded_by(const State& state, const PlaceOrder& c) {
  const bool known = c.book != 0 && c.book <= state.market.instruments.size();
  return known ? state.market.instruments[c.book - 1].instrument : c.instrument;
}

std::optional<Refusal> shape_problem(const State& state, const PlaceOrder& c, Instant at) {
  if (c.quantity == 0 || c.quantity > kQuantityMost || c.quantity_min > c.quantity)
    return invalid("quantity",
                   "a quantity is above zero and at most 10000, and its minimum not above it",
                   "give for example 0.5");
  if (!traded_by(state, c).shape.empty() &&
      (c.quantity % kWholePortion != 0 || c.quantity_min % kWholePortion != 0))
    return invalid("quantity", "partitions are traded whole", "give a whole number of them");
  if (c.price <= 0 || c.price > kPriceMost)
    return invalid("price",
                   "a price is above zero, and at most " + price_text(kPriceMost),
                   "give one; prices go in steps of " + price_text(1));
  if (c.slots == 0)
    return invalid("window", "a window has a slot of 15 minutes at least", "give a longer window");
  if (c.slots_min > c.slots)
    return invalid("length_min",
                   "the shortest part is longer than the window, " + text(kSlot * c.slots),
                   "give a shorter --min, or a longer window");
  if (auto r = traded_window_problem(state.market.rules, c.first_slot, c.slots, at)) return r;
  if (c.time_in_force == TimeInForce::kGtd && c.expires <= at)
    return invalid("expires",
                   "an order good till a date needs a date to come",
                   "give a time after " + text(std::chrono::floor<std::chrono::seconds>(at)));
  if (c.floor < 0 || c.floor > c.price)
    return invalid("floor",
                   "a floor is not below zero, and not above the price",
                   "give a floor of at most " + price_text(c.price));
  return std::nullopt;
}

std::optional<Refusal> collar_problem(const State& state, const BookState& book, std::int64_t price) {
  const std::int64_t percent = state.market.rules.collar_percent;
  if (percent == 0 || book.last == 0) return std::nullopt;
  const std::int64_t low = book.last * (100 - std::min<std::int64_t>(percent, 99)) / 100;
  const std::int64_t high = book.last * (100 + percent) / 100;
  if (price >= low && price <= high) return std::nullopt;
  return Refusal{
      .reason = Reason::kPolicy,
      .rule = "collar",
      .message = "the price is too far from the last one, " + price_text(book.last),
      .fix = "give a price from " + price_text(std::max<std::int64_t>(low, 1)) + " to " + price_text(high),
      .limit = (price < low ? low : high) * kPriceStep,
      .used = book.last * kPriceStep,
      .asked = price * kPriceStep};
}

std::optional<Refusal> piece_problem(const Piece* piece, const PlaceOrder& c) {
  if (piece == nullptr || piece->owner != c.party || piece->book != c.book) return not_found();
  const std::uint32_t free = piece->free(c.first_slot, c.slots);
  if (c.quantity <= free) return std::nullopt;
  return Refusal{.reason = Reason::kConflict,
                 .rule = "piece",
                 .message = "that much is not left of the piece during that window",
                 .fix = "offer at most " + portion_text(free) + ", or another window",
                 .limit = piece->quantity,
                 .used = piece->quantity - free,
                 .asked = c.quantity};
}

MarketOrder order_of(const State& state, const PlaceOrder& c, const Piece* piece, Instant at) {
  const bool buys = c.side == Side::kBuy;
  return {.id = state.market.next_order,
          .book = c.book,
          .party = c.party,
          .tenant = tenant_of(state, c.party),
          .payer = payer_of(state, c.party),
          .side = c.side,
          .time_in_force = c.time_in_force,
          .restricted = (piece != nullptr && (!piece->audience.open() || piece->bought != ContractId{} ||
                                              device_under(state, *piece) != DeviceId{})) ||
                        has_trade_rules(state, c.party),
          .workload = static_cast<std::uint8_t>(c.workload),
          .price = c.price,
          .first_slot = c.first_slot,
          .slots = c.slots,
          .quantity = c.quantity,
          .open = c.quantity,
          .quantity_min = c.quantity_min,
          .slots_min = c.slots_min != 0 ? c.slots_min : (buys ? c.slots : 1),
          .expires = c.time_in_force == TimeInForce::kGtd ? c.expires : Instant{},
          .piece = c.piece.value,
          .floor = c.floor,
          .price_first = c.price,
          .decays_from = c.floor > 0 ? at : Instant{}};
}

// What is kept of the order for a quote does not come back when that is over.
void withdraw_quoted(Market& market, std::uint64_t order) {
  for (auto& [id, quote] : market.quotes)
    for (QuotedAsk& one : quote.asks)
      if (one.of == order) one.withdrawn = true;
}

}  // namespace

std::optional<Refusal> trade_problem(const State& state, PartyId party, Side side) {
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent)) {
    const auto& flag = side == Side::kBuy ? at->quota.may_buy : at->quota.may_sell;
    if (flag.value_or(true)) continue;
    const std::string where = at->id == kPlatform ? "platform" : path_of(state, at->id);
    return Refusal{.reason = Reason::kPolicy,
                   .rule = side == Side::kBuy ? "may_buy" : "may_sell",
                   .where = where,
                   .message = where + " does not let anybody below it " +
                              (side == Side::kBuy ? "buy" : "sell") + " on the exchange",
                   .fix = "ask its administrator for: tranche quota set " + where +
                          (side == Side::kBuy ? " --buy yes" : " --sell yes")};
  }
  return std::nullopt;
}

void promise(Market& market, const MarketOrder& order, int sign) {
  Piece* piece = market.pieces.find(order.piece);
  if (piece == nullptr) return;
  for (std::int64_t slot = order.first_slot; slot < order.end_slot(); ++slot) {
    std::uint32_t& promised = piece->promised[static_cast<std::size_t>(slot - piece->first_slot)];
    promised += sign > 0 ? order.open_at(slot) : 0U - order.open_at(slot);
  }
}

std::uint32_t Piece::free(std::int64_t first, std::uint32_t count) const {
  if (first < first_slot || first + count > first_slot + slots) return 0;
  const auto begin = promised.begin() + (first - first_slot);
  return quantity - *std::max_element(begin, begin + count);
}

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const PlaceOrder& command) {
  if (command.first_slot == 0) return decide(state, envelope, actor, from_now_on(command, envelope.at));
  const Market& market = state.market;
  const Piece* piece = command.side == Side::kSell ? market.pieces.find(command.piece.value) : nullptr;
  const Action action = command.side == Side::kBuy
                            ? Action::kSubmitJob
                            : right_to_sell(piece == nullptr ? ContractId{} : piece->bought);
  if (auto r = check_access(state, actor, action, command.party)) return refuse(*r);
  if (command.book > market.instruments.size()) return refuse(not_found());
  Events events;
  events.reserve(1);
  if (piece != nullptr && piece->bought != ContractId{}) {
    const Resale resale{command.party, piece->bought, command.quantity, command.first_slot, command.slots};
    if (auto r = resale_problem(state, resale)) return refuse(*r);
  }
  if (piece != nullptr && device_under(state, *piece) != DeviceId{} && piece->bought == ContractId{}) {
    // What the piece no longer offers may have been booked since.
    const Instrument& traded = market.instruments[piece->book - 1].instrument;
    const Offer offer{command.party,
                      piece->device,
                      command.quantity,
                      command.first_slot,
                      command.slots,
                      traded.isolation,
                      traded.shape,
                      piece->start};
    if (const auto place = place_offer(state, envelope.at, offer); !place) return refuse(place.error());
  }
  if (command.book != 0) {
    if (auto r = append_order(state, command, piece, envelope.at, events)) return refuse(*r);
    append_claims(state, envelope.at, events);
    return events;
  }
  PlaceOrder in_book = command;
  const std::string& model = command.instrument.model;
  if (model.empty() || model.size() > 63)
    return refuse(invalid("model", "an order names a model", "give for example H100"));
  in_book.book = book_for(state, command);
  if (in_book.book == 0) {
    if (const auto unknown = unknown_model(state, model))
      return refuse(invalid("model", unknown->message, unknown->fix));
    in_book.book = market.instruments.size() + 1;
    in_book.instrument = canonical(command.instrument);
    events.emplace_back(BookOpened{in_book.book, in_book.instrument});
  }
  if (auto r = append_order(state, in_book, piece, envelope.at, events)) return refuse(*r);
  append_claims(state, envelope.at, events);
  return events;
}

std::optional<Refusal> append_order(
    const State& state, const PlaceOrder& command, const Piece* piece, Instant at, Events& events) {
  const Market& market = state.market;
  const bool buys = command.side == Side::kBuy;
  if (auto r = shape_problem(state, command, at)) return r;
  if (command.book <= market.instruments.size()) {
    if (auto r = collar_problem(state, market.instruments[command.book - 1], command.price)) return r;
  }
  if (!buys) {
    if (auto r = piece_problem(piece, command)) return r;
  }
  if (auto r = trade_problem(state, command.party, command.side)) return r;
  if (buys) {
    const std::string& region = traded_by(state, command).region;
    if (auto r = region_problem(state, command.party, command.workload, region)) return r;
  }
  events.emplace_back(OrderPlaced{command.party, order_of(state, command, piece, at)});
  MarketOrder& order = std::get<OrderPlaced>(events.back()).order;
  const auto held = cover_of(state, order);
  if (!held) return invalid("value", "the order is worth more than one order may be", "split it");
  order.held = *held;
  const AccountId account = credit_account(state, order.payer);
  if (!can_hold(state.ledger, account, *held)) return not_covered(state, account, *held);
  if (buys) {
    if (auto r = spend_problem(state, command.party, *held)) return r;
  }
  const Admitting context{state, piece};
  const policy::Match match = market.books.match(order, admission_of(context));
  const bool rests = order.time_in_force == TimeInForce::kGtc || order.time_in_force == TimeInForce::kGtd;
  if (match.fills.empty() && (!rests || match.met_itself)) return nothing_left(state, order);
  if (match.fills.empty()) return std::nullopt;
  const MarketOrder taker = order;  // Appending may move the event.
  const Money paid = append_fills(state, taker, match, at, events, market.next_contract);
  if (match.met_itself) {
    events.emplace_back(OrderClosed{taker.id, taker.party, CloseReason::kSelfTrade, taker.book});
  } else if (!rests && !match.complete) {
    events.emplace_back(OrderClosed{taker.id, taker.party, CloseReason::kNotFilled, taker.book});
  }
  if (buys) append_budget_alerts(state, command.party, paid, at, events);
  return std::nullopt;
}

void apply(State& state, const Envelope&, const BookOpened& event) {
  state.market.instruments.push_back({.id = event.book, .instrument = event.instrument});
  state.market.by_instrument.emplace(event.instrument, event.book);
}

void apply(State& state, const Envelope&, const OrderPlaced& event) {
  const MarketOrder& order = event.order;
  hold(state.ledger, credit_account(state, order.payer), order.held);
  if (order.side == Side::kBuy) {
    reserve_spend(state, order.party, order.held);
  } else {
    promise(state.market, order, 1);
    listing_changed(state, {order.piece});
  }
  state.market.next_order = order.id + 1;
  state.market.books.rest(order);
  note_due(state.market, order);
}

void apply(State& state, const Envelope& envelope, const OrderFilled& event) {
  Market& market = state.market;
  const MarketOrder* bid = market.books.order(event.buy);
  const MarketOrder* ask = market.books.order(event.sell);
  TRANCHE_CHECK(bid != nullptr && ask != nullptr);
  const Currency currency = currency_of(state);
  const AccountId payer = AccountId::make(bid->payer, AccountKind::kCredit, currency);
  release(state.ledger, payer, event.released);
  const std::array legs{Leg{payer, {-event.value.micros}},
                        Leg{AccountId::make(kPlatform, AccountKind::kEscrow, currency), event.value}};
  post(state.ledger, legs);
  reserve_spend(state, event.party, {-event.released.micros});
  add_spent(state, event.party, event.value, envelope.at);
  CostLine& line = cost_line(state, {.party = event.party, .payer = bid->payer, .at = envelope.at});
  count_as_delivered(line);
  line.amount.micros += event.value.micros;
  Contract& contract =
      market.contracts.insert(event.contract.value,
                              Contract{.id = event.contract,
                                       .book = bid->book,
                                       .buyer = bid->party,
                                       .seller = ask->party,
                                       .buyer_pays = bid->payer,
                                       .seller_pays = ask->payer,
                                       .piece = {ask->piece},
                                       .price = event.price,
                                       .first_slot = event.first_slot,
                                       .slots = event.slots,
                                       .quantity = event.quantity,
                                       .workload = bid->workload,
                                       .start = std::max(start_of(event.first_slot), envelope.at),
                                       .end = start_of(event.first_slot + event.slots),
                                       .value = event.value,
                                       .bond = event.bond,
                                       .settled = std::max(start_of(event.first_slot), envelope.at),
                                       .counted = Duration{}});
  line.allocated += bought_milliseconds(state, contract);
  note_due(market, contract);
  listing_changed(state, contract.piece);
  market.next_contract = event.contract.value + 1;
  note_trade(market, event, bid->book, envelope.at);
  market.books.set_held(event.buy, {bid->held.micros - event.released.micros});
  market.books.set_held(event.sell, {ask->held.micros - event.bond.micros});
  market.books.take(event.buy, event.first_slot, event.slots, event.quantity);
  market.books.take(event.sell, event.first_slot, event.slots, event.quantity);
  if (!market.decaying.empty() && market.books.order(event.sell) == nullptr)
    market.decaying.erase(event.sell);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const CancelOrder& command) {
  const MarketOrder* order = state.market.books.order(command.order);
  if (order == nullptr) return refuse(not_found());
  if (!may(state, actor, right_to_trade(state, *order), order->party)) return refuse(not_found());
  if (order->quoted)
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "quote",
                          .message = id_text("ord_", order->id) + " is kept for a quote",
                          .fix = "wait until that is over, a minute or so"});
  return Events{OrderClosed{order->id, order->party, CloseReason::kCancelled, order->book}};
}

void apply(State& state, const Envelope&, const OrderClosed& event) {
  const MarketOrder* order = state.market.books.order(event.order);
  if (order == nullptr) return;
  release(state.ledger, credit_account(state, order->payer), order->held);
  if (order->side == Side::kBuy) {
    reserve_spend(state, order->party, {-order->held.micros});
  } else {
    promise(state.market, *order, -1);
    listing_changed(state, {order->piece});
    if (order->floor > 0) state.market.decaying.erase(order->id);
    if (event.reason == CloseReason::kCancelled) withdraw_quoted(state.market, event.order);
  }
  state.market.books.remove(event.order);
}

void apply(State& state, const Envelope&, const OrderRepriced& event) {
  const MarketOrder* order = state.market.books.order(event.order);
  if (order == nullptr) return;
  release(state.ledger, credit_account(state, order->payer), {order->held.micros - event.held.micros});
  state.market.books.reprice(event.order, event.price);
  state.market.books.set_held(event.order, event.held);
  if (event.price <= order->floor) state.market.decaying.erase(event.order);
}

}  // namespace tranche::engine
