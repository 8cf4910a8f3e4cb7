// SPDX-License-Identifier: Apache-2.0
#include "engine/volume.hpp"

#include <algorithm>
#include <set>

#include "engine/decide.hpp"
#include "engine/refusals.hpp"
#include "engine/storage_charge.hpp"

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

// The pools that the actor's nodes offer, by name.
std::set<std::string> pools_of(const State& state, const Actor& actor) {
  std::set<std::string> pools;
  for (const auto& [id, node] : state.nodes)
    if (node.state != NodeState::kRetired && !node.features.shared_volumes.empty() &&
        can_see(state, actor, node.owner))
      pools.insert(node.features.shared_volumes);
  return pools;
}

Result<std::string, Refusal> pool_for(const State& state, const Actor& actor, const CreateVolume& command) {
  if (command.backend == wire::VolumeBackend::kNode) {
    if (command.pool.empty()) return std::string();
    return refuse(invalid("pool", "a pool is for shared volumes", "add --backend shared"));
  }
  if (command.node != NodeId{})
    return refuse(invalid("node", "a shared volume lives in a pool, not on a node", "leave --node out"));
  const std::set<std::string> pools = pools_of(state, actor);
  if (pools.empty())
    return refuse(invalid("backend",
                          "no node offers shared volumes",
                          "leave --backend out, or have agents started with --shared-volumes PATH"));
  if (command.pool.empty() && pools.size() == 1) return *pools.begin();
  if (pools.contains(command.pool)) return command.pool;
  std::string known;
  for (const std::string& pool : pools) known += (known.empty() ? "" : ", ") + pool;
  return refuse(invalid("pool",
                        command.pool.empty() ? "there are several pools of shared volumes"
                                             : "there is no pool '" + command.pool + "'",
                        "name one with --pool: " + known));
}

// A job that no node can ever have is better refused than kept waiting.
std::optional<Refusal> nowhere_problem(const State& state, NodeId node, const std::string& pool) {
  if (pool.empty()) return std::nullopt;
  const bool offered = std::any_of(state.nodes.begin(), state.nodes.end(), [&](const auto& entry) {
    return entry.second.state != NodeState::kRetired && entry.second.features.shared_volumes == pool &&
           (node == NodeId{} || entry.first == node);
  });
  if (offered) return std::nullopt;
  return invalid("volumes",
                 node == NodeId{} ? "no node offers the pool " + pool + " any more"
                                  : "the node of its other volumes does not offer the pool " + pool,
                 "have its agent started with --shared-volumes, or name other volumes");
}

Volume volume_of(const VolumeCreated& event, Instant at) {
  return {.id = event.id,
          .owner = event.owner,
          .name = event.name,
          .bytes = event.bytes,
          .node = event.node,
          .source = event.source,
          .state = event.source == VolumeId{} ? VolumeState::kReady : VolumeState::kCopying,
          .created = at,
          .pool = event.pool,
          .charged_to = at};
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
  NodeId node{};
  std::string pool;
  for (const std::string& name : wish.names) {
    const Volume* volume = find_volume(state, owner, name);
    if (volume == nullptr)
      return invalid("volumes",
                     "there is no volume '" + name + "' that this job may use",
                     "tranche volume list, or tranche volume create " + name + " --size 10GB");
    if (volume->state == VolumeState::kCopying)
      return conflict("volumes", "snapshot '" + name + "' is still being copied", "try again in a moment");
    if (volume->shared()) {
      if (!pool.empty() && pool != volume->pool)
        return invalid("volumes",
                       "'" + name + "' is in another pool than the volumes named before it",
                       "use volumes of one pool in one job");
      pool = volume->pool;
      continue;
    }
    if (wish.nodes > 1)
      return invalid("volumes",
                     "'" + name + "' lives on one node, so a job on several nodes cannot have it",
                     "ask for one node, or use a volume made with --backend shared");
    if (volume->node == NodeId{} || node == NodeId{}) {
      if (volume->node != NodeId{}) node = volume->node;
    } else if (volume->node != node) {
      return invalid("volumes",
                     "'" + name + "' lives on another node than the volumes named before it",
                     "use volumes of one node in one job");
    }
  }
  return nowhere_problem(state, node, pool);
}

void close_elsewhere(const State& state, const Job& job, std::set<NodeId>& closed) {
  for (const std::string& name : job.ask.volumes) {
    const Volume* volume = find_volume(state, job.owner, name);
    if (volume != nullptr && !volume->shared() && volume->node == NodeId{}) continue;
    for (const auto& [id, node] : state.nodes)
      if (volume == nullptr || !is_offered(*volume, node)) closed.insert(id);
  }
}

void place_volumes(State& state, const Job& job, NodeId node) {
  for (const std::string& name : job.ask.volumes) {
    const Volume* found = find_volume(state, job.owner, name);
    if (found == nullptr) continue;
    Volume& volume = state.volumes.at(found->id);
    volume.used = true;
    if (!volume.shared() && volume.node == NodeId{}) volume.node = node;
  }
}

bool is_offered(const Volume& volume, const Node& node) {
  return volume.shared() ? node.features.shared_volumes == volume.pool : node.id == volume.node;
}

NodeId worker_of(const State& state, const Volume& volume) {
  if (!volume.shared()) return volume.node;
  for (const auto& [id, node] : state.nodes)
    if (node.state == NodeState::kReady && is_offered(volume, node)) return id;
  return {};
}

// As all nodes say that can reach it: one that does not encrypt may have made it.
bool is_encrypted(const State& state, const Volume& volume) {
  if (!volume.used && volume.node == NodeId{}) return false;
  bool told = false;
  for (const auto& [id, node] : state.nodes) {
    if (!is_offered(volume, node)) continue;
    const auto& plain = node.features.plain_volumes;
    if (!node.features.encrypts_volumes || std::find(plain.begin(), plain.end(), volume.id) != plain.end())
      return false;
    told = true;
  }
  return told;
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const CreateVolume& command) {
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
  auto pool = pool_for(state, actor, command);
  if (!pool) return refuse(pool.error());
  VolumeCreated created{.id = next_volume(state),
                        .owner = owner,
                        .name = command.name,
                        .bytes = command.bytes,
                        .node = command.node,
                        .pool = std::move(*pool)};
  if (auto refusal = storage_problem(state, volume_of(created, envelope.at), envelope.at))
    return refuse(*refusal);
  return Events{std::move(created)};
}

void apply(State& state, const Envelope& envelope, const VolumeCreated& event) {
  state.volumes.emplace_hint(state.volumes.end(), event.id, volume_of(event, envelope.at));
  count_storage(state, event.owner, event.bytes);
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const SnapshotVolume& command) {
  const auto found = state.volumes.find(command.id);
  if (found == state.volumes.end() || !can_use(state, actor, found->second)) return refuse(not_found());
  const Volume& volume = found->second;
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, volume.owner)) return refuse(*refusal);
  if (volume.state != VolumeState::kReady)
    return refuse(conflict("state", "volume '" + volume.name + "' is not ready", "tranche volume list"));
  if (volume.shared() ? !volume.used : volume.node == NodeId{})
    return refuse(conflict("empty", "nothing was ever written to '" + volume.name + "'", "use it first"));
  // A copy of what is being written would be neither the old nor the new.
  if (auto refusal = in_use(state, volume)) return refuse(*refusal);
  if (auto refusal = new_volume_problem(state, volume.owner, command.name, volume.bytes))
    return refuse(*refusal);
  VolumeCreated created{.id = next_volume(state),
                        .owner = volume.owner,
                        .name = command.name,
                        .bytes = volume.bytes,
                        .node = volume.node,
                        .source = volume.id,
                        .pool = volume.pool};
  if (auto refusal = storage_problem(state, volume_of(created, envelope.at), envelope.at))
    return refuse(*refusal);
  return Events{std::move(created)};
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const RemoveVolume& command) {
  const auto found = state.volumes.find(command.id);
  if (found == state.volumes.end() || !can_use(state, actor, found->second)) return refuse(not_found());
  const Volume& volume = found->second;
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, volume.owner)) return refuse(*refusal);
  if (volume.state == VolumeState::kWiping || volume.state == VolumeState::kGone) return Events{};
  if (auto refusal = in_use(state, volume)) return refuse(*refusal);
  for (const auto& [id, other] : state.volumes)
    if (other.source == volume.id && other.state == VolumeState::kCopying)
      return refuse(conflict("in_use", "snapshot '" + other.name + "' is being made of it", "wait for it"));
  Events events;
  for (StorageCharged& charge : storage_charges(state, volume, envelope.at))
    events.emplace_back(std::move(charge));  // The last of them: the wipe is not charged.
  events.emplace_back(VolumeRemoved{volume.id, volume.owner, volume.name});
  return events;
}

void apply(State& state, const Envelope&, const VolumeRemoved& event) {
  Volume& volume = state.volumes.at(event.id);
  // What was never used has nothing to wipe. Else the space is taken until the wipe was proven.
  const bool somewhere = volume.used || volume.node != NodeId{};
  volume.state = somewhere ? VolumeState::kWiping : VolumeState::kGone;
  if (volume.state == VolumeState::kGone) count_storage(state, volume.owner, -volume.bytes);
}

Decision decide(const State& state, const Envelope&, const KeepVolumeReceipt& command) {
  const Node* node = state.node(command.node);
  if (node == nullptr) return refuse(not_found());
  if (command.sequence != 0 && command.sequence <= node->received) return Events{};
  const auto found = state.volumes.find(command.receipt.volume);
  if (found == state.volumes.end() || !is_offered(found->second, *node)) return refuse(not_found());
  return Events{VolumeWorked{node->id, command.sequence, command.receipt, found->second.owner}};
}

void apply(State& state, const Envelope& envelope, const VolumeWorked& event) {
  Node& node = state.nodes.at(event.node);
  node.received = std::max(node.received, event.sequence);
  Volume& volume = state.volumes.at(event.receipt.volume);
  if (event.receipt.work == wire::VolumeWork::kCopy && volume.state == VolumeState::kCopying) {
    volume.receipt = event.receipt;
    volume.state = event.receipt.done ? VolumeState::kReady : VolumeState::kFailed;
    volume.used = true;
    volume.charged_to = envelope.at;
  } else if (event.receipt.work == wire::VolumeWork::kWipe && volume.state == VolumeState::kWiping) {
    volume.receipt = event.receipt;
    if (!event.receipt.done) return;
    volume.state = VolumeState::kGone;
    count_storage(state, volume.owner, -volume.bytes);
  }
}

}  // namespace tranche::engine
