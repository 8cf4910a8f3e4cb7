// SPDX-License-Identifier: Apache-2.0
// Bookings and maintenance: windows of time on devices. Zones and recurrences become instants here.
#include "api/api.hpp"
#include "api/booking_views.hpp"
#include "api/problem.hpp"
#include "api/recurrence.hpp"
#include "base/wall_clock.hpp"
#include "engine/plan_price.hpp"
#include "wire/api_plan.hpp"
#include "wire/fields.hpp"
#include "wire/job_spec.hpp"
#include "wire/resolve_ask.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

constexpr std::size_t kWindowsMax = 1000;

struct Times {
  std::vector<engine::TimeSpan> windows{};
  std::string recurrence{};
  bool open_ended = false;
  std::int32_t utc_offset_seconds = 0;
};

template <class Ask>
Result<Times, wire::Problem> times_of(const Ask& ask, const std::string& zone_name, Instant now) {
  const auto zone = Zone::find(zone_name);
  if (!zone)
    return refuse(wire::Problem{
        "zone", "there is no time zone '" + zone_name + "'", "an IANA name such as Europe/Madrid"});
  const auto from = read_time(ask.from, *zone, now);
  if (!from) return refuse(wire::Problem{"from", from.error(), ""});
  const auto repeat = read_repeat(ask.every, ask.times, ask.until);
  if (!repeat) return refuse(wire::Problem{"every", repeat.error(), ""});
  Times times{.recurrence = repeat->rule, .open_ended = repeat->open_ended};
  if (repeat->rule.empty() && from->exact) {
    times.windows.push_back({*from->exact, *from->exact + ask.length});
  } else {
    const auto spans = expand(*zone, {from->local, ask.length}, *repeat, kWindowsMax);
    if (!spans) return refuse(wire::Problem{"every", spans.error(), ""});
    for (const Span& span : *spans) times.windows.push_back({span.from, span.to});
  }
  times.utc_offset_seconds = static_cast<std::int32_t>(zone->offset(times.windows.front().from).count());
  return times;
}

net::Response created(const server::Outcome& outcome) {
  const auto& event = std::get<engine::WindowsBooked>(outcome.events->front());
  const engine::Booking& booking = outcome.state->bookings.at(event.id);
  net::Response response = versioned(json(booking_view(*outcome.state, booking), 201), booking.version);
  response.headers.emplace_back("Location", "/v1/bookings/" + text(event.id));
  return response;
}

wire::PricePlan booking_plan(const State& state,
                             const engine::BookWindows& asked,
                             const engine::Decision& decision) {
  wire::PricePlan plan{.admitted = decision.has_value(),
                       .price = engine::booking_price(state, asked.owner, asked.ask, asked.windows),
                       .note = "the booking itself is free; jobs that run in it are charged as they run"};
  const std::size_t count = asked.windows.size();
  plan.what = std::to_string(count) + (count == 1 ? " window of " : " windows of ") + asked.ask.gpus;
  if (!decision) plan.refusal = decision.error();
  return plan;
}

Result<wire::Ask, wire::Problem> shape_of(const wire::BookingAsk& body, const Catalogue& catalogue) {
  auto gpus = wire::parse_gpu_request(body.gpus);
  if (!gpus) return refuse(wire::Problem{"gpus", gpus.error().message, gpus.error().nearest});
  wire::JobSpec spec;
  spec.num_nodes = body.nodes;
  spec.resources.gpus = *gpus;
  if (body.simulated) spec.infra = "simulated";
  if (!body.isolation.empty()) {
    const auto isolation = wire::from_name<wire::Isolation>(body.isolation);
    if (!isolation)
      return refuse(wire::Problem{"isolation", "there is no such class", "dedicated, hard or soft"});
    spec.resources.isolation = *isolation;
  }
  return wire::resolve_ask(spec, catalogue.skus, catalogue.settings, catalogue.smallest_vram);
}

// The command is made on the loop's thread, where the owner's zone and the time are known.
void book(Api& api, Call call) {
  const auto body = parse<wire::BookingAsk>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const auto ask = shape_of(*body, *api.catalogue());
  if (!ask) return call.reply.send(problem(ask.error(), call.envelope.request_id));
  api.loop().read([&api, call = std::move(call), body = *body, ask = *ask](const State& state) mutable {
    const PartyId owner = body.owner.empty() ? call.envelope.actor : engine::find_path(state, body.owner);
    const std::string zone = body.zone.empty() ? zone_of(state, owner) : body.zone;
    const auto now = wall_clock();
    auto times = times_of(body, zone, std::max(now, state.now));
    if (!times) return call.reply.send(problem(times.error(), call.envelope.request_id));
    engine::BookWindows command{
        // Nobody of that name: refused by the engine like any other that may not be seen.
        .owner = owner == PartyId{} ? PartyId::make(PartyKind::kUser, 0) : owner,
        .name = body.name,
        .ask = ask,
        .windows = std::move(times->windows),
        .zone = zone,
        .recurrence = times->recurrence,
        .environment = body.environment,
        .utc_offset_seconds = times->utc_offset_seconds,
        .open_ended = times->open_ended};
    if (call.query_value("dry_run") != "true") return api.run(std::move(call), std::move(command), created);
    const engine::BookWindows asked = command;
    api.rehearse(
        std::move(call), std::move(command), [asked](const State& then, const auto& decision, Instant) {
          return json(booking_plan(then, asked, decision));
        });
  });
}

void plan_maintenance(Api& api, Call call) {
  const auto body = parse<wire::MaintenanceAsk>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.loop().read([&api, call = std::move(call), body = *body](const State& state) mutable {
    const auto number = parse_id("node_", body.node);
    const auto named = state.index.nodes_by_name.find(body.node);
    const NodeId node = number                                     ? NodeId{*number}
                        : named == state.index.nodes_by_name.end() ? NodeId{}
                                                                   : named->second;
    const std::string zone = body.zone.empty() ? zone_of(state, call.envelope.actor) : body.zone;
    const auto now = wall_clock();
    auto times = times_of(body, zone, std::max(now, state.now));
    if (!times) return call.reply.send(problem(times.error(), call.envelope.request_id));
    engine::PlanMaintenance command{.node = node,
                                    .name = body.name,
                                    .windows = std::move(times->windows),
                                    .zone = zone,
                                    .recurrence = times->recurrence,
                                    .utc_offset_seconds = times->utc_offset_seconds};
    api.run(std::move(call), std::move(command), created);
  });
}

std::vector<wire::BookingView> visible(const State& state,
                                       const Actor& actor,
                                       bool all,
                                       std::optional<wire::ClaimKind> kind = {}) {
  std::vector<wire::BookingView> views;
  for (const auto& [id, booking] : state.bookings) {
    if (!all && booking.state != engine::BookingState::kBooked) continue;
    if (kind && booking.kind != *kind) continue;
    if (engine::can_see(state, actor, booking)) views.push_back(booking_view(state, booking));
  }
  return views;
}

net::Response calendar(const std::vector<wire::BookingView>& views) {
  net::Response response;
  response.content_type = "text/calendar; charset=utf-8";
  response.body = calendar_text(views);
  return response;
}

void list_bookings(Api& api, Call call) {
  const bool all = call.query_value("all") == "true";
  const std::string named(call.query_value("kind"));
  const auto kind = wire::from_name<wire::ClaimKind>(named);
  if (!named.empty() && !kind) {
    return call.reply.send(
        problem(wire::Problem{"kind", "there is no such kind of claim", "booking, maintenance or contract"},
                call.envelope.request_id));
  }
  api.view(std::move(call),
           [all, kind](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             return json(wire::BookingList{visible(state, actor, all, kind)});
           });
}

void booking_feed(Api& api, Call call) {
  api.view(std::move(call),
           [](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             return calendar(visible(state, actor, false));
           });
}

void with_booking(Api& api,
                  Call call,
                  std::function<net::Response(const State&, const engine::Booking&)> render) {
  const ClaimId id{parse_id("clm_", call.parameters.front()).value_or(0)};
  api.view(std::move(call),
           [id, render](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const engine::Booking* booking = state.booking(id);
             if (booking == nullptr || !engine::can_see(state, actor, *booking))
               return refuse(engine::not_found());
             return render(state, *booking);
           });
}

void show_booking(Api& api, Call call) {
  with_booking(api, std::move(call), [](const State& state, const engine::Booking& booking) {
    return versioned(json(booking_view(state, booking)), booking.version);
  });
}

void booking_calendar(Api& api, Call call) {
  with_booking(api, std::move(call), [](const State& state, const engine::Booking& booking) {
    return calendar({booking_view(state, booking)});
  });
}

void cancel_booking(Api& api, Call call) {
  const ClaimId id{parse_id("clm_", call.parameters.front()).value_or(0)};
  api.run(std::move(call), engine::CancelBooking{id}, [](const server::Outcome&) { return no_content(); });
}

}  // namespace

std::vector<Route> booking_routes() {
  return {
      {.method = "GET",
       .path = "/v1/bookings",
       .id = "list_bookings",
       .tag = "calendar",
       .summary = "Bookings and maintenance that you may see",
       .gives = body<wire::BookingList>(),
       .query = {"all", "kind"},
       .handle = list_bookings},
      {.method = "POST",
       .path = "/v1/bookings",
       .id = "book",
       .tag = "calendar",
       .summary = "Book windows of time on devices; a conflict names the nearest windows that fit",
       .takes = body<wire::BookingAsk>(),
       .gives = body<wire::BookingView>(),
       .status = 201,
       .query = {"dry_run"},
       .handle = book},
      {.method = "GET",
       .path = "/v1/bookings.ics",
       .id = "booking_feed",
       .tag = "calendar",
       .summary = "The same as an iCalendar feed",
       .handle = booking_feed},
      {.method = "GET",
       .path = "/v1/bookings/{booking}",
       .id = "show_booking",
       .tag = "calendar",
       .summary = "One booking with its windows",
       .gives = body<wire::BookingView>(),
       .handle = show_booking},
      {.method = "DELETE",
       .path = "/v1/bookings/{booking}",
       .id = "cancel_booking",
       .tag = "calendar",
       .summary = "Cancel a booking or maintenance; work inside is checkpointed and queued again",
       .status = 204,
       .handle = cancel_booking},
      {.method = "GET",
       .path = "/v1/bookings/{booking}/ics",
       .id = "booking_calendar",
       .tag = "calendar",
       .summary = "One booking as iCalendar",
       .handle = booking_calendar},
      {.method = "POST",
       .path = "/v1/maintenance",
       .id = "plan_maintenance",
       .tag = "calendar",
       .summary = "Keep a node free of work for a window of time",
       .takes = body<wire::MaintenanceAsk>(),
       .gives = body<wire::BookingView>(),
       .status = 201,
       .handle = plan_maintenance},
  };
}

}  // namespace tranche::api
