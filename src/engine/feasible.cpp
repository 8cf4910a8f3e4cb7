// SPDX-License-Identifier: Apache-2.0
#include "engine/feasible.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace tranche::engine {
namespace {

using policy::Shape;

constexpr std::size_t kModelsShown = 6;
constexpr std::int64_t kMib = 1 << 20;

std::string in_gigabytes(std::int64_t bytes) {
  return std::to_string(bytes / 1'000'000'000) + "GB";
}

std::string shown_models(const State& state, bool simulated) {
  std::string out;
  std::set<std::string> models;
  for (const DeviceKind& kind : state.index.capacity->device_kinds(state))
    if (kind.simulated == simulated)
      models.insert(kind.model.empty() ? "a device of " + in_gigabytes(kind.vram) : kind.model);
  std::size_t shown = 0;
  for (const std::string& model : models) {
    if (++shown > kModelsShown) return out + ", ...";
    out += (out.empty() ? "" : ", ") + model;
  }
  return out;
}

std::string shown_profiles(const State& state, const Ask& ask) {
  std::set<std::string> names;
  for (const auto& [id, device] : state.devices) {
    const Node& node = state.nodes.at(device.node);
    if (node.state == NodeState::kRetired || node.simulated != ask.simulated) continue;
    if (!ask.model.empty() && device.facts.model != ask.model) continue;
    for (const auto& profile : device.facts.profiles) names.insert(profile.name);
  }
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// The most that any node of the right kind has of something.
struct Most {
  std::int64_t devices = 0;
  std::int64_t vram = 0;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  bool any = false;
};

Most most_of(const State& state, const Shape& shape) {
  Most most;
  const Capacity& capacity = *state.index.capacity;
  for (const auto& [id, node] : state.nodes) {
    if (node.state == NodeState::kRetired) continue;
    for (const policy::NodeIndex index : capacity.groups_of(id)) {
      const policy::NodeSpec& spec = capacity.fleet().spec(index);
      if (!capacity.fleet().type_allows(spec, shape)) continue;
      most.any = true;
      most.devices = std::max<std::int64_t>(most.devices, spec.devices);
      most.vram = std::max(most.vram, spec.vram);
      most.cpu_milli = std::max(most.cpu_milli, spec.cpu_milli);
      most.memory_mib = std::max(most.memory_mib, spec.memory_mib);
    }
  }
  return most;
}

// What is asked of one node, and is on none.
struct Lack {
  std::string what{};
  std::string fix{};
};

std::optional<Lack> lack_of(const Shape& shape, const Most& most) {
  if (shape.devices > most.devices)
    return Lack{"at most " + std::to_string(most.devices) + " such devices are in one node",
                "ask for " + std::to_string(most.devices) + ", or for several nodes with num_nodes"};
  if (shape.shares() && shape.vram > most.vram)
    return Lack{"the largest such device has " + in_gigabytes(most.vram),
                "ask for at most " + in_gigabytes(most.vram) + ", or for several devices"};
  if (shape.cpu_milli > most.cpu_milli)
    return Lack{"the largest such node has " + std::to_string(most.cpu_milli / 1000) +
                    " CPUs for jobs on these devices",
                "ask for at most " + std::to_string(most.cpu_milli / 1000) + " CPUs"};
  if (shape.memory_mib > most.memory_mib)
    return Lack{"the largest such node has " + in_gigabytes(most.memory_mib * kMib) + " of memory for it",
                "ask for at most " + in_gigabytes(most.memory_mib * kMib) + " of memory"};
  return std::nullopt;
}

Refusal refusal(std::string message, std::string fix) {
  return {
      .reason = Reason::kInvalid, .rule = "capacity", .message = std::move(message), .fix = std::move(fix)};
}

Refusal no_such_device(const State& state, const Ask& ask) {
  const std::string models = shown_models(state, ask.simulated);
  if (ask.simulated && models.empty())
    return refusal("no simulated node is connected", "start one: tranche agent --simulated FILE");
  const bool others = !ask.simulated && !shown_models(state, true).empty();
  const std::string hint = others ? "simulated devices take jobs that say infra: simulated" : "";
  if (models.empty())
    return refusal("no node connected has a device",
                   others ? hint : "add a node that has one: tranche node add NAME");
  return refusal("no device connected is " + ask.gpus,
                 "what there is: " + models + " (tranche gpus)" + (others ? "; " + hint : ""));
}

}  // namespace

std::optional<Refusal> impossibility(const State& state, PartyId owner, const Ask& ask) {
  Capacity& capacity = *state.index.capacity;
  if (capacity.empty() || ask.may_burst) return std::nullopt;
  const auto shape = capacity.shape_of(ask, trust_group(state, tenant_of(state, owner)));
  if (!shape) return no_such_device(state, ask);
  const std::uint32_t members = std::max(ask.nodes, 1U);
  const std::uint32_t room = capacity.room_when_empty(state, *shape, members);
  if (room >= members) return std::nullopt;
  if (room > 0)
    return refusal("all nodes together could hold " + std::to_string(room) + " members of it, even empty",
                   "ask for at most " + std::to_string(room) + " of them");
  const Most most = most_of(state, *shape);
  if (!most.any || (shape->devices > 0 && most.devices == 0)) return no_such_device(state, ask);
  if (const auto lack = lack_of(*shape, most)) return refusal(lack->what, lack->fix);
  if (!ask.profile.empty()) {
    const std::string profiles = shown_profiles(state, ask);
    return refusal("no device connected can be cut into " + ask.profile,
                   profiles.empty() ? "tranche gpus shows what there is" : "what there is: " + profiles);
  }
  return refusal("no node connected has all of it at once, even empty", "ask for less on each node");
}

Ask with_whole_nodes(const State& state, const Ask& ask) {
  if (!ask.whole_node) return ask;
  Ask whole = ask;
  const auto shape = state.index.capacity->shape_of(ask, kSharingGroup);
  const Most most = shape ? most_of(state, *shape) : Most{};
  if (!most.any) return whole;
  const std::uint32_t nodes = std::max(ask.nodes, 1U);
  whole.instances = static_cast<std::uint32_t>(most.devices) * nodes;
  whole.cpu_milli = static_cast<std::uint32_t>(most.cpu_milli);
  if (whole.instances > 0) whole.milli_each = policy::kDeviceMilli;
  return whole;
}

}  // namespace tranche::engine
