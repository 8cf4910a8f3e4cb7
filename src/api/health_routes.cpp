// SPDX-License-Identifier: Apache-2.0
// The health of devices: the board, repairs, tests, the policy and the breaker.
#include <algorithm>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "api/test_progress.hpp"
#include "base/wall_clock.hpp"
#include "engine/device_life.hpp"
#include "wire/api_health.hpp"
#include "wire/fields.hpp"
#include "wire/test_progress.hpp"

namespace tranche::api {
namespace {

using engine::Action;
using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

constexpr Duration kWeek = std::chrono::hours(24 * 7);

std::vector<wire::SignalView> signals_of(const engine::Device& device) {
  std::vector<wire::SignalView> out;
  for (const engine::SeenSignal& seen : device.record.signals) {
    out.push_back({seen.at,
                   seen.source,
                   seen.code,
                   seen.value,
                   seen.text,
                   std::string(wire::name_of(seen.action)),
                   seen.table_version});
  }
  return out;
}

wire::DeviceHealth health_of(const State& state,
                             const engine::Device& device,
                             const server::LinkFacts& facts) {
  const engine::Node& node = state.nodes.at(device.node);
  wire::DeviceHealth out{.device = device.id,
                         .node = node.name,
                         .model = device.facts.model.empty() ? device.facts.name : device.facts.model,
                         .simulated = node.simulated,
                         .state = device.state,
                         .since = device.since,
                         .reason = device.reason,
                         .health = engine::health_words(state, device, progress_words(device, facts)),
                         .leases = static_cast<std::uint32_t>(engine::leases_on(state, device).size()),
                         .resets = device.record.resets,
                         .last_test = device.record.last_test,
                         .signals = signals_of(device)};
  const Instant now = clock_at_least(state.now);
  for (const Instant at : device.record.remediations) out.remediations += now - at <= kWeek;
  return out;
}

void show_board(Api& api, Call call) {
  const server::AgentHub* hub = api.options().hub;
  api.view(std::move(call), [hub](const State& state, const Actor& actor) -> Shown {
    wire::HealthBoard out{.table_version = policy::health_table(wire::GpuVendor::kNvidia).version,
                          .acceptance = state.health.policy.acceptance};
    if (!state.health.policy.tables.empty()) out.table_version = state.health.policy.tables.front().version;
    if (engine::may(state, actor, Action::kManageCapacity, kPlatform)) {
      out.breaker_open = state.health.breaker_open;
      out.breaker_since = state.health.breaker_since;
      const Instant now = clock_at_least(state.now);
      for (const engine::Departure& one : state.health.departures)
        out.left_lately += now - one.at <= state.health.policy.breaker_window;
    }
    for (const auto& [id, device] : state.devices) {
      const engine::Node& node = state.nodes.at(device.node);
      if (node.state == wire::NodeState::kRetired) continue;
      if (!engine::may(state, actor, Action::kManageCapacity, node.owner)) continue;
      ++out.states[std::string(wire::name_of(device.state))];
      out.items.push_back(health_of(state, device, hub->facts(node.id)));
    }
    return json(out);
  });
}

void show_policy(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    if (auto refusal = engine::check_access(state, actor, Action::kManagePlatform, kPlatform))
      return refuse(*refusal);
    engine::HealthPolicy shown = state.health.policy;
    for (const auto vendor : {wire::GpuVendor::kNvidia, wire::GpuVendor::kAny}) {
      const policy::HealthTable& builtin = policy::health_table(vendor);
      const bool replaced =
          std::any_of(shown.tables.begin(), shown.tables.end(), [&](const policy::HealthTable& table) {
            return table.family == builtin.family;
          });
      if (!replaced) shown.tables.push_back(builtin);
    }
    return json(shown);
  });
}

void set_policy(Api& api, Call call) {
  const auto body = engine::parse_health_policy(call.request.body);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.run(std::move(call), engine::SetHealthPolicy{*body}, [body = *body](const server::Outcome&) {
    return json(body);
  });
}

void set_breaker(Api& api, Call call) {
  const auto body = parse<wire::BreakerChange>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.run(std::move(call), engine::SetBreaker{body->open}, [body = *body](const server::Outcome&) {
    return json(body);
  });
}

std::string repair_id(std::uint64_t id) {
  return "rep_" + std::to_string(id);
}

std::uint64_t parse_repair(const std::string& text) {
  if (!text.starts_with("rep_")) return 0;
  char* end = nullptr;
  const unsigned long long id = std::strtoull(text.c_str() + 4, &end, 10);
  return *end == '\0' ? id : 0;
}

wire::RepairView view_of(const State& state, const engine::Repair& repair) {
  const engine::Device& device = state.devices.at(repair.device);
  const auto known = [](Instant at) { return at == Instant{} ? std::nullopt : std::optional(at); };
  return {.id = repair_id(repair.id),
          .device = repair.device,
          .node = state.nodes.at(device.node).name,
          .model = device.facts.model.empty() ? device.facts.name : device.facts.model,
          .state = repair.state,
          .device_state = device.state,
          .opened = repair.opened,
          .closed = known(repair.closed),
          .reason = repair.reason,
          .ticket = repair.ticket,
          .expected = known(repair.expected),
          .note = repair.note,
          .evidence = signals_of(device)};
}

bool may_see(const State& state, const Actor& actor, const engine::Repair& repair) {
  const engine::Device* device = state.device(repair.device);
  return device != nullptr &&
         engine::may(state, actor, Action::kManageCapacity, state.nodes.at(device->node).owner);
}

void list_repairs(Api& api, Call call) {
  const bool all = call.query_value("all") == "true";
  api.view(std::move(call), [all](const State& state, const Actor& actor) -> Shown {
    wire::RepairList out;
    for (const auto& [id, repair] : state.repairs) {
      const bool open =
          repair.state == wire::RepairState::kOpen || repair.state == wire::RepairState::kAccepted;
      if ((open || all) && may_see(state, actor, repair)) out.items.push_back(view_of(state, repair));
    }
    return json(out);
  });
}

void show_repair(Api& api, Call call) {
  const std::uint64_t id = parse_repair(call.parameters.front());
  api.view(std::move(call), [id](const State& state, const Actor& actor) -> Shown {
    const auto found = state.repairs.find(id);
    if (found == state.repairs.end() || !may_see(state, actor, found->second))
      return refuse(engine::not_found());
    return json(view_of(state, found->second));
  });
}

void open_repair(Api& api, Call call) {
  const auto body = parse<wire::RepairOpen>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.run(std::move(call),
          engine::OpenRepair{.device = body->device, .reason = body->reason},
          [](const server::Outcome& outcome) {
            std::uint64_t id = 0;
            for (const engine::Event& event : *outcome.events)
              if (const auto* opened = std::get_if<engine::RepairOpened>(&event)) id = opened->id;
            net::Response response = json(view_of(*outcome.state, outcome.state->repairs.at(id)), 201);
            response.headers.emplace_back("Location", "/v1/repairs/" + repair_id(id));
            return response;
          });
}

template <wire::RepairState to>
void change_repair(Api& api, Call call) {
  const auto body = parse<wire::RepairChange>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::uint64_t id = parse_repair(call.parameters.front());
  const engine::ChangeRepair command{.id = id,
                                     .to = to,
                                     .ticket = body->ticket,
                                     .expected = body->expected.value_or(Instant{}),
                                     .note = body->note};
  api.run(std::move(call), command, [id](const server::Outcome& outcome) {
    return json(view_of(*outcome.state, outcome.state->repairs.at(id)));
  });
}

const engine::Node* find_node(const State& state, const std::string& name) {
  const auto named = state.index.nodes_by_name.find(name);
  return state.node(named != state.index.nodes_by_name.end() ? named->second
                                                             : NodeId{parse_id("node_", name).value_or(0)});
}

void test_node(Api& api, Call call) {
  const auto body = parse<wire::NodeTest>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string name = call.parameters.front();
  api.loop().read([&api, call = std::move(call), name, level = body->level](const State& state) mutable {
    const engine::Node* found = find_node(state, name);
    const NodeId node = found == nullptr ? NodeId{} : found->id;
    api.run(std::move(call), engine::TestNode{node, level}, [node, level](const server::Outcome& outcome) {
      wire::NodeTest out{.level = level};
      for (const engine::Event& event : *outcome.events)
        if (const auto* ordered = std::get_if<engine::DeviceOrdered>(&event))
          out.ordered.push_back(ordered->device);
      for (const DeviceId id : outcome.state->nodes.at(node).devices) {
        if (std::find(out.ordered.begin(), out.ordered.end(), id) != out.ordered.end()) continue;
        const engine::Device& device = outcome.state->devices.at(id);
        out.skipped.push_back(text(id) + " is " + std::string(wire::name_of(device.state)) +
                              (engine::is_idle(*outcome.state, device) ? "" : ", and in use"));
      }
      return json(out);
    });
  });
}

void show_node_test(Api& api, Call call) {
  const server::AgentHub* hub = api.options().hub;
  const std::string name = call.parameters.front();
  api.view(std::move(call), [hub, name](const State& state, const Actor& actor) -> Shown {
    const engine::Node* node = find_node(state, name);
    if (node == nullptr || !engine::can_see(state, actor, node->owner)) return refuse(engine::not_found());
    if (auto refusal = engine::check_access(state, actor, Action::kManageCapacity, node->owner))
      return refuse(*refusal);
    const server::LinkFacts facts = hub->facts(node->id);
    wire::NodeTestView out{.node = node->name, .connected = facts.connected};
    for (const DeviceId id : node->devices) {
      const engine::Device& device = state.devices.at(id);
      const wire::DeviceTask task = device.record.task;
      wire::DeviceTestView view{.device = id, .state = device.state, .last_test = device.record.last_test};
      view.testing =
          device.record.order != 0 && (task == wire::DeviceTask::kAccept || task == wire::DeviceTask::kTest);
      if (view.testing) view.level = device.record.level;
      if (const wire::TestProgress* now = view.testing ? progress_of(device, facts) : nullptr) {
        view.percent = now->percent;
        view.part = now->part;
      }
      out.items.push_back(std::move(view));
    }
    return json(out);
  });
}

}  // namespace

std::vector<Route> health_routes() {
  std::vector<Route> routes{
      {.method = "GET",
       .path = "/v1/health",
       .id = "health_board",
       .tag = "health",
       .summary = "Every device you answer for, by state, with evidence",
       .gives = body<wire::HealthBoard>(),
       .handle = show_board},
      {.method = "GET",
       .path = "/v1/health/policy",
       .id = "show_health_policy",
       .tag = "health",
       .summary = "What signals lead to, and which tests are asked for",
       .gives = body<engine::HealthPolicy>(),
       .handle = show_policy},
      {.method = "PUT",
       .path = "/v1/health/policy",
       .id = "set_health_policy",
       .tag = "health",
       .summary = "Replace the policy",
       .takes = body<engine::HealthPolicy>(),
       .gives = body<engine::HealthPolicy>(),
       .handle = set_policy},
      {.method = "PUT",
       .path = "/v1/health/breaker",
       .id = "set_breaker",
       .tag = "health",
       .summary = "Let devices be drained by themselves again, or not",
       .takes = body<wire::BreakerChange>(),
       .gives = body<wire::BreakerChange>(),
       .handle = set_breaker},
      {.method = "GET",
       .path = "/v1/repairs",
       .id = "list_repairs",
       .tag = "health",
       .summary = "Repairs that are open",
       .gives = body<wire::RepairList>(),
       .query = {"all"},
       .handle = list_repairs},
      {.method = "POST",
       .path = "/v1/repairs",
       .id = "open_repair",
       .tag = "health",
       .summary = "Take a device out of service by hand: its jobs are moved, and it goes to repair",
       .takes = body<wire::RepairOpen>(),
       .gives = body<wire::RepairView>(),
       .status = 201,
       .handle = open_repair},
      {.method = "GET",
       .path = "/v1/repairs/{repair}",
       .id = "show_repair",
       .tag = "health",
       .summary = "One repair with its evidence",
       .gives = body<wire::RepairView>(),
       .handle = show_repair},
      {.method = "POST",
       .path = "/v1/nodes/{node}/test",
       .id = "test_node",
       .tag = "health",
       .summary = "Test the devices of a node that nobody uses",
       .takes = body<wire::NodeTest>(),
       .gives = body<wire::NodeTest>(),
       .handle = test_node},
      {.method = "GET",
       .path = "/v1/nodes/{node}/test",
       .id = "show_node_test",
       .tag = "health",
       .summary = "How far the tests of a node's devices are, and what the last ones found",
       .gives = body<wire::NodeTestView>(),
       .handle = show_node_test}};
  const auto change = [&](std::string_view path, std::string_view id, std::string_view summary, auto handle) {
    routes.push_back({.method = "POST",
                      .path = path,
                      .id = id,
                      .tag = "health",
                      .summary = summary,
                      .takes = body<wire::RepairChange>(),
                      .gives = body<wire::RepairView>(),
                      .handle = handle});
  };
  change("/v1/repairs/{repair}/accept",
         "accept_repair",
         "Take a repair on: the device goes to repair",
         change_repair<wire::RepairState::kAccepted>);
  change("/v1/repairs/{repair}/dismiss",
         "dismiss_repair",
         "Nothing is wrong: the device is tested again and comes back if it passes",
         change_repair<wire::RepairState::kDismissed>);
  change("/v1/repairs/{repair}/return",
         "return_repair",
         "Mended: the device is tested in full and comes back if it passes",
         change_repair<wire::RepairState::kReturned>);
  change("/v1/repairs/{repair}/retire",
         "retire_repair",
         "Not worth mending: the device is never used again; `note` says why",
         change_repair<wire::RepairState::kRetired>);
  return routes;
}

}  // namespace tranche::api
