// SPDX-License-Identifier: Apache-2.0
// Accounts, costs, margins and the export for finance tools.
#include <algorithm>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/focus.hpp"
#include "engine/margin.hpp"
#include "engine/refusals.hpp"
#include "engine/spend.hpp"
#include "wire/api_ledger.hpp"
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
  const engine::Account* debt = engine::find_account(state.ledger, owing);
  const bool limited = debt != nullptr && debt->bounded;
  return {.party = engine::path_of(state, party),
          .currency = state.settings.currency,
          .credit = engine::balance(state.ledger, credit),
          .held = account != nullptr ? account->held
                  : debt != nullptr  ? debt->held
                                     : Money{},
          .available = engine::available(state.ledger, credit),
          .overdraft = account == nullptr ? Money{} : account->overdraft,
          .payable = engine::balance(
              state.ledger, engine::AccountId::make(party, AccountKind::kPayable, credit.currency())),
          .spent_this_month = engine::spent(state, party, clock_at_least(state.now)),
          .owed = {-engine::balance(state.ledger, owing).micros},
          .by_invoice = account == nullptr,
          .owe_limit = limited ? std::optional(debt->overdraft) : std::nullopt};
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

// How much somebody may owe by invoice; beyond that nothing of his starts.
void set_owe_limit(Api& api, Call call) {
  const auto body = parse<wire::OweLimitBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string name = call.parameters.front();
  api.with_party(std::move(call), name, [&api, limit = body->limit](Call next, PartyId party) {
    const engine::SetOverdraft command{
        party, limit.value_or(Money{}), AccountKind::kReceivable, limit.has_value()};
    api.run(std::move(next), command, [party](const server::Outcome& outcome) {
      return json(account_view(*outcome.state, party));
    });
  });
}

// from= and to= of a report: days on the calendar of the party, or instants.
struct Asked {
  std::optional<Instant> from{}, to{};
  bool from_is_day = false, to_is_day = false;
};

std::optional<Asked> asked_span(Call& call) {
  Asked asked;
  const auto read = [&](const char* name, std::optional<Instant>& at, bool& is_day) {
    const std::string given(call.query_value(name));
    if (given.empty()) return true;
    is_day = given.size() == 10;
    at = parse_instant(is_day ? given + "T00:00:00Z" : given);
    if (!at)
      call.reply.send(problem(wire::Problem{name, "must be a day or a time", "for example 2026-11-01"},
                              call.envelope.request_id));
    return at.has_value();
  };
  if (!read("from", asked.from, asked.from_is_day) || !read("to", asked.to, asked.to_is_day))
    return std::nullopt;
  return asked;
}

// The month that runs where nothing was said.
engine::CalendarSpan span_of(const State& state, PartyId party, const Asked& asked) {
  const auto at = [&](Instant given, bool is_day) {
    return is_day ? engine::midnight_of(state, party, given) : given;
  };
  const Instant month = engine::running_month(state, party);
  engine::CalendarSpan span = engine::invoice_period(state, party, month);
  if (asked.from) {
    span.from = at(*asked.from, asked.from_is_day);
    span.to = engine::span_around(state, party, wire::Period::kMonth, span.from).to;
  }
  if (asked.to) span.to = at(*asked.to, asked.to_is_day);
  return span;
}

std::optional<wire::Refusal> period_problem(const engine::CalendarSpan& days) {
  if (days.from < days.to) return std::nullopt;
  return engine::invalid("to",
                         "the period ends at " + text(days.to) + ", before it begins at " + text(days.from),
                         "give a --to after --from");
}

// "~" is the highest party whose bill the caller may see, or else himself.
PartyId party_named(const State& state, const Actor& actor, const std::string& name) {
  if (name != "~") return engine::find_path(state, name);
  PartyId highest = actor.party;
  for (const engine::Party* at = state.party(actor.party); at != nullptr; at = state.party(at->parent))
    if (engine::may(state, actor, Action::kViewBilling, at->id)) highest = at->id;
  return highest;
}

void show_costs(Api& api, Call call) {
  const auto span = asked_span(call);
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
             const PartyId party = party_named(state, actor, name);
             if (auto refusal = engine::check_access(state, actor, Action::kViewBilling, party))
               return refuse(*refusal);
             const engine::CalendarSpan days = span_of(state, party, span);
             if (auto refusal = period_problem(days)) return refuse(*refusal);
             return json(engine::cost_report(state, party, by, days.from, days.to, tag));
           });
}

void export_focus(Api& api, Call call) {
  const auto span = asked_span(call);
  if (!span) return;
  const std::string name = call.parameters.front();
  const bool check = call.query_value("check") == "true";
  api.view(std::move(call), [name, check, span = *span](const State& state, const Actor& actor) -> Shown {
    const PartyId party = party_named(state, actor, name);
    if (auto refusal = engine::check_access(state, actor, Action::kViewBilling, party))
      return refuse(*refusal);
    const engine::CalendarSpan days = span_of(state, party, span);
    if (auto refusal = period_problem(days)) return refuse(*refusal);
    std::string table = engine::focus_csv(state, party, days.from, days.to);
    if (!check) return document("text/csv; charset=utf-8", std::move(table));
    const auto payable = engine::focus_payable(state, party, days.from, days.to);
    return json(
        wire::FocusCheck{.rows = static_cast<std::uint64_t>(std::count(table.begin(), table.end(), '\n')) - 1,
                         .invoices = payable.size(),
                         .problems = engine::focus_problems(table, payable)});
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
  const auto span = asked_span(call);
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
    const engine::CalendarSpan days = span_of(state, kPlatform, span);
    if (auto refusal = period_problem(days)) return refuse(*refusal);
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
      {.method = "PUT",
       .path = "/v1/accounts/{party}/owe-limit",
       .id = "set_owe_limit",
       .tag = "money",
       .summary = "How much may be owed by invoice",
       .takes = body<wire::OweLimitBody>(),
       .gives = body<wire::AccountView>(),
       .handle = set_owe_limit},
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
       .summary = "Costs as a FOCUS 1.2 table; check=true: what is wrong with it, if anything",
       .query = {"from", "to", "check"},
       .handle = export_focus},
  };
}

}  // namespace tranche::api
