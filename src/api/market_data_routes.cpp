// SPDX-License-Identifier: Apache-2.0
// What the exchange shows to everybody, live and without names; and what it shows a seller of himself.
#include <charconv>

#include "api/api.hpp"
#include "api/event_feed.hpp"
#include "api/market_views.hpp"
#include "api/problem.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

// The events of one record as a follower of the exchange is told of them.
class Ticker {
 public:
  Ticker(const State& state, net::Stream& stream, std::uint64_t sequence, Instant at)
      : state_(state), stream_(stream), sequence_(std::to_string(sequence)), at_(at) {}

  bool operator()(const engine::OrderFilled& fill) const {
    const engine::Contract* contract = state_.market.contracts.find(fill.contract.value);
    if (contract == nullptr) return true;
    const wire::MarketTrade trade{.fill = {.book = contract->book,
                                           .at = at_,
                                           .hourly = hourly(fill.price),
                                           .from = engine::start_of(fill.first_slot),
                                           .to = engine::start_of(fill.first_slot + fill.slots),
                                           .milli = fill.quantity},
                                  .book = book_view(state_.market.instruments[contract->book - 1])};
    return tell("trade", wire::to_json(trade)) && top(contract->book, fill.first_slot);
  }
  bool operator()(const engine::OrderPlaced& placed) const {
    return top(placed.order.book, placed.order.first_slot);
  }
  bool operator()(const engine::OrderClosed& closed) const {
    return closed.book == 0 || top(closed.book, engine::slot_of(at_));
  }
  // What a quote keeps is gone for everybody else, and comes back when it is over.
  bool operator()(const engine::QuoteKept& kept) const { return top(kept.bid.book, kept.bid.first_slot); }
  bool operator()(const engine::QuoteEnded&) const {
    for (const engine::BookState& book : state_.market.instruments)
      if (!top(book.id, engine::slot_of(at_))) return false;
    return true;
  }
  bool operator()(const engine::OrderRepriced& repriced) const {
    const engine::MarketOrder* order = state_.market.books.order(repriced.order);
    return order == nullptr || top(order->book, order->first_slot);
  }
  template <class Other>
  bool operator()(const Other&) const {
    return true;
  }

 private:
  [[nodiscard]] bool top(std::uint64_t book, std::int64_t slot) const {
    const wire::DepthView depth = depth_view(state_, book, slot);
    wire::MarketTop best{.book = book, .slot = depth.slot};
    if (!depth.bids.empty()) best.bid = depth.bids.front();
    if (!depth.asks.empty()) best.ask = depth.asks.front();
    return tell("top", wire::to_json(best));
  }
  [[nodiscard]] bool tell(const char* type, const std::string& data) const {
    return stream_.write(net::sse_event(sequence_, type, data));
  }

  const State& state_;
  net::Stream& stream_;
  std::string sequence_;
  Instant at_;
};

void follow_market(Api& api, Call call) {
  follow(api,
         std::move(call),
         [](const State& state,
            const Actor&,
            net::Stream& stream,
            std::uint64_t sequence,
            const Envelope& envelope,
            const engine::Events& events) {
           const Ticker ticker(state, stream, sequence, envelope.at);
           for (const engine::Event& event : events)
             if (!std::visit(ticker, event)) return false;
           return true;
         });
}

void show_earnings(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    std::map<PartyId, wire::SellerView> sellers;
    for (const std::uint64_t id : state.market.contracts.ids()) {
      const engine::Contract& contract = *state.market.contracts.find(id);
      if (!sees_trades(state, actor, engine::Side::kSell, contract.seller)) continue;
      const auto [entry, fresh] = sellers.try_emplace(contract.seller);
      if (fresh) entry->second = seller_view(state, contract.seller);
      add_contract(entry->second, contract);
    }
    for (const auto& [seller, record] : state.market.reliability) {
      const bool shown = sees_trades(state, actor, engine::Side::kSell, seller);
      if (shown && !sellers.contains(seller)) sellers.emplace(seller, seller_view(state, seller));
    }
    wire::SellerList out;
    for (auto& [party, seller] : sellers) out.items.push_back(std::move(seller));
    return json(out);
  });
}

void show_candles(Api& api, Call call) {
  std::uint64_t book = 0;
  const std::string& number = call.parameters.front();
  std::from_chars(number.data(), number.data() + number.size(), book);
  const std::string step(call.query_value("step"));
  if (!step.empty() && step != "hour" && step != "day")
    return call.reply.send(
        problem(wire::Problem{"step", "must be hour or day", "step=day"}, call.envelope.request_id));
  api.view(std::move(call), [book, by_day = step != "hour"](const State& state, const Actor&) -> Shown {
    if (book == 0 || book > state.market.instruments.size()) return refuse(engine::not_found());
    return json(candles_view(state.market.instruments[book - 1], by_day));
  });
}

}  // namespace

std::vector<Route> market_data_routes() {
  return {
      {.method = "GET",
       .path = "/v1/market/books/{book}/candles",
       .id = "show_candles",
       .tag = "market",
       .summary = "Open, high, low and close of hours or days in which something was traded, oldest first",
       .gives = body<wire::CandleList>(),
       .query = {"step"},
       .handle = show_candles},
      {.method = "GET",
       .path = "/v1/market/stream",
       .id = "follow_market",
       .tag = "market",
       .summary = "Trades and best prices as they change (server-sent), resumable by Last-Event-ID",
       .query = {"from"},
       .handle = follow_market},
      {.method = "GET",
       .path = "/v1/market/earnings",
       .id = "show_earnings",
       .tag = "market",
       .summary = "What sellers earned, and how much of what they sold was delivered",
       .gives = body<wire::SellerList>(),
       .handle = show_earnings}};
}

}  // namespace tranche::api
