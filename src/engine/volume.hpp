// SPDX-License-Identifier: Apache-2.0
#pragma once
// Volumes: storage of a tenant or of a part of it, that outlives jobs. A volume lives on one node: where it
// was created for, or where the first job that named it was placed. Names mean something to its owner and
// those below him alone.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/refusal.hpp"
#include "wire/volume.hpp"

namespace tranche::engine {

using wire::VolumeState;

struct Volume {
  VolumeId id{};
  PartyId owner{};  // A tenant or a subscriber.
  std::string name{};
  std::int64_t bytes = 0;
  NodeId node{};      // Zero: no job has used it yet.
  VolumeId source{};  // It was made as a snapshot of that one.
  VolumeState state = VolumeState::kReady;
  Instant created{};
  wire::VolumeReceipt receipt{};  // Of the last work on it.
};
BOOST_DESCRIBE_STRUCT(Volume, (), (id, owner, name, bytes, node, source, state, created, receipt))

struct CreateVolume {
  PartyId owner{};  // Zero: what the actor belongs to.
  std::string name{};
  std::int64_t bytes = 0;
  NodeId node{};  // Zero: wherever the first job that uses it runs.
};
struct VolumeCreated {
  VolumeId id{};
  PartyId owner{};
  std::string name{};
  std::int64_t bytes = 0;
  NodeId node{};
  VolumeId source{};
};
BOOST_DESCRIBE_STRUCT(VolumeCreated, (), (id, owner, name, bytes, node, source))

struct SnapshotVolume {
  VolumeId id{};
  std::string name{};  // Of the copy.
};

struct RemoveVolume {
  VolumeId id{};
};
struct VolumeRemoved {
  VolumeId id{};
  PartyId owner{};
  std::string name{};
};
BOOST_DESCRIBE_STRUCT(VolumeRemoved, (), (id, owner, name))

struct KeepVolumeReceipt {  // From the node that did the work.
  NodeId node{};
  std::uint64_t sequence = 0;
  wire::VolumeReceipt receipt{};
};
struct VolumeWorked {
  NodeId node{};
  std::uint64_t sequence = 0;
  wire::VolumeReceipt receipt{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(VolumeWorked, (), (node, sequence, receipt, owner))

struct State;
struct Job;
struct Actor;

// What a name means to a party: the nearest volume of that name at or above it, its tenant included.
[[nodiscard]] const Volume* find_volume(const State&, PartyId who, std::string_view name);
// By id, by owner/name or by name, for those who may use it; null: there is none for this actor.
[[nodiscard]] const Volume* usable_volume(const State&, const Actor&, std::string_view name);
[[nodiscard]] bool can_use(const State&, const Actor&, const Volume&);
// Whether a job of `owner` may name these volumes, and could ever start with them.
struct VolumeWish {
  const std::vector<std::string>& names;
  std::uint32_t nodes = 1;
  bool simulated = false;
};
[[nodiscard]] std::optional<wire::Refusal> volume_problem(const State&, PartyId owner, const VolumeWish&);
// Nodes where the job cannot go because its volumes are elsewhere.
void close_elsewhere(const State&, const Job&, std::set<NodeId>& closed);
// The job got its place: volumes that had none are there from now on.
void place_volumes(State&, const Job&, NodeId node);

}  // namespace tranche::engine
