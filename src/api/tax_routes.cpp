// SPDX-License-Identifier: Apache-2.0
// Taxes: rates by country, how parties are taxed, and what is owed to the tax office.
#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "engine/billing.hpp"
#include "wire/tax.hpp"

namespace tranche::api {
namespace {

using engine::Action;
using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

void list_rates(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor&) -> Shown {
    return json(wire::TaxRateList{state.taxes.rates});
  });
}

void set_rate(Api& api, Call call) {
  const auto body = parse<wire::TaxRate>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.run(std::move(call), engine::SetTaxRate{*body}, [](const server::Outcome& outcome) {
    return json(std::get<engine::TaxRateSet>(outcome.events->front()).rate);
  });
}

wire::TaxTermsView terms_view(const State& state, PartyId party) {
  const engine::TaxTerms terms = engine::tax_terms(state, party, clock_at_least(state.now));
  wire::TaxTermsView view{.party = engine::path_of(state, party),
                          .from = terms.from == PartyId{} ? "" : engine::path_of(state, terms.from),
                          .name = terms.name,
                          .rate_ppm = terms.rate_ppm,
                          .note = terms.note};
  const auto own = state.taxes.profiles.find(party);
  if (own != state.taxes.profiles.end()) view.profiles = own->second;
  return view;
}

void show_profile(Api& api, Call call) {
  const std::string name = call.parameters.front();
  api.view(std::move(call), [name](const State& state, const Actor& actor) -> Shown {
    const PartyId party = engine::find_path(state, name);
    if (auto refusal = engine::check_access(state, actor, Action::kViewBilling, party))
      return refuse(*refusal);
    return json(terms_view(state, party));
  });
}

void set_profile(Api& api, Call call) {
  const auto body = parse<wire::TaxProfile>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string name = call.parameters.front();
  api.with_party(std::move(call), name, [&api, body = *body](Call next, PartyId party) {
    api.run(std::move(next), engine::SetTaxProfile{party, body}, [party](const server::Outcome& outcome) {
      return json(terms_view(*outcome.state, party));
    });
  });
}

void show_report(Api& api, Call call) {
  Instant from{};
  Instant to = Instant::max();
  for (const auto& [name, field] : {std::pair{"from", &from}, std::pair{"to", &to}}) {
    const std::string given(call.query_value(name));
    if (given.empty()) continue;
    const auto at = parse_instant(given.size() == 10 ? given + "T00:00:00Z" : given);
    if (!at)
      return call.reply.send(problem(wire::Problem{name, "must be a day or a time", "for example 2026-11-01"},
                                     call.envelope.request_id));
    *field = *at;
  }
  api.view(std::move(call), [from, to](const State& state, const Actor& actor) -> Shown {
    if (!engine::may(state, actor, Action::kCorrectInvoices, kPlatform))
      if (auto refusal = engine::check_access(state, actor, Action::kManagePlatform, kPlatform))
        return refuse(*refusal);
    return json(engine::tax_report(state, from, std::min(to, clock_at_least(state.now) + Duration(1))));
  });
}

}  // namespace

std::vector<Route> tax_routes() {
  return {{.method = "GET",
           .path = "/v1/taxes/rates",
           .id = "list_tax_rates",
           .tag = "money",
           .summary = "Tax rates by country and region, and from when they hold",
           .gives = body<wire::TaxRateList>(),
           .handle = list_rates},
          {.method = "PUT",
           .path = "/v1/taxes/rates",
           .id = "set_tax_rate",
           .tag = "money",
           .summary = "Set the tax rate of a country or of a region of it",
           .takes = body<wire::TaxRate>(),
           .gives = body<wire::TaxRate>(),
           .handle = set_rate},
          {.method = "GET",
           .path = "/v1/taxes/report",
           .id = "show_tax_report",
           .tag = "money",
           .summary = "Taxes on invoices issued and credit notes made, by country and rate",
           .gives = body<wire::TaxReport>(),
           .query = {"from", "to"},
           .handle = show_report},
          {.method = "GET",
           .path = "/v1/taxes/parties/{party}",
           .id = "show_tax_profile",
           .tag = "money",
           .summary = "How a party is taxed now, and by whose profile",
           .gives = body<wire::TaxTermsView>(),
           .handle = show_profile},
          {.method = "PUT",
           .path = "/v1/taxes/parties/{party}",
           .id = "set_tax_profile",
           .tag = "money",
           .summary = "Set how a party is taxed, and who it is on an invoice",
           .takes = body<wire::TaxProfile>(),
           .gives = body<wire::TaxTermsView>(),
           .handle = set_profile}};
}

}  // namespace tranche::api
