// SPDX-License-Identifier: Apache-2.0
#include "engine/quote.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/text.hpp"
#include "engine/decide.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_fill.hpp"
#include "engine/refusals.hpp"
#include "engine/spend.hpp"
#include "engine/trade_rules.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kQuotesMost = 8;  // Of a tenant at a time: each keeps capacity from everybody else.
constexpr std::int64_t kAnyPrice = INT32_MAX;

std::optional<Refusal> room_problem(const State& state, PartyId party) {
  if (state.market.rules.quote_for == Duration{})
    return Refusal{.reason = Reason::kPolicy,
                   .rule = "quote_for",
                   .message = "this exchange keeps no quotes",
                   .fix = "buy at once with a limit: nothing costs more than that"};
  const PartyId tenant = tenant_of(state, party);
  const auto live =
      std::count_if(state.market.quotes.begin(), state.market.quotes.end(), [&](const auto& one) {
        return tenant_of(state, one.second.party) == tenant;
      });
  if (static_cast<std::size_t>(live) < kQuotesMost) return std::nullopt;
  return Refusal{.reason = Reason::kQuota,
                 .rule = "quotes",
                 .where = path_of(state, tenant),
                 .message = path_of(state, tenant) + " has 8 quotes that are kept already",
                 .fix = "buy on one of them, drop it, or wait until it expires",
                 .limit = kQuotesMost,
                 .used = live,
                 .asked = 1};
}

MarketOrder bid_of(const State& state, const KeepQuote& c) {
  return {.id = state.market.next_order,
          .book = c.book,
          .party = c.party,
          .tenant = tenant_of(state, c.party),
          .payer = payer_of(state, c.party),
          .side = Side::kBuy,
          .time_in_force = TimeInForce::kIoc,
          .restricted = has_trade_rules(state, c.party),
          .workload = static_cast<std::uint8_t>(c.workload),
          .quoted = true,
          .price = c.price == 0 ? kAnyPrice : c.price,
          .first_slot = c.first_slot,
          .slots = c.slots,
          .quantity = c.quantity,
          .open = c.quantity,
          .quantity_min = c.quantity_min,
          .slots_min = c.slots_min != 0 ? c.slots_min : c.slots};
}

// Parts of what rests, kept apart under numbers of their own, each with its part of the bond.
class Parts {
 public:
  Parts(const State& state, std::uint64_t next) : state_(state), next_(next) {}

  MarketOrder take(const policy::Fill& fill) {
    const MarketOrder& of = *state_.market.books.order(fill.maker);
    auto [left, fresh] = left_.try_emplace(of.id, Left{of.open_area(), of.held});
    const std::int64_t area = std::int64_t{fill.quantity} * fill.slots;
    Left& rest = left->second;
    const Money bond{area == rest.area ? rest.held.micros
                                       : static_cast<std::int64_t>(Int128{rest.held.micros} * area /
                                                                   std::max<std::int64_t>(rest.area, 1))};
    rest.area -= area;
    rest.held.micros -= bond.micros;
    MarketOrder part = of;
    part.id = next_++;
    part.quoted = true;
    part.first_slot = fill.first_slot;
    part.slots = fill.slots;
    part.quantity = part.open = fill.quantity;
    part.quantity_min = std::min(of.quantity_min, fill.quantity);
    part.slots_min = std::min(of.slots_min, fill.slots);
    part.open_by_slot.clear();
    part.held = bond;
    return part;
  }

 private:
  struct Left {
    std::int64_t area = 0;
    Money held{};
  };
  const State& state_;
  std::uint64_t next_;
  std::map<std::uint64_t, Left> left_;
};

std::optional<Refusal> window_problem(const State& state, const KeepQuote& c, Instant at) {
  if (c.quantity == 0 || c.slots == 0 || c.slots_min > c.slots || c.quantity_min > c.quantity || c.price < 0)
    return invalid("window", "a quote is for a quantity and a window", "give for example H100:0.5 --for 3h");
  return traded_window_problem(state.market.rules, c.first_slot, c.slots, at);
}

Money cost_of(const MarketOrder& part) {
  return {part.price * part.open_area()};
}

std::optional<Refusal> quote_problem(const State& state, const Actor& actor, const Quote* quote) {
  if (quote == nullptr || !may(state, actor, Action::kSubmitJob, quote->party)) return not_found();
  return std::nullopt;
}

const Quote* find_quote(const State& state, QuoteId id) {
  const auto found = state.market.quotes.find(id);
  return found == state.market.quotes.end() ? nullptr : &found->second;
}

// A seller may lose what he offers while it is quoted: who sold it to him takes it back, or its device fails.
std::optional<Refusal> lost_problem(const State& state, const Quote& quote) {
  const bool there = std::all_of(quote.asks.begin(), quote.asks.end(), [&](const QuotedAsk& one) {
    const MarketOrder* part = state.market.books.order(one.ask);
    const Piece* piece = part == nullptr ? nullptr : state.market.pieces.find(part->piece);
    return piece != nullptr && can_be_sold(state, *piece, *part, part->first_slot, part->end_slot());
  });
  if (there) return std::nullopt;
  return Refusal{.reason = Reason::kConflict,
                 .rule = "contract",
                 .message = "what " + id_text("quo_", quote.id.value) +
                            " is for was taken back from its seller, or its device is out of service",
                 .fix = "ask again: tranche market quote … --keep; the money for this one is free at " +
                        text(quote.expires)};
}

}  // namespace

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const KeepQuote& command) {
  const KeepQuote wanted = command.first_slot == 0 ? from_now_on(command, envelope.at) : command;
  if (auto r = check_access(state, actor, Action::kSubmitJob, wanted.party)) return refuse(*r);
  if (wanted.book > state.market.instruments.size()) return refuse(not_found());
  if (auto r = window_problem(state, wanted, envelope.at)) return refuse(*r);
  if (auto r = trade_problem(state, wanted.party, Side::kBuy)) return refuse(*r);
  MarketOrder bid = bid_of(state, wanted);
  if (wanted.book == 0) return refuse(nothing_left(state, bid));
  const std::string& region = state.market.instruments[wanted.book - 1].instrument.region;
  if (auto r = region_problem(state, wanted.party, wanted.workload, region)) return refuse(*r);
  if (auto r = room_problem(state, wanted.party)) return refuse(*r);
  const Admitting context{state, nullptr};
  const policy::Match match = state.market.books.match(bid, admission_of(context));
  if (match.fills.empty()) return refuse(nothing_left(state, bid));
  QuoteKept kept{.party = wanted.party,
                 .quote = {.id = {state.market.next_quote},
                           .party = wanted.party,
                           .bid = bid.id,
                           .expires = envelope.at + state.market.rules.quote_for}};
  Parts parts(state, bid.id + 1);
  for (const policy::Fill& fill : match.fills) {
    kept.asks.push_back(parts.take(fill));
    kept.quote.asks.push_back({kept.asks.back().id, fill.maker});
    kept.quote.cost.micros += cost_of(kept.asks.back()).micros;
    if (bid.price == kAnyPrice || fill.price > bid.price) bid.price = fill.price;
  }
  bid.held = kept.quote.cost;
  const AccountId account = credit_account(state, bid.payer);
  if (!can_hold(state.ledger, account, bid.held)) return refuse(not_covered(state, account, bid.held));
  if (auto r = spend_problem(state, wanted.party, bid.held)) return refuse(*r);
  kept.bid = std::move(bid);
  return Events{std::move(kept)};
}

void apply(State& state, const Envelope&, const QuoteKept& event) {
  Market& market = state.market;
  hold(state.ledger, credit_account(state, event.bid.payer), event.bid.held);
  reserve_spend(state, event.party, event.bid.held);
  market.books.rest(event.bid);
  market.next_order = event.bid.id + 1;
  for (std::size_t i = 0; i < event.asks.size(); ++i) {
    const MarketOrder& part = event.asks[i];
    const std::uint64_t of = event.quote.asks[i].of;
    const MarketOrder* maker = market.books.order(of);
    TRANCHE_CHECK(maker != nullptr);
    market.books.set_held(of, {maker->held.micros - part.held.micros});
    market.books.take(of, part.first_slot, part.slots, part.open);
    if (market.books.order(of) == nullptr) market.decaying.erase(of);
    market.books.rest(part);
    market.next_order = part.id + 1;
  }
  market.quotes.insert_or_assign(event.quote.id, event.quote);
  market.next_quote = event.quote.id.value + 1;
}

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const TakeQuote& command) {
  const Quote* quote = find_quote(state, command.quote);
  if (auto r = quote_problem(state, actor, quote)) return refuse(*r);
  if (envelope.at >= quote->expires)
    return refuse(
        Refusal{.reason = Reason::kConflict,
                .rule = "expired",
                .message = id_text("quo_", quote->id.value) + " was kept until " + text(quote->expires),
                .fix = "ask again: tranche market quote … --keep"});
  if (auto r = lost_problem(state, *quote)) return refuse(*r);
  Events events;
  Money paid{};
  std::uint64_t next = state.market.next_contract;
  for (const QuotedAsk& one : quote->asks) {
    const MarketOrder& part = *state.market.books.order(one.ask);
    const policy::Fill fill{one.ask, part.price, part.first_slot, part.slots, part.open};
    const Money value = value_of(fill, envelope.at);
    paid.micros += value.micros;
    events.emplace_back(OrderFilled{.contract = {next++},
                                    .party = quote->party,
                                    .seller = part.party,
                                    .buy = quote->bid,
                                    .sell = one.ask,
                                    .price = part.price,
                                    .first_slot = part.first_slot,
                                    .slots = part.slots,
                                    .quantity = part.open,
                                    .value = value,
                                    .released = cost_of(part),
                                    .bond = part.held});
  }
  append_budget_alerts(state, quote->party, paid, envelope.at, events);
  events.emplace_back(QuoteEnded{quote->id, quote->party, true});
  append_claims(state, envelope.at, events);
  return events;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const DropQuote& command) {
  const Quote* quote = find_quote(state, command.quote);
  if (auto r = quote_problem(state, actor, quote)) return refuse(*r);
  return Events{QuoteEnded{quote->id, quote->party, false}};
}

bool quotes_due(const State& state, Instant at) {
  return std::any_of(state.market.quotes.begin(), state.market.quotes.end(), [&](const auto& one) {
    return one.second.expires <= at;
  });
}

void append_quotes_over(const State& state, Instant at, Events& events) {
  for (const auto& [id, quote] : state.market.quotes)
    if (quote.expires <= at) events.emplace_back(QuoteEnded{id, quote.party, false});
}

// Money and capacity are free again; an ask whose seller took the rest back meanwhile goes, too.
void apply(State& state, const Envelope&, const QuoteEnded& event) {
  Market& market = state.market;
  const auto found = market.quotes.find(event.quote);
  if (found == market.quotes.end()) return;
  if (const MarketOrder* bid = market.books.order(found->second.bid)) {
    release(state.ledger, credit_account(state, bid->payer), bid->held);
    reserve_spend(state, bid->party, {-bid->held.micros});
    market.books.remove(bid->id);
  }
  for (const QuotedAsk& one : found->second.asks) {
    const MarketOrder* part = market.books.order(one.ask);
    if (part == nullptr) continue;  // It was sold.
    if (one.withdrawn) {
      release(state.ledger, credit_account(state, part->payer), part->held);
      promise(market, *part, -1);
      listing_changed(state, {part->piece});
      market.books.remove(one.ask);
    } else {
      market.books.unquote(one.ask);
      note_due(market, *part);
    }
  }
  market.quotes.erase(found);
}

}  // namespace tranche::engine
