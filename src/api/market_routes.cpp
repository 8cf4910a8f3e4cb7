// SPDX-License-Identifier: Apache-2.0
// The exchange: books, quotes, orders, listings, contracts. A peer platform uses the same routes.
#include <charconv>

#include "api/api.hpp"
#include "api/market_views.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

std::uint64_t number_of(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void bad(Call& call, std::string field, std::string message, std::string hint) {
  call.reply.send(problem(wire::Problem{std::move(field), std::move(message), std::move(hint)},
                          call.envelope.request_id));
}

void list_books(Api& api, Call call) {
  api.view(std::move(call),
           [](const State& state, const Actor&) -> Shown { return json(books_view(state)); });
}

void show_depth(Api& api, Call call) {
  const std::uint64_t book = number_of(call.parameters.front());
  const std::string at(call.query_value("at"));
  const auto instant = parse_instant(at);
  if (!at.empty() && !instant) return bad(call, "at", "must be a time", "2026-11-15T20:00:00Z");
  api.view(std::move(call), [book, instant](const State& state, const Actor&) -> Shown {
    if (book == 0 || book > state.market.instruments.size()) return refuse(engine::not_found());
    return json(
        depth_view(state, book, engine::slot_of(instant.value_or(std::max(wall_clock(), state.now)))));
  });
}

void list_fills(Api& api, Call call) {
  const std::uint64_t book = number_of(call.query_value("book"));
  api.view(std::move(call),
           [book](const State& state, const Actor&) -> Shown { return json(fills_view(state, book)); });
}

void quote(Api& api, Call call) {
  const auto body = parse<wire::OrderBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.view(std::move(call), [body = *body](const State& state, const Actor& actor) -> Shown {
    const PartyId party = body.party.empty() ? actor.party : engine::find_path(state, body.party);
    if (party != actor.party)
      if (auto refusal = engine::check_access(state, actor, engine::Action::kSubmitJob, party))
        return refuse(*refusal);
    return json(quote_view(state, command_of(body), party, std::max(wall_clock(), state.now)));
  });
}

net::Response outcome_of(const server::Outcome& outcome) {
  wire::OrderOutcome out;
  std::uint64_t id = 0;
  std::int64_t area = 0, slots = 1;
  for (const engine::Event& event : *outcome.events) {
    if (const auto* placed = std::get_if<engine::OrderPlaced>(&event)) {
      id = placed->order.id;
      slots = placed->order.slots;
      out.order = id_text("ord_", id);
    }
    if (const auto* filled = std::get_if<engine::OrderFilled>(&event)) {
      out.paid.micros += filled->buy == id ? filled->value.micros : 0;
      area += std::int64_t{filled->quantity} * filled->slots;
      out.contracts.push_back(id_text("ctr_", filled->contract.value));
    }
  }
  out.milli_traded = area / slots;
  if (const auto* order = outcome.state->market.books.order(id)) {
    out.resting = true;
    out.milli_open = order->open_area() / order->slots;
    out.held = order->held;
  }
  return json(out, 201);
}

void place_order(Api& api, Call call) {
  const auto body = parse<wire::OrderBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  engine::PlaceOrder command = command_of(*body);
  command.party = call.envelope.actor;
  if (body->party.empty()) return api.run(std::move(call), std::move(command), outcome_of);
  api.with_party(std::move(call), body->party, [&api, command](Call next, PartyId party) mutable {
    command.party = party;
    api.run(std::move(next), std::move(command), outcome_of);
  });
}

void list_orders(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    wire::OrderList out;
    std::map<std::pair<engine::Side, PartyId>, bool> seen;
    for (const std::uint64_t id : state.market.books.ids()) {
      const engine::MarketOrder& order = *state.market.books.order(id);
      const auto [entry, fresh] = seen.try_emplace(std::pair{order.side, order.party}, false);
      if (fresh) entry->second = sees_trades(state, actor, order.side, order.party);
      if (entry->second) out.items.push_back(order_view(state, order));
      if (out.items.size() == 1000) break;
    }
    return json(out);
  });
}

void cancel_order(Api& api, Call call) {
  const auto id = parse_id("ord_", call.parameters.front());
  api.run(std::move(call), engine::CancelOrder{id.value_or(0)}, [](const server::Outcome&) {
    return no_content();
  });
}

void list_capacity(Api& api, Call call) {
  const auto body = parse<wire::ListingBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  // Names become ids where the state is at hand.
  api.loop().read([&api, call = std::move(call), body = *body](const State& state) mutable {
    auto command = listing_of(state, body, call.envelope.actor);
    if (!command) return call.reply.send(problem(command.error(), call.envelope.request_id));
    api.run(std::move(call), std::move(*command), outcome_of);
  });
}

void list_contracts(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    wire::ContractList out;
    for (const std::uint64_t id : state.market.contracts.ids()) {
      const engine::Contract& contract = *state.market.contracts.find(id);
      if (sees_trades(state, actor, engine::Side::kBuy, contract.buyer))
        out.items.push_back(contract_view(state, contract, true));
      if (sees_trades(state, actor, engine::Side::kSell, contract.seller))
        out.items.push_back(contract_view(state, contract, false));
      if (out.items.size() >= 1000) break;
    }
    return json(out);
  });
}

template <class Command>
void change_contract(Api& api, Call call) {
  const auto id = parse_id("ctr_", call.parameters.front());
  api.run(std::move(call), Command{{id.value_or(0)}}, [](const server::Outcome&) { return no_content(); });
}

void reclaim(Api& api, Call call) {
  const auto body = parse<wire::ReclaimBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const auto id = parse_id("ctr_", call.parameters.front());
  api.run(std::move(call),
          engine::ReclaimContract{{id.value_or(0)}, body->at.value_or(Instant{})},
          [id](const server::Outcome& outcome) {
            wire::ContractList out;
            if (const auto* contract = outcome.state->market.contracts.find(id.value_or(0)))
              out.items.push_back(contract_view(*outcome.state, *contract, false));
            return json(out);
          });
}

wire::MarketRulesBody rules_body(const engine::MarketRules& rules) {
  return {rules.fee_bps,
          rules.bond_bps,
          rules.penalty_bps,
          rules.collar_percent,
          rules.dispute,
          rules.horizon,
          rules.quote_for,
          rules.notice,
          rules.named};
}

void show_rules(Api& api, Call call) {
  api.view(std::move(call),
           [](const State& state, const Actor&) -> Shown { return json(rules_body(state.market.rules)); });
}

void set_rules(Api& api, Call call) {
  const auto body = parse<wire::MarketRulesBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const engine::MarketRules rules{body->fee_bps,
                                  body->bond_bps,
                                  body->penalty_bps,
                                  body->collar_percent,
                                  body->dispute,
                                  body->horizon,
                                  body->quote_for,
                                  body->notice,
                                  body->named};
  api.run(std::move(call), engine::SetMarketRules{rules}, [body = *body](const server::Outcome&) {
    return json(body);
  });
}

void certify(Api& api, Call call) {
  auto body = parse<wire::CertifyBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  if (const wire::GpuModel* known = wire::find_gpu_model(body->model)) body->model = std::string(known->name);
  api.with_party(std::move(call), body->owner, [&api, body = *body](Call next, PartyId owner) {
    api.run(std::move(next),
            engine::CertifyCapacity{{body.device, body.node, owner, body.model, body.region, body.accepted}},
            [body](const server::Outcome&) { return json(body); });
  });
}

}  // namespace

std::vector<Route> market_routes() {
  const auto route = [](std::string_view method,
                        std::string_view path,
                        std::string_view id,
                        std::string_view summary,
                        Body takes,
                        Body gives,
                        int status,
                        std::function<void(Api&, Call)> handle,
                        std::vector<std::string_view> query = {}) {
    return Route{.method = method,
                 .path = path,
                 .id = id,
                 .tag = "market",
                 .summary = summary,
                 .takes = takes,
                 .gives = gives,
                 .status = status,
                 .query = std::move(query),
                 .handle = std::move(handle)};
  };
  using namespace wire;
  return {
      route("GET", "/v1/market/books", "list_books", "Books", {}, body<BookList>(), 200, list_books),
      route("GET",
            "/v1/market/books/{book}/depth",
            "show_depth",
            "Orders of a slot by price",
            {},
            body<DepthView>(),
            200,
            show_depth,
            {"at"}),
      route("GET",
            "/v1/market/fills",
            "list_fills",
            "What was traded last",
            {},
            body<FillList>(),
            200,
            list_fills,
            {"book"}),
      route("POST",
            "/v1/market/quote",
            "quote",
            "What an order would trade, and the most it can cost",
            body<OrderBody>(),
            body<QuoteView>(),
            200,
            quote),
      route("GET",
            "/v1/market/orders",
            "list_orders",
            "Orders that rest",
            {},
            body<OrderList>(),
            200,
            list_orders),
      route("POST",
            "/v1/market/orders",
            "place_order",
            "Buy",
            body<OrderBody>(),
            body<OrderOutcome>(),
            201,
            place_order),
      route("DELETE",
            "/v1/market/orders/{order}",
            "cancel_order",
            "Cancel what is open of an order",
            {},
            {},
            204,
            cancel_order),
      route("POST",
            "/v1/market/listings",
            "list_capacity",
            "Sell",
            body<ListingBody>(),
            body<OrderOutcome>(),
            201,
            list_capacity),
      route("GET",
            "/v1/market/contracts",
            "list_contracts",
            "What was bought and sold",
            {},
            body<ContractList>(),
            200,
            list_contracts),
      route("POST",
            "/v1/market/contracts/{contract}/interrupt",
            "interrupt_contract",
            "The capacity behind it is gone",
            {},
            {},
            204,
            change_contract<engine::InterruptContract>),
      route("POST",
            "/v1/market/contracts/{contract}/resume",
            "resume_contract",
            "The capacity behind it is back",
            {},
            {},
            204,
            change_contract<engine::ResumeContract>),
      route("POST",
            "/v1/market/contracts/{contract}/reclaim",
            "reclaim_contract",
            "Take back what was sold, with notice: the contract ends earlier",
            body<ReclaimBody>(),
            body<ContractList>(),
            200,
            reclaim),
      route("POST",
            "/v1/market/contracts/{contract}/release",
            "release_contract",
            "What was bought is not needed any more: its price is settled at once",
            {},
            {},
            204,
            change_contract<engine::ReleaseContract>),
      route("GET",
            "/v1/market/rules",
            "show_market_rules",
            "Fee, bond, penalty, collar, notice",
            {},
            body<MarketRulesBody>(),
            200,
            show_rules),
      route("PUT",
            "/v1/market/rules",
            "set_market_rules",
            "Set them",
            body<MarketRulesBody>(),
            body<MarketRulesBody>(),
            200,
            set_rules),
      route("PUT",
            "/v1/market/devices",
            "certify_capacity",
            "Let a device be offered",
            body<CertifyBody>(),
            body<CertifyBody>(),
            200,
            certify),
  };
}

}  // namespace tranche::api
