// SPDX-License-Identifier: Apache-2.0
// The demand that is expected of the hours to come, by tenant and workload.
#include <charconv>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "engine/decide.hpp"
#include "engine/unit_forecast.hpp"
#include "wire/api_forecast.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

constexpr int kHoursShown = 24;
constexpr int kHoursMax = 168;

wire::HourDemand hour_of(const State& state, const Actor& actor, Instant hour) {
  wire::HourDemand out{.from = hour};
  for (const auto& [of, history] : state.index.demand->classes()) {
    const std::int64_t expected = state.index.demand->expected(of, hour);
    if (expected == 0 || !engine::may(state, actor, engine::Action::kViewBilling, of.tenant)) continue;
    out.classes.push_back({.party = engine::path_of(state, of.tenant),
                           .kind = of.kind,
                           .priority = of.priority,
                           .gpu_milli = expected});
    out.gpu_milli += expected;
  }
  for (const auto& [id, party] : state.parties) {
    if (id.kind() != PartyKind::kTenant || !engine::may(state, actor, engine::Action::kViewBilling, id))
      continue;
    for (const auto& [unit, count] : engine::expected_units(state, id, hour))
      out.units.push_back({.party = engine::path_of(state, id), .unit = unit, .count = count});
  }
  return out;
}

// Whoever sees a tenant's bill sees what is expected of it.
void demand(Api& api, Call call) {
  int hours = kHoursShown;
  const std::string given(call.query_value("hours"));
  if (!given.empty()) {
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), hours);
    if (error != std::errc{} || end != given.data() + given.size() || hours < 1 || hours > kHoursMax)
      return call.reply.send(
          problem(wire::Problem{"hours", "'" + given + "' is not a number of hours", "give 1 to 168"},
                  call.envelope.request_id));
  }
  api.view(std::move(call),
           [hours](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             wire::DemandView out{.prepare_percent = state.settings.prepare_percent};
             for (const auto& [id, device] : state.devices) {
               const engine::Node& node = state.nodes.at(device.node);
               const bool serves =
                   engine::takes_work(device.state) || device.state == wire::DeviceState::kScrubbing;
               if (!serves || !engine::takes_work(node)) continue;
               (node.simulated ? out.simulated_gpu_milli : out.capacity_gpu_milli) += policy::kDeviceMilli;
             }
             for (int hour = 0; hour < hours; ++hour)
               out.hours.push_back(
                   hour_of(state, actor, engine::hour_start(state.now) + std::chrono::hours(hour)));
             return json(out);
           });
}

}  // namespace

std::vector<Route> forecast_routes() {
  return {{.method = "GET",
           .path = "/v1/forecast/demand",
           .id = "forecast_demand",
           .tag = "forecast",
           .summary = "Demand expected of the hours to come, from the same hours of earlier weeks",
           .gives = body<wire::DemandView>(),
           .query = {"hours"},
           .handle = demand}};
}

}  // namespace tranche::api
