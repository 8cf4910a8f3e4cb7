// SPDX-License-Identifier: Apache-2.0
// How things run: now, in the last hours, and how a job behaved.
#include <algorithm>
#include <map>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "server/agent_hub.hpp"
#include "wire/api_telemetry.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
using Slices = std::map<std::pair<LeaseId, DeviceId>, server::SliceNow>;

wire::TopSlice slice_view(const State& state,
                          const Actor& actor,
                          const engine::Lease& lease,
                          const engine::Slice& slice,
                          const Slices& now) {
  wire::TopSlice view{.state = lease.state, .milli = slice.milli, .vram = {slice.vram}};
  const engine::Job* job = state.job(lease.job);
  // That a part of a device is taken is seen by all who see the device; by whom and for what is not.
  if (job == nullptr || !engine::can_see(state, actor, *job)) return view;
  view.job = job->id;
  view.name = job->name;
  view.owner = engine::path_of(state, job->owner);
  const auto found = now.find({lease.id, slice.device});
  if (found == now.end()) return view;
  view.vram_used = found->second.sample.vram_used;
  view.busy_milli = found->second.busy_milli;
  return view;
}

wire::TopDevice device_view(const State& state,
                            const Actor& actor,
                            const engine::Device& device,
                            const server::LinkFacts& facts,
                            const Slices& now) {
  const engine::Node& node = state.nodes.at(device.node);
  wire::TopDevice view{.id = device.id,
                       .node = node.name,
                       .connected = facts.connected,
                       .simulated = node.simulated,
                       .model = device.facts.model.empty() ? device.facts.name : device.facts.model,
                       .state = device.state,
                       .vram = device.facts.vram};
  for (const LeaseId id : state.index.capacity->leases_on(node.id)) {
    const engine::Lease& lease = state.leases.at(id);
    for (const engine::Slice& slice : lease.slices) {
      if (slice.device != device.id) continue;
      view.milli_used += slice.milli;
      view.slices.push_back(slice_view(state, actor, lease, slice, now));
    }
  }
  for (const wire::DeviceSample& sample : facts.last.devices) {
    if (sample.uuid != device.facts.uuid || !facts.connected) continue;
    view.busy_milli = sample.busy_milli;
    view.vram_used = sample.vram_used;
    // Nothing at work draws nothing, or is as cold as ice: such a device does not say.
    if (sample.power_milliwatts > 0) view.power_milliwatts = sample.power_milliwatts;
    if (sample.temperature_celsius > 0) view.temperature_celsius = sample.temperature_celsius;
  }
  return view;
}

std::vector<wire::TopQueue> queues(const State& state, const Actor& actor) {
  const Instant now = clock_at_least(state.now);
  std::map<std::pair<PartyId, bool>, wire::TopQueue> by_tenant;
  for (const auto& [owner, jobs] : state.index.jobs_by_owner) {
    if (!engine::may(state, actor, engine::Action::kViewJob, owner)) continue;
    const PartyId tenant = engine::tenant_of(state, owner);
    for (const JobId id : jobs) {
      const engine::Job& job = state.jobs.at(id);
      if (is_over(job.state)) continue;
      wire::TopQueue& queue = by_tenant[{tenant, job.ask.simulated}];
      if (job.state == wire::JobState::kPending) {
        ++queue.pending;
        queue.longest_wait = std::max(queue.longest_wait, now - job.submitted);
      } else {
        ++queue.running;
        queue.gpu_milli += job.ask.gpu_milli();
      }
    }
  }
  std::vector<wire::TopQueue> out;
  for (auto& [key, queue] : by_tenant) {
    queue.tenant = engine::path_of(state, key.first);
    queue.simulated = key.second;
    out.push_back(std::move(queue));
  }
  return out;
}

void top(Api& api, Call call) {
  const server::AgentHub* hub = api.options().hub;
  api.view(std::move(call),
           [hub](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const Slices now = hub->telemetry().slices();
             wire::TopView out{.at = clock_at_least(state.now), .queues = queues(state, actor)};
             for (const auto& [id, device] : state.devices) {
               const engine::Node& node = state.nodes.at(device.node);
               if (node.state == wire::NodeState::kRetired || !engine::can_see(state, actor, node.owner))
                 continue;
               out.devices.push_back(device_view(state, actor, device, hub->facts(node.id), now));
             }
             return json(out);
           });
}

// Of nodes and tenants that the caller sees.
void add_moments(const State& state,
                 const Actor& actor,
                 const std::vector<server::Telemetry::Moment>& moments,
                 wire::TelemetryList& out) {
  std::map<NodeId, wire::NodeSeries> nodes;
  std::map<std::pair<PartyId, bool>, wire::QueueSeries> queues;
  for (const auto& [id, node] : state.nodes)
    if (node.state != wire::NodeState::kRetired && engine::can_see(state, actor, node.owner))
      nodes[id] = {.node = node.name, .simulated = node.simulated};
  for (const auto& [id, party] : state.parties)
    if (id.kind() == PartyKind::kTenant && engine::may(state, actor, engine::Action::kViewJob, id))
      queues[{id, false}] = {.tenant = engine::path_of(state, id)};
  for (const server::Telemetry::Moment& moment : moments)
    for (const auto& [key, queue] : moment.queues)
      if (const auto real = queues.find({key.first, false}); key.second && real != queues.end())
        queues[key] = {.tenant = real->second.tenant, .simulated = true};
  for (const server::Telemetry::Moment& moment : moments) {
    for (const auto& [id, connected] : moment.connected)
      if (const auto found = nodes.find(id); found != nodes.end())
        found->second.points.push_back({moment.at, connected});
    for (auto& [id, series] : queues) {
      const auto queue = moment.queues.find(id);
      if (queue == moment.queues.end())
        series.points.push_back({.at = moment.at});
      else
        series.points.push_back({moment.at, queue->second.pending, queue->second.longest_wait});
    }
  }
  for (auto& [id, series] : nodes) {
    const auto up =
        std::count_if(series.points.begin(), series.points.end(), [](const auto& p) { return p.connected; });
    if (!series.points.empty())
      series.available_milli = up * 1000 / static_cast<std::int64_t>(series.points.size());
    out.nodes.push_back(std::move(series));
  }
  for (auto& [id, series] : queues) out.queues.push_back(std::move(series));
}

void telemetry(Api& api, Call call) {
  const server::AgentHub* hub = api.options().hub;
  const std::string device_name(call.query_value("device"));
  const std::string since_text(call.query_value("since"));
  const auto since =
      since_text.empty() ? std::optional(hub->telemetry().options().kept) : parse_duration(since_text);
  if (!since)
    return call.reply.send(
        problem(wire::Problem{"since", "must be a duration such as 1h", ""}, call.envelope.request_id));
  api.view(std::move(call),
           [hub, device_name, since = *since](const State& state,
                                              const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const server::Telemetry& kept = hub->telemetry();
             wire::TelemetryList out{.step = kept.options().step, .kept = kept.options().kept};
             const Instant now = wall_clock();
             for (const auto& [id, device] : state.devices) {
               const engine::Node& node = state.nodes.at(device.node);
               if (!device_name.empty() && device_name != text(id)) continue;
               if (node.state == wire::NodeState::kRetired || !engine::can_see(state, actor, node.owner))
                 continue;
               out.items.push_back({.device = id,
                                    .node = node.name,
                                    .model = device.facts.model,
                                    .simulated = node.simulated,
                                    .points = kept.points(node.id, device.facts.uuid, now - since)});
             }
             if (!device_name.empty() && out.items.empty()) return refuse(engine::not_found());
             if (device_name.empty()) add_moments(state, actor, kept.moments(now - since), out);
             return json(out);
           });
}

void behaviour(Api& api, Call call) {
  const JobId id{parse_id("job_", call.parameters.front()).value_or(0)};
  api.view(std::move(call),
           [id](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const engine::Job* job = state.job(id);
             if (job == nullptr || !engine::can_see(state, actor, *job)) return refuse(engine::not_found());
             wire::BehaviourList out{.job = id};
             for (const LeaseId lease_id : job->leases) {
               const engine::Lease& lease = state.leases.at(lease_id);
               if (!lease.behaviour) continue;
               const engine::Node& node = state.nodes.at(lease.node);
               out.items.push_back({.attempt = lease.attempt,
                                    .rank = lease.rank,
                                    .node = node.name,
                                    .simulated = node.simulated,
                                    .reason = lease.reason,
                                    .device_milli_granted = lease.gpu_milli(),
                                    .device_nanoseconds = lease.use.device_nanoseconds,
                                    .vram_byte_seconds = lease.use.vram_byte_seconds,
                                    .energy_millijoules = lease.use.energy_millijoules,
                                    .copied_bytes = lease.use.copied_bytes,
                                    .network_bytes = lease.use.network_bytes,
                                    .record = *lease.behaviour});
             }
             return json(out);
           });
}

}  // namespace

std::vector<Route> telemetry_routes() {
  return {{.method = "GET",
           .path = "/v1/top",
           .id = "top",
           .tag = "capacity",
           .summary = "Devices with what runs on them now, and queues",
           .gives = body<wire::TopView>(),
           .handle = top},
          {.method = "GET",
           .path = "/v1/telemetry",
           .id = "list_telemetry",
           .tag = "capacity",
           .summary = "What devices measured in the last hours, which nodes were there, and who waited",
           .gives = body<wire::TelemetryList>(),
           .query = {"device", "since"},
           .handle = telemetry},
          {.method = "GET",
           .path = "/v1/jobs/{job}/behaviour",
           .id = "job_behaviour",
           .tag = "jobs",
           .summary = "How a job behaved on its nodes: processes, memory, limits that it hit",
           .gives = body<wire::BehaviourList>(),
           .handle = behaviour}};
}

}  // namespace tranche::api
