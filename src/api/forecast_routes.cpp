// SPDX-License-Identifier: Apache-2.0
// The demand that is expected of the hours to come, by tenant and workload.
#include <algorithm>
#include <charconv>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/wall_clock.hpp"
#include "engine/decide.hpp"
#include "engine/layout_plan.hpp"
#include "engine/unit_forecast.hpp"
#include "wire/api_forecast.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

constexpr int kHoursShown = 24;
constexpr int kHoursMax = 168;
constexpr std::size_t kToldShown = 20;

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
             const Instant first = engine::hour_start(clock_at_least(state.now));
             for (int hour = 0; hour < hours; ++hour)
               out.hours.push_back(hour_of(state, actor, first + std::chrono::hours(hour)));
             return json(out);
           });
}

// What devices are to be cut into is for whoever manages them.
void layouts(Api& api, Call call) {
  api.view(
      std::move(call), [](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
        if (auto refusal = engine::check_access(state, actor, engine::Action::kManageCapacity, kPlatform))
          return refuse(*refusal);
        const Instant now = clock_at_least(state.now);
        wire::LayoutView out{.until = now + engine::kLayoutAhead,
                             .prepare_percent = state.settings.prepare_percent};
        for (const auto& one : engine::plan_layouts(state, now, out.until))
          out.partitions.push_back({.device = one.device,
                                    .node = state.nodes.at(state.devices.at(one.device).node).name,
                                    .profile = one.profile,
                                    .start = one.start,
                                    .priority = one.priority});
        return json(out);
      });
}

// How good the answers were is for everybody; whose jobs they were about is not.
void accuracy(Api& api, Call call) {
  api.view(
      std::move(call), [](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
        const auto& outcomes = state.foretold.outcomes;
        wire::ForecastAccuracy out{.predictions = static_cast<std::uint32_t>(outcomes.size()),
                                   .open = static_cast<std::uint32_t>(state.foretold.open.size())};
        std::vector<Duration> errors;
        std::uint32_t in_time = 0;
        for (const engine::ToldOutcome& one : outcomes) {
          errors.push_back(one.really < one.p50 ? one.p50 - one.really : one.really - one.p50);
          in_time += one.really <= one.p90 ? 1U : 0U;
        }
        if (!errors.empty()) {
          std::sort(errors.begin(), errors.end());
          out.error_median = errors[errors.size() / 2];
          out.started_by_p90_permille = in_time * 1000U / out.predictions;
        }
        for (auto one = outcomes.rbegin(); one != outcomes.rend() && out.recent.size() < kToldShown; ++one) {
          const engine::Job* job = state.job(one->job);
          const bool visible = job != nullptr && engine::can_see(state, actor, *job);
          out.recent.push_back({.job = visible ? one->job : JobId{},
                                .started = one->at,
                                .told_p50 = one->p50,
                                .told_p90 = one->p90,
                                .waited = one->really});
        }
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
           .handle = demand},
          {.method = "GET",
           .path = "/v1/forecast/layouts",
           .id = "forecast_layouts",
           .tag = "forecast",
           .summary = "Hardware partitions that devices are kept ready for, by the demand expected",
           .gives = body<wire::LayoutView>(),
           .handle = layouts},
          {.method = "GET",
           .path = "/v1/forecast/accuracy",
           .id = "forecast_accuracy",
           .tag = "forecast",
           .summary = "How start times that were told to waiting jobs came true",
           .gives = body<wire::ForecastAccuracy>(),
           .handle = accuracy}};
}

}  // namespace tranche::api
