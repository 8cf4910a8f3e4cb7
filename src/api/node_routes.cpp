// SPDX-License-Identifier: Apache-2.0
// Nodes and devices: invite, join, look at, cordon, drain, remove.
#include <sodium.h>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "api/secrets.hpp"
#include "api/test_progress.hpp"
#include "engine/device_life.hpp"
#include "server/agent_hub.hpp"
#include "wire/api_node.hpp"
#include "wire/fields.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

// Capacity is seen by whoever could be given work on it: its owner and everyone below.
bool can_see(const State& state, const Actor& actor, const engine::Node& node) {
  return engine::can_see(state, actor, node.owner);
}

wire::DeviceView device_view(const State& state,
                             const engine::Device& device,
                             const server::LinkFacts& facts) {
  const engine::Node& node = state.nodes.at(device.node);
  wire::DeviceView view{.id = device.id,
                        .node_id = node.id,
                        .node = node.name,
                        .uuid = device.facts.uuid,
                        .vendor = std::string(wire::name_of(device.facts.vendor)),
                        .model = device.facts.model,
                        .name = device.facts.name,
                        .vram = device.facts.vram,
                        .state = device.state,
                        .mode = device.facts.mode,
                        .simulated = node.simulated,
                        .soft_capable = device.facts.soft_capable,
                        .health = engine::health_words(state, device, progress_words(device, facts)),
                        .since = device.since};
  for (const LeaseId id : state.index.capacity->leases_on(node.id)) {
    const engine::Lease& lease = state.leases.at(id);
    for (const engine::Slice& slice : lease.slices) {
      if (slice.device != device.id) continue;
      ++view.slices;
      view.milli_used += slice.milli;
      view.vram_reserved.count += slice.vram;
      if (lease.isolation == engine::Isolation::kSoft && slice.milli < 1000)
        view.mode = wire::DeviceMode::kShared;
    }
  }
  for (const wire::DeviceSample& sample : facts.last.devices) {
    if (sample.uuid != device.facts.uuid) continue;
    view.busy_milli = sample.busy_milli;
    view.vram_used = sample.vram_used;
    view.power_milliwatts = sample.power_milliwatts;
    view.temperature_celsius = sample.temperature_celsius;
  }
  return view;
}

wire::NodeView node_view(const State& state, const engine::Node& node, const server::LinkFacts& facts) {
  wire::NodeView view{.id = node.id,
                      .name = node.name,
                      .owner = engine::path_of(state, node.owner),
                      .site = node.site,
                      .state = engine::condition_of(state, node),
                      .connected = facts.connected,
                      .simulated = node.simulated,
                      .software = node.software,
                      .cpus = node.cpus,
                      .memory = node.memory,
                      .labels = node.labels,
                      .since = node.since,
                      .features = node.features,
                      .health = engine::devices_words(state, node)};
  for (const LeaseId id : state.index.capacity->leases_on(node.id)) view.leases += state.leases.at(id).live();
  for (const DeviceId id : node.devices)
    view.devices.push_back(device_view(state, state.devices.at(id), facts));
  return view;
}

// By id or by name.
const engine::Node* find_node(const State& state, const std::string& name) {
  if (const auto id = parse_id("node_", name)) return state.node(NodeId{*id});
  const auto found = state.index.nodes_by_name.find(name);
  return found == state.index.nodes_by_name.end() ? nullptr : state.node(found->second);
}

void list_nodes(Api& api, Call call) {
  const server::AgentHub* hub = api.options().hub;
  api.view(std::move(call),
           [hub](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             wire::NodeList out;
             for (const auto& [id, node] : state.nodes) {
               if (node.state == wire::NodeState::kRetired || !can_see(state, actor, node)) continue;
               out.items.push_back(node_view(state, node, hub->facts(id)));
             }
             return json(out);
           });
}

void list_devices(Api& api, Call call) {
  const server::AgentHub* hub = api.options().hub;
  api.view(std::move(call),
           [hub](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             wire::DeviceList out;
             for (const auto& [id, device] : state.devices) {
               const engine::Node& node = state.nodes.at(device.node);
               if (node.state == wire::NodeState::kRetired || !can_see(state, actor, node)) continue;
               out.items.push_back(device_view(state, device, hub->facts(node.id)));
             }
             return json(out);
           });
}

void show_node(Api& api, Call call) {
  const server::AgentHub* hub = api.options().hub;
  const std::string name = call.parameters.front();
  api.view(std::move(call),
           [hub, name](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const engine::Node* node = find_node(state, name);
             if (node == nullptr || !can_see(state, actor, *node)) return refuse(engine::not_found());
             return versioned(json(node_view(state, *node, hub->facts(node->id))), node->version);
           });
}

void add_node(Api& api, Call call) {
  const auto body = parse<wire::NodeAdd>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string secret = new_token_secret();
  engine::AddNode command{.name = body->name,
                          .site = body->site,
                          .labels = body->labels,
                          .invitation = server::TokenDirectory::hash(secret),
                          .expires_in = body->expires_in};
  const AgentAddress where = api.options().agents;
  const auto invited = [secret, where, name = body->name](const server::Outcome& outcome) {
    const auto& event = std::get<engine::NodeAdded>(outcome.events->front());
    wire::NodeInvite invite{.id = event.id,
                            .name = name,
                            .token = secret,
                            .ca_pin = where.ca_pin,
                            .address = where.url,
                            .expires = event.expires};
    invite.command = "tranche agent --server " + where.url + " --name " + name + " --token " + secret +
                     " --ca-pin " + where.ca_pin;
    net::Response response = json(invite, 201);
    response.headers.emplace_back("Location", "/v1/nodes/" + text(event.id));
    return response;
  };
  if (body->owner.empty()) return api.run(std::move(call), std::move(command), invited);
  api.with_party(std::move(call), body->owner, [&api, command, invited](Call next, PartyId owner) mutable {
    command.owner = owner == PartyId{} ? PartyId::make(PartyKind::kTenant, 0) : owner;  // Unknown: refused.
    api.run(std::move(next), std::move(command), invited);
  });
}

net::Response joined(Api& api, const server::Outcome& outcome, const std::string& request) {
  const server::HubOptions& options = api.options().hub->options();
  const NodeId node = std::get<engine::NodeInvitationUsed>(outcome.events->front()).id;
  const auto made =
      options.authority->sign_client(request, text(node), net::Validity::lasting(options.certificate_life));
  if (!made) {
    return problem(wire::Problem{"certificate_request",
                                 "it cannot be read, or its key is too weak",
                                 "ask for a new invitation: tranche node add"},
                   "");
  }
  return json(wire::NodeJoined{.id = node, .certificate = *made, .ca = options.authority->certificate_pem()},
              201);
}

// Wrong guesses are counted, right ones are not: a fleet may join from behind one address.
void join_node(Api& api, Call call) {
  const auto body = parse<wire::NodeJoin>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  if (!api.limiter().may_try(call.envelope.origin)) {
    return call.reply.send(problem(
        {429, "too-many-requests", "Too many wrong tokens"}, "", "wait a minute", call.envelope.request_id));
  }
  Envelope envelope = call.envelope;
  auto answer = [&api, request = body->certificate_request, call = std::move(call)](
                    const server::Outcome& outcome) mutable {
    const std::string& id = call.envelope.request_id;
    if (outcome.refusal != nullptr) api.limiter().failed(call.envelope.origin);  // It is in the audit too.
    net::Response response = outcome.fault != server::Fault::kNone ? problem(outcome.fault, id)
                             : outcome.refusal != nullptr          ? problem(*outcome.refusal, id)
                                                                   : joined(api, outcome, request);
    response.headers.emplace_back("X-Request-Id", id);
    call.reply.send(std::move(response));
  };
  api.loop().submit(std::move(envelope),
                    engine::JoinNode{body->name, server::TokenDirectory::hash(body->token)},
                    std::move(answer));
}

// Goes on with what a name means; a name that means nothing is refused by the engine like any other.
void with_node(Api& api, Call call, UniqueFunction<void(Call, engine::Node)> then) {
  const std::string name = call.parameters.front();
  api.loop().read([call = std::move(call), name, then = std::move(then)](const State& state) mutable {
    const engine::Node* node = find_node(state, name);
    then(std::move(call), node == nullptr ? engine::Node{} : *node);
  });
}

void change_node(Api& api, Call call) {
  const auto body = parse<wire::NodeChange>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const server::AgentHub* hub = api.options().hub;
  with_node(api, std::move(call), [&api, hub, change = *body](Call next, engine::Node node) {
    engine::ChangeNode command{.id = node.id,
                               .cordoned = change.cordoned.value_or(node.cordoned),
                               .draining = change.draining.value_or(node.draining),
                               .labels = change.labels.value_or(node.labels)};
    api.run(std::move(next), std::move(command), [hub, id = node.id](const server::Outcome& outcome) {
      const engine::Node& after = outcome.state->nodes.at(id);
      return versioned(json(node_view(*outcome.state, after, hub->facts(id))), after.version);
    });
  });
}

void remove_node(Api& api, Call call) {
  with_node(api, std::move(call), [&api](Call next, const engine::Node& node) {
    api.run(
        std::move(next), engine::RemoveNode{node.id}, [](const server::Outcome&) { return no_content(); });
  });
}

}  // namespace

std::vector<Route> node_routes() {
  return {
      {.method = "GET",
       .path = "/v1/nodes",
       .id = "list_nodes",
       .tag = "capacity",
       .summary = "Nodes that you may see",
       .gives = body<wire::NodeList>(),
       .handle = list_nodes},
      {.method = "POST",
       .path = "/v1/nodes",
       .id = "add_node",
       .tag = "capacity",
       .summary = "Invite a machine; answers with its join token, shown once",
       .takes = body<wire::NodeAdd>(),
       .gives = body<wire::NodeInvite>(),
       .status = 201,
       .handle = add_node},
      {.method = "POST",
       .path = "/v1/nodes/join",
       .id = "join_node",
       .tag = "capacity",
       .summary = "A machine shows its invitation and gets its certificate",
       .auth = Auth::kNone,
       .takes = body<wire::NodeJoin>(),
       .gives = body<wire::NodeJoined>(),
       .status = 201,
       .handle = join_node},
      {.method = "GET",
       .path = "/v1/nodes/{node}",
       .id = "show_node",
       .tag = "capacity",
       .summary = "One node with its devices",
       .gives = body<wire::NodeView>(),
       .handle = show_node},
      {.method = "PATCH",
       .path = "/v1/nodes/{node}",
       .id = "change_node",
       .tag = "capacity",
       .summary = "Cordon, drain or label a node",
       .takes = body<wire::NodeChange>(),
       .gives = body<wire::NodeView>(),
       .handle = change_node},
      {.method = "DELETE",
       .path = "/v1/nodes/{node}",
       .id = "remove_node",
       .tag = "capacity",
       .summary = "Retire a node that runs nothing",
       .status = 204,
       .handle = remove_node},
      {.method = "GET",
       .path = "/v1/devices",
       .id = "list_devices",
       .tag = "capacity",
       .summary = "Devices that you may see",
       .gives = body<wire::DeviceList>(),
       .handle = list_devices},
  };
}

}  // namespace tranche::api
