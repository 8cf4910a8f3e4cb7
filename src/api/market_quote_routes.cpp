// SPDX-License-Identifier: Apache-2.0
// Quotes that are kept: what was told is what is paid, until it expires.
#include <algorithm>

#include "api/api.hpp"
#include "api/market_views.hpp"
#include "api/problem.hpp"
#include "base/wall_clock.hpp"
#include "engine/market_fill.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

// Which book is meant depends on what is offered now.
engine::KeepQuote question_of(const State& state, engine::PlaceOrder order) {
  const std::int64_t first = order.first_slot;
  if (order.first_slot == 0) order.first_slot = engine::slot_of(std::max(wall_clock(), state.now));
  return {.party = order.party,
          .book = engine::book_for(state, order),
          .workload = order.workload,
          .price = order.price,
          .first_slot = first,
          .slots = order.slots,
          .quantity = order.quantity,
          .quantity_min = order.quantity_min,
          .slots_min = order.slots_min};
}

void keep(Api& api, Call call) {
  const auto body = parse<wire::OrderBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.loop().read([&api, call = std::move(call), body = *body](const State& state) mutable {
    engine::PlaceOrder order = command_of(body);
    order.party = body.party.empty() ? call.envelope.actor : engine::find_path(state, body.party);
    api.run(std::move(call), question_of(state, std::move(order)), [](const server::Outcome& outcome) {
      const auto& kept = std::get<engine::QuoteKept>(outcome.events->front());
      const auto found = outcome.state->market.quotes.find(kept.quote.id);
      return json(quote_view(*outcome.state,
                             found == outcome.state->market.quotes.end() ? kept.quote : found->second),
                  201);
    });
  });
}

engine::QuoteId quote_id(const Call& call) {
  return {parse_id("quo_", call.parameters.front()).value_or(0)};
}

void show(Api& api, Call call) {
  const engine::QuoteId id = quote_id(call);
  api.view(std::move(call), [id](const State& state, const Actor& actor) -> Shown {
    const auto found = state.market.quotes.find(id);
    if (found == state.market.quotes.end() ||
        !engine::may(state, actor, engine::Action::kSubmitJob, found->second.party))
      return refuse(engine::not_found());
    return json(quote_view(state, found->second));
  });
}

void take(Api& api, Call call) {
  const engine::QuoteId id = quote_id(call);
  api.run(std::move(call), engine::TakeQuote{id}, [](const server::Outcome& outcome) {
    wire::OrderOutcome out;
    std::int64_t area = 0, first = INT64_MAX, end = INT64_MIN;
    for (const engine::Event& event : *outcome.events) {
      const auto* filled = std::get_if<engine::OrderFilled>(&event);
      if (filled == nullptr) continue;
      area += std::int64_t{filled->quantity} * filled->slots;
      first = std::min(first, filled->first_slot);
      end = std::max(end, filled->first_slot + filled->slots);
      out.order = id_text("ord_", filled->buy);
      out.paid.micros += filled->value.micros;
      out.contracts.push_back(id_text("ctr_", filled->contract.value));
    }
    if (area > 0) out.milli_traded = area / (end - first);
    return json(out, 201);
  });
}

void drop(Api& api, Call call) {
  const engine::QuoteId id = quote_id(call);
  api.run(std::move(call), engine::DropQuote{id}, [](const server::Outcome&) { return no_content(); });
}

}  // namespace

std::vector<Route> market_quote_routes() {
  return {{.method = "POST",
           .path = "/v1/market/quotes",
           .id = "keep_quote",
           .tag = "market",
           .summary = "A quote that is kept: capacity and money are set aside until it expires",
           .takes = body<wire::OrderBody>(),
           .gives = body<wire::QuoteView>(),
           .status = 201,
           .handle = keep},
          {.method = "GET",
           .path = "/v1/market/quotes/{quote}",
           .id = "show_quote",
           .tag = "market",
           .summary = "A quote that is kept",
           .gives = body<wire::QuoteView>(),
           .handle = show},
          {.method = "POST",
           .path = "/v1/market/quotes/{quote}/take",
           .id = "take_quote",
           .tag = "market",
           .summary = "Buy what was quoted, at the price that was quoted",
           .gives = body<wire::OrderOutcome>(),
           .status = 201,
           .handle = take},
          {.method = "DELETE",
           .path = "/v1/market/quotes/{quote}",
           .id = "drop_quote",
           .tag = "market",
           .summary = "Give back what a quote keeps",
           .status = 204,
           .handle = drop}};
}

}  // namespace tranche::api
