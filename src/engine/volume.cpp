// SPDX-License-Identifier: Apache-2.0
#include "engine/volume.hpp"

#include <algorithm>

#include "engine/decide.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kNameMax = 63;
constexpr std::int64_t kBytesMax = std::int64_t{1} << 50;

bool is_volume_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= kNameMax && plain(name.front()) && !name.starts_with("vol_") &&
         std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '-' || c == '_'; });
}

Refusal conflict(std::string rule, std::string message, std::string fix) {
  return {.reason = Reason::kConflict,
          .rule = std::move(rule),
          .message = std::move(message),
          .fix = std::move(fix)};
}

// One of his own, and neither gone nor going.
const Volume* own_volume(const State& state, PartyId owner, std::string_view name) {
  for (const auto& [id, volume] : state.volumes) {
    const bool there = volume.state == VolumeState::kReady || volume.state == VolumeState::kCopying;
    if (there && volume.owner == owner && volume.name == name) return &volume;
  }
  return nullptr;
}

bool is_named_by(const State& state, const Job& job, const Volume& volume) {
  return std::any_of(job.ask.volumes.begin(), job.ask.volumes.end(), [&](const std::string& name) {
    return find_volume(state, job.owner, name) == &volume;
  });
}

std::optional<Refusal> in_use(const State& state, const Volume& volume) {
  for (const auto& [id, job] : state.jobs) {
    if (is_over(job.state) || job.ask.volumes.empty() || !is_named_by(state, job, volume)) continue;
    return conflict("in_use",
                    "volume '" + volume.name + "' is used by " + text(id),
                    "wait for it, or tranche stop " + text(id));
  }
  return std::nullopt;
}

std::optional<Refusal> over_quota(const State& state, PartyId owner, std::int64_t bytes) {
  for (const Party* at = state.party(owner); at != nullptr; at = state.party(at->parent)) {
    const auto limit = at->quota.storage_bytes.limit;
    if (!limit || at->usage.storage_bytes + bytes <= *limit) continue;
    return Refusal{.reason = Reason::kQuota,
                   .rule = "storage_bytes",
                   .where = path_of(state, at->id),
                   .message = "the storage quota of " + path_of(state, at->id) + " does not leave that much",
                   .fix = "ask for less, remove a volume, or have the quota raised",
                   .limit = *limit,
                   .used = at->usage.storage_bytes,
                   .asked = bytes};
  }
  return std::nullopt;
}

std::optional<Refusal> new_volume_problem(const State& state,
                                          PartyId owner,
                                          const std::string& name,
                                          std::int64_t bytes) {
  if (!is_volume_name(name))
    return invalid("name",
                   "a volume's name has 1 to 63 of a-z, 0-9, '-' and '_', and begins with neither sign",
                   "for example: tranche volume create weights --size 100GB");
  if (bytes <= 0 || bytes > kBytesMax)
    return invalid("size", "a volume holds between a byte and 1 PiB", "for example --size 100GB");
  if (own_volume(state, owner, name) != nullptr)
    return conflict("name", path_of(state, owner) + " has a volume '" + name + "' already", "choose another");
  return over_quota(state, owner, bytes);
}

void count_storage(State& state, PartyId owner, std::int64_t bytes) {
  for (auto at = state.parties.find(owner); at != state.parties.end();
       at = state.parties.find(at->second.parent)) {
    at->second.usage.storage_bytes += bytes;
    if (at->first == kPlatform) return;
  }
}

VolumeId next_volume(const State& state) {
  return {state.volumes.empty() ? 1 : state.volumes.rbegin()->first.value + 1};
}

}  // namespace

const Volume* find_volume(const State& state, PartyId who, std::string_view name) {
  for (const Party* at = state.party(who); at != nullptr && at->id != kPlatform; at = state.party(at->parent))
    if (const Volume* found = own_volume(state, at->id, name)) return found;
  return nullptr;
}

bool can_use(const State& state, const Actor& actor, const Volume& volume) {
  return is_at_or_below(state, actor.party, volume.owner) ||
         may(state, actor, Action::kViewJob, volume.owner) ||
         may(state, actor, Action::kSubmitJob, volume.owner);
}

const Volume* usable_volume(const State& state, const Actor& actor, std::string_view name) {
  if (const auto id = parse_id(VolumeId::kIdPrefix, name)) {
    const auto found = state.volumes.find(VolumeId{*id});
    return found != state.volumes.end() && can_use(state, actor, found->second) ? &found->second : nullptr;
  }
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) {
    const Volume* found = own_volume(state, find_path(state, name.substr(0, slash)), name.substr(slash + 1));
    return found != nullptr && can_use(state, actor, *found) ? found : nullptr;
  }
  return find_volume(state, actor.party, name);
}

std::optional<Refusal> volume_problem(const State& state, PartyId owner, const VolumeWish& wish) {
  if (wish.names.empty()) return std::nullopt;
  if (wish.simulated)
    return invalid("volumes", "simulated capacity has no storage", "leave the volumes or the infra out");
  if (wish.nodes > 1)
    return invalid("volumes",
                   "a volume lives on one node, so a job on several nodes cannot have it",
                   "ask for one node, or use checkpoints");
  NodeId node{};
  for (const std::string& name : wish.names) {
    const Volume* volume = find_volume(state, owner, name);
    if (volume == nullptr)
      return invalid("volumes",
                     "there is no volume '" + name + "' that this job may use",
                     "tranche volume list, or tranche volume create " + name + " --size 10GB");
    if (volume->state == VolumeState::kCopying)
      return conflict("volumes", "snapshot '" + name + "' is still being copied", "try again in a moment");
    if (volume->node == NodeId{} || node == NodeId{}) {
      if (volume->node != NodeId{}) node = volume->node;
    } else if (volume->node != node) {
      return invalid("volumes",
                     "'" + name + "' lives on another node than the volumes named before it",
                     "use volumes of one node in one job");
    }
  }
  return std::nullopt;
}

void close_elsewhere(const State& state, const Job& job, std::set<NodeId>& closed) {
  for (const std::string& name : job.ask.volumes) {
    const Volume* volume = find_volume(state, job.owner, name);
    if (volume != nullptr && volume->node == NodeId{}) continue;
    for (const auto& [id, node] : state.nodes)
      if (volume == nullptr || id != volume->node) closed.insert(id);
  }
}

void place_volumes(State& state, const Job& job, NodeId node) {
  for (const std::string& name : job.ask.volumes) {
    const Volume* volume = find_volume(state, job.owner, name);
    if (volume != nullptr && volume->node == NodeId{}) state.volumes.at(volume->id).node = node;
  }
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const CreateVolume& command) {
  const Party* self = state.party(actor.party);
  const PartyId owner = command.owner != PartyId{} ? command.owner : self->parent;
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, owner)) return refuse(*refusal);
  if (owner.kind() != PartyKind::kTenant && owner.kind() != PartyKind::kSubscriber)
    return refuse(invalid("owner",
                          "a volume belongs to a tenant, or to a part of one",
                          "name it: tranche volume create NAME --size 10GB --owner acme"));
  if (auto refusal = new_volume_problem(state, owner, command.name, command.bytes)) return refuse(*refusal);
  if (command.node != NodeId{}) {
    const Node* node = state.node(command.node);
    const bool usable =
        node != nullptr && node->state != NodeState::kRetired && can_see(state, actor, node->owner);
    if (!usable) return refuse(not_found());
    if (node->simulated)
      return refuse(invalid("node", "simulated capacity has no storage", "name a real node"));
  }
  return Events{VolumeCreated{.id = next_volume(state),
                              .owner = owner,
                              .name = command.name,
                              .bytes = command.bytes,
                              .node = command.node}};
}

void apply(State& state, const Envelope& envelope, const VolumeCreated& event) {
  state.volumes.emplace_hint(
      state.volumes.end(),
      event.id,
      Volume{.id = event.id,
             .owner = event.owner,
             .name = event.name,
             .bytes = event.bytes,
             .node = event.node,
             .source = event.source,
             .state = event.source == VolumeId{} ? VolumeState::kReady : VolumeState::kCopying,
             .created = envelope.at});
  count_storage(state, event.owner, event.bytes);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const SnapshotVolume& command) {
  const auto found = state.volumes.find(command.id);
  if (found == state.volumes.end() || !can_use(state, actor, found->second)) return refuse(not_found());
  const Volume& volume = found->second;
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, volume.owner)) return refuse(*refusal);
  if (volume.state != VolumeState::kReady)
    return refuse(conflict("state", "volume '" + volume.name + "' is not ready", "tranche volume list"));
  if (volume.node == NodeId{})
    return refuse(conflict("empty", "nothing was ever written to '" + volume.name + "'", "use it first"));
  // A copy of what is being written would be neither the old nor the new.
  if (auto refusal = in_use(state, volume)) return refuse(*refusal);
  if (auto refusal = new_volume_problem(state, volume.owner, command.name, volume.bytes))
    return refuse(*refusal);
  return Events{VolumeCreated{.id = next_volume(state),
                              .owner = volume.owner,
                              .name = command.name,
                              .bytes = volume.bytes,
                              .node = volume.node,
                              .source = volume.id}};
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const RemoveVolume& command) {
  const auto found = state.volumes.find(command.id);
  if (found == state.volumes.end() || !can_use(state, actor, found->second)) return refuse(not_found());
  const Volume& volume = found->second;
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, volume.owner)) return refuse(*refusal);
  if (volume.state == VolumeState::kWiping || volume.state == VolumeState::kGone) return Events{};
  if (auto refusal = in_use(state, volume)) return refuse(*refusal);
  for (const auto& [id, other] : state.volumes)
    if (other.source == volume.id && other.state == VolumeState::kCopying)
      return refuse(conflict("in_use", "snapshot '" + other.name + "' is being made of it", "wait for it"));
  return Events{VolumeRemoved{volume.id, volume.owner, volume.name}};
}

void apply(State& state, const Envelope&, const VolumeRemoved& event) {
  Volume& volume = state.volumes.at(event.id);
  // Without a node there is nothing to wipe. With one, the space is taken until the wipe was proven.
  volume.state = volume.node == NodeId{} ? VolumeState::kGone : VolumeState::kWiping;
  if (volume.state == VolumeState::kGone) count_storage(state, volume.owner, -volume.bytes);
}

Decision decide(const State& state, const Envelope&, const KeepVolumeReceipt& command) {
  const Node* node = state.node(command.node);
  if (node == nullptr) return refuse(not_found());
  if (command.sequence != 0 && command.sequence <= node->received) return Events{};
  const auto found = state.volumes.find(command.receipt.volume);
  if (found == state.volumes.end() || found->second.node != node->id) return refuse(not_found());
  return Events{VolumeWorked{node->id, command.sequence, command.receipt, found->second.owner}};
}

void apply(State& state, const Envelope&, const VolumeWorked& event) {
  Node& node = state.nodes.at(event.node);
  node.received = std::max(node.received, event.sequence);
  Volume& volume = state.volumes.at(event.receipt.volume);
  if (event.receipt.work == wire::VolumeWork::kCopy && volume.state == VolumeState::kCopying) {
    volume.receipt = event.receipt;
    volume.state = event.receipt.done ? VolumeState::kReady : VolumeState::kFailed;
  } else if (event.receipt.work == wire::VolumeWork::kWipe && volume.state == VolumeState::kWiping) {
    volume.receipt = event.receipt;
    if (!event.receipt.done) return;
    volume.state = VolumeState::kGone;
    count_storage(state, volume.owner, -volume.bytes);
  }
}

}  // namespace tranche::engine
