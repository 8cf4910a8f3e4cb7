// SPDX-License-Identifier: Apache-2.0
#include "api/market_views.hpp"

#include <algorithm>

#include "engine/market_claims.hpp"
#include "engine/market_fill.hpp"
#include "engine/offer.hpp"
#include "engine/spend.hpp"
#include "engine/trade_rules.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::api {
namespace {

constexpr std::size_t kLevelsMost = 100;

std::vector<wire::DepthLevel> levels(const engine::State& state,
                                     std::uint64_t book,
                                     std::int64_t slot,
                                     engine::Side side) {
  std::vector<wire::DepthLevel> out;
  state.market.books.each_at(book, slot, side, [&](const engine::MarketOrder& order) {
    const Money price = hourly(order.price);
    if (out.empty() || out.back().hourly != price) {
      if (out.size() == kLevelsMost) return false;
      out.push_back({.hourly = price});
    }
    out.back().milli += order.open_at(slot);
    ++out.back().orders;
    return true;
  });
  return out;
}

// What is traded in a book, as one would ask for it.
std::string gpus_of(const engine::State& state, std::uint64_t book) {
  if (book == 0 || book > state.market.instruments.size()) return {};
  const engine::Instrument& traded = state.market.instruments[book - 1].instrument;
  return traded.shape.empty() ? traded.model : traded.model + ":" + traded.shape;
}

std::optional<std::int64_t> delivered_milli(const engine::State& state, PartyId seller) {
  const auto found = state.market.reliability.find(seller);
  if (found == state.market.reliability.end() || found->second.sold == 0) return std::nullopt;
  return static_cast<std::int64_t>(Int128{found->second.delivered} * 1000 / found->second.sold);
}

// Who may trade for a party sees what was traded for it, with whatever token.
bool may_trade_for(const engine::State& state, engine::Actor actor, engine::Side side, PartyId party) {
  actor.scope = engine::Scope::kAdmin;
  if (side == engine::Side::kSell) return engine::may(state, actor, engine::Action::kManageCapacity, party);
  return engine::is_at_or_below(state, actor.party, party) &&
         engine::may(state, actor, engine::Action::kSubmitJob, party);
}

std::string state_name(engine::ContractState state) {
  return std::string(wire::name_of(state));
}

}  // namespace

bool sees_trades(const engine::State& state, const engine::Actor& actor, engine::Side side, PartyId party) {
  return party == actor.party || engine::may(state, actor, engine::Action::kViewBilling, party) ||
         may_trade_for(state, actor, side, party);
}

Money hourly(std::int64_t price) {
  return {price * engine::kPriceStep};
}

std::int64_t price_of(Money hourly, engine::Side side) {
  if (hourly.micros <= 0) return 0;
  const std::int64_t up = side == engine::Side::kSell ? engine::kPriceStep - 1 : 0;
  return (std::min(hourly.micros, INT64_MAX - up) + up) / engine::kPriceStep;
}

std::uint32_t slots_of(Duration length) {
  const auto slots =
      (std::clamp(length, Duration{}, Duration(std::chrono::hours(24 * 400))) + engine::kSlot - Duration(1)) /
      engine::kSlot;
  return static_cast<std::uint32_t>(slots);
}

struct Slots {
  std::int64_t first = 0;  // Zero: from now on.
  std::uint32_t count = 0;
};

// Whole slots of a window: what is bought covers all of it, and what is sold is nothing outside of it.
Slots slots_in(Instant from, Duration length, engine::Side side) {
  if (from == Instant{}) return {0, slots_of(length)};
  constexpr Duration kMost = std::chrono::hours(24 * 400);
  const Duration before = from - engine::start_of(engine::slot_of(from));
  const Duration whole = std::clamp(length, Duration{}, kMost);
  if (side == engine::Side::kBuy) return {engine::slot_of(from), slots_of(whole + before)};
  const std::int64_t first = engine::slot_of(from + (before == Duration{} ? before : engine::kSlot - before));
  const std::int64_t end = engine::slot_of(from + whole);
  return {first, static_cast<std::uint32_t>(std::max<std::int64_t>(end - first, 0))};
}

engine::Instrument instrument_of(const wire::InstrumentBody& body) {
  return {.model = body.model,
          .shape = wire::lower_case(body.shape),
          .region = body.region,
          // What the hardware keeps apart is hard, whatever else was said.
          .isolation = body.shape.empty() ? body.isolation : wire::Isolation::kHard,
          .interruptible = body.interruptible};
}

wire::InstrumentBody body_of(const engine::Instrument& instrument) {
  return {.model = instrument.model,
          .shape = instrument.shape,
          .region = instrument.region,
          .isolation = instrument.isolation,
          .interruptible = instrument.interruptible};
}

// What was bought is sold by whoever in the tenant bought it; whether that may be done for him is asked
// later.
PartyId seller_of(const engine::State& state, const wire::ListingBody& body, PartyId caller) {
  if (!body.owner.empty()) return engine::find_path(state, body.owner);
  const auto* bought = state.market.contracts.find(parse_id("ctr_", body.contract).value_or(0));
  const bool of_his =
      bought != nullptr && engine::tenant_of(state, bought->buyer) == engine::tenant_of(state, caller);
  return of_his ? bought->buyer : caller;
}

// A device is where it is, and what was bought is what it is: what says otherwise would count for nothing.
std::optional<wire::Problem> instead_of_model_problem(const wire::ListingBody& body) {
  const wire::InstrumentBody& said = body.instrument;
  if (!body.node.empty() || !said.region.empty())
    return wire::Problem{
        body.node.empty() ? "region" : "node",
        "a node or a region is named where a model is offered",
        "leave it out: " + (body.device.empty() ? body.contract : body.device) + " is where it is"};
  const bool as_another =
      !said.shape.empty() || said.interruptible || said.isolation != wire::Isolation::kSoft;
  if (body.contract.empty() || !as_another) return std::nullopt;
  return wire::Problem{"instrument",
                       "what was bought is sold on as what it is",
                       "leave the shape, the isolation and interruptible out"};
}

Result<engine::ListCapacity, wire::Problem> listing_of(const engine::State& state,
                                                       const wire::ListingBody& body,
                                                       PartyId caller) {
  const Slots window = slots_in(body.from, body.length, engine::Side::kSell);
  engine::ListCapacity command{
      .owner = seller_of(state, body, caller),
      .instrument = instrument_of(body.instrument),
      .device = {parse_id("gpu_", body.device).value_or(0)},
      .bought = {parse_id("ctr_", body.contract).value_or(0)},
      .quantity = static_cast<std::uint32_t>(std::clamp<std::int64_t>(body.milli, 0, INT32_MAX)),
      .first_slot = window.first,
      .slots = window.count,
      .price = price_of(body.hourly, engine::Side::kSell),
      .floor = price_of(body.floor, engine::Side::kSell),
      .quantity_min = static_cast<std::uint32_t>(std::clamp<std::int64_t>(body.milli_min, 0, INT32_MAX)),
      .slots_min = std::max<std::uint32_t>(slots_of(body.length_min), 1),
      .audience = {{}, body.kinds}};
  for (const std::string& name : body.to) {
    const PartyId party = engine::find_path(state, name);
    if (party == PartyId{})
      return refuse(wire::Problem{"to", "there is no party '" + name + "'", "name a tenant"});
    command.audience.parties.push_back(party);
  }
  if (!body.device.empty() || !body.contract.empty()) {
    if (auto problem = instead_of_model_problem(body)) return refuse(std::move(*problem));
    return command;
  }
  if (body.instrument.model.empty())
    return refuse(
        wire::Problem{"device", "an offer is of a device, a model or a contract", "name one of them"});
  if (!body.node.empty() && !state.index.nodes_by_name.contains(body.node))
    return refuse(
        wire::Problem{"node", "there is no node '" + body.node + "'", "tranche node list shows them"});
  command.device = engine::device_to_offer(
      state, command, body.node.empty() ? NodeId{} : state.index.nodes_by_name.at(body.node));
  if (command.device == DeviceId{})
    return refuse(wire::Problem{
        "model",
        "no " + body.instrument.model + " of yours can be offered" +
            (body.node.empty() ? "" : " on " + body.node) +
            (body.instrument.region.empty() ? "" : " in " + body.instrument.region),
        "tranche gpus shows devices; what is simulated or a peer's needs: tranche market certify"});
  return command;
}

wire::BookView book_view(const engine::BookState& book) {
  return {.book = book.id,
          .instrument = body_of(book.instrument),
          .last = hourly(book.last),
          .day_open = hourly(book.day_open),
          .day_high = hourly(book.day_high),
          .day_low = hourly(book.day_low),
          .day_volume_milli_slots = book.day_volume};
}

wire::BookList books_view(const engine::State& state) {
  wire::BookList out;
  for (const engine::BookState& book : state.market.instruments) out.items.push_back(book_view(book));
  return out;
}

wire::DepthView depth_view(const engine::State& state, std::uint64_t book, std::int64_t slot) {
  return {.book = book,
          .slot = engine::start_of(slot),
          .bids = levels(state, book, slot, engine::Side::kBuy),
          .asks = levels(state, book, slot, engine::Side::kSell)};
}

wire::FillList fills_view(const engine::State& state, std::uint64_t book) {
  wire::FillList out;
  const auto& trades = state.market.trades;
  for (std::size_t i = 0; i < trades.size(); ++i) {
    const engine::Trade& trade = trades[(state.market.trade_count - 1 - i) % trades.size()];
    if (book != 0 && trade.book != book) continue;
    out.items.push_back({.book = trade.book,
                         .at = trade.at,
                         .hourly = hourly(trade.price),
                         .from = engine::start_of(trade.first_slot),
                         .to = engine::start_of(trade.first_slot + trade.slots),
                         .milli = trade.quantity});
  }
  return out;
}

wire::OrderView order_view(const engine::State& state, const engine::MarketOrder& order) {
  const std::int64_t open = order.open_area() / order.slots;
  return {.id = id_text("ord_", order.id),
          .party = engine::path_of(state, order.party),
          .book = order.book,
          .gpus = gpus_of(state, order.book),
          .side = order.side == engine::Side::kBuy ? wire::MarketSide::kBuy : wire::MarketSide::kSell,
          .hourly = hourly(order.price),
          .milli = order.quantity,
          .milli_open = open,
          .from = engine::start_of(order.first_slot),
          .to = engine::start_of(order.end_slot()),
          .held = order.held,
          .life = static_cast<wire::OrderLife>(order.time_in_force),
          .milli_min = order.quantity_min,
          .length_min = engine::kSlot * order.slots_min,
          .expires = order.expires == Instant{} ? std::nullopt : std::optional(order.expires),
          .quoted = order.quoted};
}

wire::ContractView contract_view(const engine::State& state, const engine::Contract& contract, bool buyer) {
  const engine::Piece* piece = state.market.pieces.find(contract.piece.value);
  const DeviceId device = piece == nullptr ? DeviceId{} : engine::device_under(state, *piece);
  Money paid_out{contract.earned.micros - contract.fee.micros};
  for (const engine::Payout& one : contract.unpaid) paid_out.micros -= one.amount.micros;
  const PartyId other = buyer ? contract.seller : contract.buyer;
  return {
      .id = id_text("ctr_", contract.id.value),
      .role = buyer ? "buyer" : "seller",
      .party = engine::path_of(state, buyer ? contract.buyer : contract.seller),
      .book = contract.book,
      .gpus = gpus_of(state, contract.book),
      .state = state_name(contract.state),
      .hourly = hourly(contract.price),
      .milli = contract.quantity,
      .from = contract.start,
      .to = contract.end,
      .value = contract.value,
      .earned = contract.earned,
      .fee = contract.fee,
      .refunded = contract.refunded,
      .penalty = contract.penalty,
      .bond = contract.bond,
      .seller_delivers = delivered_milli(state, contract.seller),
      .counterparty = state.market.rules.named ? engine::path_of(state, engine::tenant_of(state, other)) : "",
      .device = device == DeviceId{} ? "" : text(device),
      .reclaimed = contract.reclaimed,
      .paid_out = paid_out};
}

wire::SellerView seller_view(const engine::State& state, PartyId party) {
  const auto account = engine::AccountId::make(
      engine::payer_of(state, party), engine::AccountKind::kPayable, engine::currency_of(state));
  wire::SellerView view{.party = engine::path_of(state, party),
                        .to_come = engine::balance(state.ledger, account),
                        .delivered = delivered_milli(state, party)};
  const auto past = state.market.reliability.find(party);
  if (past == state.market.reliability.end()) return view;
  view.contracts = static_cast<std::uint32_t>(past->second.contracts);
  view.sold = past->second.value;
  view.earned = past->second.earned;
  view.fee = past->second.fee;
  view.refunded = past->second.refunded;
  view.penalty = past->second.penalty;
  return view;
}

void add_contract(wire::SellerView& seller, const engine::Contract& contract) {
  using engine::ContractState;
  ++seller.contracts;
  const bool over =
      contract.state == ContractState::kCompleted || contract.state == ContractState::kDefaulted;
  if (!over) ++seller.running;
  seller.sold.micros += contract.value.micros;
  seller.earned.micros += contract.earned.micros;
  seller.fee.micros += contract.fee.micros;
  seller.refunded.micros += contract.refunded.micros;
  seller.penalty.micros += contract.penalty.micros;
}

wire::QuoteView quote_view(const engine::State& state, engine::PlaceOrder asked, PartyId party, Instant now) {
  wire::QuoteView out;
  asked.party = party;
  asked.slots = std::max<std::uint32_t>(asked.slots, 1);
  if (asked.first_slot == 0) {  // As the order would be: from the slot that runs, of which the rest is paid.
    asked.first_slot = engine::slot_of(now);
    if (engine::start_of(asked.first_slot) < now) ++asked.slots;
  }
  engine::MarketOrder bid{.id = state.market.next_order,
                          .book = engine::book_for(state, asked),
                          .party = party,
                          .tenant = engine::tenant_of(state, party),
                          .time_in_force = engine::TimeInForce::kIoc,
                          .restricted = engine::has_trade_rules(state, party),
                          .workload = static_cast<std::uint8_t>(asked.workload),
                          .price = asked.price == 0 ? INT32_MAX : asked.price,
                          .first_slot = asked.first_slot,
                          .slots = asked.slots,
                          .quantity = asked.quantity,
                          .open = asked.quantity,
                          .quantity_min = asked.quantity_min};
  bid.slots_min = asked.slots_min == 0 ? bid.slots : asked.slots_min;
  const engine::Admitting context{state, nullptr};
  std::int64_t area = 0;
  for (const auto& fill : state.market.books.match(bid, engine::admission_of(context)).fills) {
    if (out.best == Money{}) out.best = hourly(fill.price);
    area += std::int64_t{fill.quantity} * fill.slots;
    out.cost_now.micros += engine::value_of(fill, now).micros;
  }
  out.milli_now = area / bid.slots;
  if (area == 0) {
    const engine::Refusal none = engine::nothing_left(state, bid);
    out.why = none.message + "; " + none.fix;
  }
  out.most = asked.price == 0 ? out.cost_now : Money{asked.price * asked.quantity * bid.slots};
  return out;
}

wire::QuoteView quote_view(const engine::State& state, const engine::Quote& quote) {
  wire::QuoteView out{.most = quote.cost, .id = id_text("quo_", quote.id.value), .expires = quote.expires};
  const engine::MarketOrder* bid = state.market.books.order(quote.bid);
  std::int64_t area = 0;
  for (const engine::QuotedAsk& one : quote.asks) {
    const engine::MarketOrder* part = state.market.books.order(one.ask);
    if (part == nullptr) continue;
    if (out.best == Money{} || hourly(part->price) < out.best) out.best = hourly(part->price);
    area += part->open_area();
    // Of a slot that runs the rest is paid: less, the later it is taken.
    const policy::Fill fill{one.ask, part->price, part->first_slot, part->slots, part->open};
    out.cost_now.micros += engine::value_of(fill, state.now).micros;
  }
  if (bid != nullptr) out.milli_now = area / bid->slots;
  return out;
}

wire::CandleList candles_view(const engine::BookState& book, bool by_day) {
  wire::CandleList out{.book = book.id, .instrument = body_of(book.instrument)};
  for (const engine::Candle& one : by_day ? book.days : book.hours)
    out.items.push_back({.start = one.start,
                         .open = hourly(one.open),
                         .high = hourly(one.high),
                         .low = hourly(one.low),
                         .close = hourly(one.close),
                         .volume_milli_slots = one.volume});
  return out;
}

engine::PlaceOrder command_of(const wire::OrderBody& body) {
  const Slots window = slots_in(body.from, body.length, engine::Side::kBuy);
  return {.instrument = instrument_of(body.instrument),
          .side = engine::Side::kBuy,
          .time_in_force = static_cast<engine::TimeInForce>(body.life),
          .workload = body.workload,
          .price = price_of(body.hourly, engine::Side::kBuy),
          .first_slot = window.first,
          .slots = window.count,
          .quantity = static_cast<std::uint32_t>(std::clamp<std::int64_t>(body.milli, 0, INT32_MAX)),
          .quantity_min = static_cast<std::uint32_t>(std::clamp<std::int64_t>(body.milli_min, 0, INT32_MAX)),
          .slots_min = slots_of(body.length_min),
          .expires = body.expires};
}

}  // namespace tranche::api
