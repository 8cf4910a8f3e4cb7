// SPDX-License-Identifier: Apache-2.0
// Capacity that is offered again and again: set, look at, remove. The calendar becomes instants here.
#include "api/api.hpp"
#include "api/booking_views.hpp"
#include "api/market_views.hpp"
#include "api/problem.hpp"
#include "api/recurrence.hpp"
#include "base/wall_clock.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

wire::RecurringListingView view_of(const State& state, const engine::RecurringListing& listing) {
  wire::RecurringListingView view{.id = id_text("lst_", listing.id.value),
                                  .owner = engine::path_of(state, listing.owner),
                                  .device = text(listing.offer.device),
                                  .milli = listing.offer.quantity,
                                  .hourly = hourly(listing.offer.price),
                                  .floor = hourly(listing.offer.floor),
                                  .every = listing.every,
                                  .zone = listing.zone,
                                  .ahead = listing.ahead,
                                  .left = listing.windows.size(),
                                  .listed = listing.listed,
                                  .missed = listing.missed};
  if (!listing.windows.empty()) view.next = listing.windows.front().from;
  for (const std::uint64_t id : listing.orders)
    if (state.market.books.order(id) != nullptr) view.orders.push_back(id_text("ord_", id));
  for (const engine::MissedListing& missed : listing.misses)
    view.misses.push_back({missed.window.from, missed.window.to, missed.why});
  return view;
}

void set(Api& api, Call call) {
  const auto body = parse<wire::RecurringListingBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.loop().read([&api, call = std::move(call), body = *body](const State& state) mutable {
    const auto offer = listing_of(state, body.listing, call.envelope.actor);
    if (!offer) return call.reply.send(problem(offer.error(), call.envelope.request_id));
    engine::SetRecurringListing command{.owner = offer->owner,
                                        .offer = *offer,
                                        .every = body.every,
                                        .zone = body.zone.empty() ? zone_of(state, offer->owner) : body.zone,
                                        .ahead = body.ahead};
    const auto now = wall_clock();
    const auto spans = spans_of({body.every, command.zone, body.times, body.until, body.listing.length},
                                std::max(now, state.now));
    if (!spans) return call.reply.send(problem(spans.error(), call.envelope.request_id));
    for (const Span& span : *spans) command.windows.push_back({span.from, span.to});
    command.offer.first_slot = 0;  // Each has its own.
    command.offer.slots = 0;
    api.run(std::move(call), std::move(command), [](const server::Outcome& outcome) {
      const auto& event = std::get<engine::RecurringListingSet>(outcome.events->front());
      return json(view_of(*outcome.state, outcome.state->recurring_listings.at(event.id)), 201);
    });
  });
}

void list(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    wire::RecurringListingList out;
    for (const auto& [id, listing] : state.recurring_listings) {
      const bool shown = listing.owner == actor.party ||
                         engine::may(state, actor, engine::Action::kManageCapacity, listing.owner) ||
                         engine::may(state, actor, engine::Action::kViewBilling, listing.owner);
      if (shown) out.items.push_back(view_of(state, listing));
    }
    return json(out);
  });
}

void remove(Api& api, Call call) {
  const auto id = parse_id("lst_", call.parameters.front());
  api.run(std::move(call), engine::RemoveRecurringListing{{id.value_or(0)}}, [](const server::Outcome&) {
    return no_content();
  });
}

}  // namespace

std::vector<Route> recurring_listing_routes() {
  return {{.method = "POST",
           .path = "/v1/market/recurring",
           .id = "set_recurring_listing",
           .tag = "market",
           .summary = "Sell again and again, by the calendar",
           .takes = body<wire::RecurringListingBody>(),
           .gives = body<wire::RecurringListingView>(),
           .status = 201,
           .handle = set},
          {.method = "GET",
           .path = "/v1/market/recurring",
           .id = "list_recurring_listings",
           .tag = "market",
           .summary = "What is sold again and again, that you may see",
           .gives = body<wire::RecurringListingList>(),
           .handle = list},
          {.method = "DELETE",
           .path = "/v1/market/recurring/{listing}",
           .id = "remove_recurring_listing",
           .tag = "market",
           .summary = "Offer it no more; what rests of it is cancelled, what was sold stays sold",
           .status = 204,
           .handle = remove}};
}

}  // namespace tranche::api
