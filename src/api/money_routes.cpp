// SPDX-License-Identifier: Apache-2.0
// Accounts, price lists, costs, margins and the export for finance tools.
#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "engine/cost.hpp"
#include "engine/focus.hpp"
#include "engine/margin.hpp"
#include "engine/spend.hpp"
#include "wire/api_money.hpp"

namespace tranche::api {
namespace {

using engine::AccountKind;
using engine::Action;
using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

wire::AccountView account_view(const State& state, PartyId party) {
  const engine::AccountId credit = engine::credit_account(state, party);
  const engine::Account* account = engine::find_account(state.ledger, credit);
  const engine::AccountId owing = engine::AccountId::make(party, AccountKind::kReceivable, credit.currency());
  return {.party = engine::path_of(state, party),
          .currency = state.settings.currency,
          .credit = engine::balance(state.ledger, credit),
          .held = account == nullptr ? Money{} : account->held,
          .available = engine::available(state.ledger, credit),
          .overdraft = account == nullptr ? Money{} : account->overdraft,
          .payable = engine::balance(
              state.ledger, engine::AccountId::make(party, AccountKind::kPayable, credit.currency())),
          .spent_this_month = engine::spent(state, party, state.now),
          .owed = {-engine::balance(state.ledger, owing).micros},
          .by_invoice = account == nullptr};
}

void show_account(Api& api, Call call) {
  const std::string name = call.parameters.front();
  api.view(std::move(call), [name](const State& state, const Actor& actor) -> Shown {
    const PartyId party = engine::find_path(state, name);
    if (auto refusal = engine::check_access(state, actor, Action::kViewBilling, party))
      return refuse(*refusal);
    return json(account_view(state, party));
  });
}

void top_up(Api& api, Call call) {
  const auto body = parse<wire::TopUpBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string name = call.parameters.front();
  api.with_party(std::move(call), name, [&api, body = *body](Call next, PartyId party) {
    api.run(std::move(next),
            engine::TopUp{party, body.amount, body.reference, body.memo},
            [party](const server::Outcome& outcome) { return json(account_view(*outcome.state, party)); });
  });
}

void set_overdraft(Api& api, Call call) {
  const auto body = parse<wire::OverdraftBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string name = call.parameters.front();
  api.with_party(std::move(call), name, [&api, body = *body](Call next, PartyId party) {
    api.run(std::move(next),
            engine::SetOverdraft{party, body.overdraft},
            [party](const server::Outcome& outcome) { return json(account_view(*outcome.state, party)); });
  });
}

// Prices for others are nobody's business: only rules for everybody and for one's own tree are shown.
void list_prices(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    wire::PriceListBook out;
    for (wire::PriceList list : state.prices) {
      std::erase_if(list.rules, [&](const wire::PriceRule& rule) {
        return rule.party != PartyId{} && !engine::can_see(state, actor, rule.party);
      });
      out.items.push_back(std::move(list));
    }
    return json(out);
  });
}

void set_prices(Api& api, Call call) {
  const auto body = parse<wire::PriceList>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.run(std::move(call), engine::SetPriceList{*body}, [](const server::Outcome& outcome) {
    for (const engine::Event& event : *outcome.events) {
      if (const auto* set = std::get_if<engine::PriceListSet>(&event)) return json(set->list);
    }
    return json(wire::PriceList{});
  });
}

struct Span {
  Instant from{}, to{};
};

// from= and to= of a report; the month that runs where they are absent.
std::optional<Span> span_of(Call& call) {
  Span span;
  for (const auto& [name, field] : {std::pair{"from", &Span::from}, std::pair{"to", &Span::to}}) {
    const std::string text(call.query_value(name));
    if (text.empty()) continue;
    const auto at = parse_instant(text.size() == 10 ? text + "T00:00:00Z" : text);
    if (!at) {
      call.reply.send(problem(wire::Problem{name, "must be a day or a time", "for example 2026-11-01"},
                              call.envelope.request_id));
      return std::nullopt;
    }
    span.*field = *at;
  }
  return span;
}

Span or_this_month(Span span, Instant now) {
  if (span.from == Instant{}) span.from = engine::month_of(now);
  if (span.to == Instant{}) span.to = engine::month_of(span.from + std::chrono::days(32));
  return span;
}

void show_costs(Api& api, Call call) {
  const auto span = span_of(call);
  if (!span) return;
  std::string by_name(call.query_value("by"));
  std::string tag;
  if (by_name.starts_with("tag:")) {
    tag = by_name.substr(4);
    by_name = "tag";
  }
  const auto by =
      by_name.empty() ? std::optional(wire::CostBy::kUser) : wire::from_name<wire::CostBy>(by_name);
  if (!by) {
    return call.reply.send(
        problem(wire::Problem{"by",
                              "there is no such grouping",
                              "tenant, subscriber, user, job, model, kind, day, unit, tag, tag:NAME"},
                call.envelope.request_id));
  }
  const std::string name = call.parameters.front();
  api.view(std::move(call),
           [name, tag, by = *by, span = *span](const State& state, const Actor& actor) -> Shown {
             const PartyId party = engine::find_path(state, name);
             if (auto refusal = engine::check_access(state, actor, Action::kViewBilling, party))
               return refuse(*refusal);
             const Span days = or_this_month(span, state.now);
             return json(engine::cost_report(state, party, by, days.from, days.to, tag));
           });
}

void export_focus(Api& api, Call call) {
  const auto span = span_of(call);
  if (!span) return;
  const std::string name = call.parameters.front();
  api.view(std::move(call), [name, span = *span](const State& state, const Actor& actor) -> Shown {
    const PartyId party = engine::find_path(state, name);
    if (auto refusal = engine::check_access(state, actor, Action::kViewBilling, party))
      return refuse(*refusal);
    const Span days = or_this_month(span, state.now);
    return document("text/csv; charset=utf-8", engine::focus_csv(state, party, days.from, days.to));
  });
}

// What capacity costs its operator, and what is left to him, is his own business.
void list_capacity_costs(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    if (auto refusal = engine::check_access(state, actor, Action::kManagePlatform, kPlatform))
      return refuse(*refusal);
    return json(wire::CapacityCostList{state.capacity_costs});
  });
}

void set_capacity_cost(Api& api, Call call) {
  const auto body = parse<wire::CapacityCost>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.run(std::move(call), engine::SetCapacityCost{*body}, [](const server::Outcome& outcome) {
    return json(std::get<engine::CapacityCostSet>(outcome.events->front()).cost);
  });
}

void show_margin(Api& api, Call call) {
  const auto span = span_of(call);
  if (!span) return;
  const std::string by_name(call.query_value("by"));
  const auto by =
      by_name.empty() ? std::optional(wire::MarginBy::kNode) : wire::from_name<wire::MarginBy>(by_name);
  if (!by)
    return call.reply.send(
        problem(wire::Problem{"by", "there is no such grouping", "device, node, model, tenant"},
                call.envelope.request_id));
  api.view(std::move(call), [by = *by, span = *span](const State& state, const Actor& actor) -> Shown {
    if (auto refusal = engine::check_access(state, actor, Action::kManagePlatform, kPlatform))
      return refuse(*refusal);
    const Span days = or_this_month(span, state.now);
    return json(engine::margin_report(state, by, days.from, days.to));
  });
}

}  // namespace

std::vector<Route> money_routes() {
  return {
      {.method = "GET",
       .path = "/v1/accounts/{party}",
       .id = "show_account",
       .tag = "money",
       .summary = "Credit of a party, and what is set aside",
       .gives = body<wire::AccountView>(),
       .handle = show_account},
      {.method = "POST",
       .path = "/v1/accounts/{party}/top-up",
       .id = "top_up",
       .tag = "money",
       .summary = "Money came in",
       .takes = body<wire::TopUpBody>(),
       .gives = body<wire::AccountView>(),
       .handle = top_up},
      {.method = "PUT",
       .path = "/v1/accounts/{party}/overdraft",
       .id = "set_overdraft",
       .tag = "money",
       .summary = "How far below zero an account may go",
       .takes = body<wire::OverdraftBody>(),
       .gives = body<wire::AccountView>(),
       .handle = set_overdraft},
      {.method = "GET",
       .path = "/v1/prices",
       .id = "list_prices",
       .tag = "money",
       .summary = "Price lists",
       .gives = body<wire::PriceListBook>(),
       .handle = list_prices},
      {.method = "PUT",
       .path = "/v1/prices",
       .id = "set_prices",
       .tag = "money",
       .summary = "Set a price list, valid from now or later",
       .takes = body<wire::PriceList>(),
       .gives = body<wire::PriceList>(),
       .handle = set_prices},
      {.method = "GET",
       .path = "/v1/capacity-costs",
       .id = "list_capacity_costs",
       .tag = "money",
       .summary = "What an hour of a device costs the operator",
       .gives = body<wire::CapacityCostList>(),
       .handle = list_capacity_costs},
      {.method = "PUT",
       .path = "/v1/capacity-costs",
       .id = "set_capacity_cost",
       .tag = "money",
       .summary = "Set what an hour of a device costs, from now on or later",
       .takes = body<wire::CapacityCost>(),
       .gives = body<wire::CapacityCost>(),
       .handle = set_capacity_cost},
      {.method = "GET",
       .path = "/v1/margin",
       .id = "show_margin",
       .tag = "money",
       .summary = "What devices earned, what they cost, and what is left",
       .gives = body<wire::MarginReport>(),
       .query = {"by", "from", "to"},
       .handle = show_margin},
      {.method = "GET",
       .path = "/v1/costs/{party}",
       .id = "show_costs",
       .tag = "money",
       .summary = "Costs at and below a party",
       .gives = body<wire::CostReport>(),
       .query = {"by", "from", "to"},
       .handle = show_costs},
      {.method = "GET",
       .path = "/v1/costs/{party}/focus",
       .id = "export_focus",
       .tag = "money",
       .summary = "Costs as a FOCUS 1.2 table",
       .query = {"from", "to"},
       .handle = export_focus},
  };
}

}  // namespace tranche::api
