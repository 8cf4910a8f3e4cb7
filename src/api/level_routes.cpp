// SPDX-License-Identifier: Apache-2.0
// Service levels: what was promised to whom, how often it was kept, and who may be let down next.
#include "api/api.hpp"
#include "api/problem.hpp"
#include "engine/decide.hpp"
#include "wire/api_level.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

constexpr std::size_t kRisksShown = 20;

wire::LevelMonthView view_of(const engine::LevelMonth& month) {
  wire::LevelMonthView view{
      .month = month.month, .kept = month.kept, .missed = month.missed, .credited = month.credited};
  const std::uint64_t judged = month.kept + month.missed;
  if (judged > 0) view.attained_permille = static_cast<std::uint32_t>(month.kept * 1000 / judged);
  if (month.delivery.promised > 0) view.was_delivered_permille = month.delivery.permille();
  if (month.guarantee.promised > 0) view.was_guaranteed_permille = month.guarantee.permille();
  return view;
}

wire::LevelView view_of(const State& state, const Actor* actor, const engine::ServiceLevel& level) {
  const engine::LevelTerms& terms = level.terms;
  const wire::LevelMonthView now = view_of(engine::running_month(state, level));
  wire::LevelView view{.name = level.key.name,
                       .party = engine::path_of(state, level.key.party),
                       .kinds = terms.kinds,
                       .keep_deadlines = terms.keep_deadlines,
                       .target_permille = terms.target_permille,
                       .credit_percent = terms.credit_percent,
                       .kept = now.kept,
                       .missed = now.missed,
                       .attained_permille = now.attained_permille,
                       .credited = now.credited,
                       .delivered_permille = terms.delivered_permille,
                       .was_delivered_permille = now.was_delivered_permille,
                       .keep_objectives = terms.keep_objectives,
                       .guarantee_permille = terms.guarantee_permille,
                       .was_guaranteed_permille = now.was_guaranteed_permille};
  if (const engine::LevelMonth before = engine::month_before(state, level); before.kept + before.missed > 0)
    view.before = view_of(before);
  if (terms.start_within > Duration{}) view.start_within = terms.start_within;
  const auto may_see = [&](JobId id) {
    const engine::Job* job = state.job(id);
    return actor != nullptr && job != nullptr && engine::can_see(state, *actor, *job);
  };
  const auto may_see_booking = [&](ClaimId id) {
    const engine::Booking* booking = state.booking(id);
    return actor != nullptr && booking != nullptr && engine::can_see(state, *actor, *booking);
  };
  for (const engine::LevelMiss& miss : level.misses) {
    const ClaimId booking = miss.delivery.booking;
    const engine::Answering& hour = miss.answering;
    if (!hour.service.empty()) {  // Of a service of this party: whoever sees the level may see it.
      view.misses.push_back(
          {.at = miss.at,
           .what = "objective",
           .service = hour.service,
           .in_time_permille = static_cast<std::uint32_t>(hour.in_time * 1000 / hour.requests)});
    } else if (may_see_booking(booking)) {
      view.misses.push_back({.at = miss.at,
                             .what = "delivery",
                             .booking = booking,
                             .delivered_permille = miss.delivery.permille()});
    } else if (miss.day != Instant{}) {
      view.misses.push_back({.at = miss.at,
                             .what = "guarantee",
                             .delivered_permille = miss.delivery.permille(),
                             .day = miss.day});
    } else if (may_see(miss.job)) {
      view.misses.push_back(
          {.job = miss.job, .at = miss.at, .late = miss.late, .what = miss.start ? "start" : "deadline"});
    }
  }
  for (const engine::LevelRisk& risk : engine::levels_at_risk(state, level, kRisksShown)) {
    if (!risk.service.empty()) {
      view.at_risk.push_back({.left = risk.left, .service = risk.service});
    } else if (may_see_booking(risk.booking)) {
      view.at_risk.push_back({.left = risk.left, .booking = risk.booking});
    } else if (risk.missing_milli > 0) {
      view.at_risk.push_back({.left = risk.left,
                              .missing_gpu_milli = risk.missing_milli,
                              .message = risk.out_of_service
                                             ? "more is guaranteed than is in service"
                                             : "work within the guarantee waits for capacity"});
    } else if (may_see(risk.job)) {
      view.at_risk.push_back({.job = risk.job, .left = risk.left});
    }
  }
  return view;
}

void set(Api& api, Call call) {
  const auto body = parse<wire::LevelSpec>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.with_party(std::move(call), body->party, [&api, body = *body](Call next, PartyId party) {
    engine::SetLevel command{.key = {party, body.name},
                             .terms = {.kinds = body.kinds,
                                       .start_within = body.start_within.value_or(Duration{}),
                                       .keep_deadlines = body.keep_deadlines,
                                       .target_permille = body.target_permille,
                                       .credit_percent = body.credit_percent,
                                       .delivered_permille = body.delivered_permille,
                                       .keep_objectives = body.keep_objectives,
                                       .guarantee_permille = body.guarantee_permille}};
    api.run(std::move(next), std::move(command), [](const server::Outcome& outcome) {
      const auto& event = std::get<engine::LevelSet>(outcome.events->front());
      return json(view_of(*outcome.state, nullptr, outcome.state->work.levels.at(event.key)));
    });
  });
}

// Whoever sees the party's bill sees what was promised to it.
void list(Api& api, Call call) {
  api.view(std::move(call),
           [](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             wire::LevelList out;
             for (const auto& [key, level] : state.work.levels)
               if (engine::may(state, actor, engine::Action::kViewBilling, key.party))
                 out.items.push_back(view_of(state, &actor, level));
             return json(out);
           });
}

void remove(Api& api, Call call) {
  const std::string party = call.parameters.front(), name = call.parameters.back();
  api.with_party(std::move(call), party, [&api, name](Call next, PartyId at) {
    api.run(std::move(next), engine::RemoveLevel{{at, name}}, [](const server::Outcome&) {
      return no_content();
    });
  });
}

}  // namespace

std::vector<Route> level_routes() {
  return {{.method = "PUT",
           .path = "/v1/levels",
           .id = "set_level",
           .tag = "levels",
           .summary = "Promise a service level to a party",
           .takes = body<wire::LevelSpec>(),
           .gives = body<wire::LevelView>(),
           .handle = set},
          {.method = "GET",
           .path = "/v1/levels",
           .id = "list_levels",
           .tag = "levels",
           .summary = "Service levels, how often they were kept this month, and jobs at risk",
           .gives = body<wire::LevelList>(),
           .handle = list},
          {.method = "DELETE",
           .path = "/v1/levels/{party}/{name}",
           .id = "remove_level",
           .tag = "levels",
           .summary = "Promise it no more; what is owed for jobs that run is forgotten",
           .status = 204,
           .handle = remove}};
}

}  // namespace tranche::api
