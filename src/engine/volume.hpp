// SPDX-License-Identifier: Apache-2.0
#pragma once
// Volumes: storage of a tenant or of a part of it, that outlives jobs. A volume lives on one node (where it
// was created for, or where the first job that named it was placed) or in a pool that several nodes mount.
// Names mean something to its owner and those below him alone.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "engine/ledger.hpp"
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
  std::string pool{};             // Empty: it lives on a node.
  bool used = false;              // A job had it: there may be something in it.
  Instant charged_to{};           // Keeping it was paid for until then.
  std::int64_t remainder = 0;     // Below one micro-unit, in parts of a GiB-hour; goes into the next charge.
  Money charged{};
  [[nodiscard]] bool shared() const { return !pool.empty(); }
};
BOOST_DESCRIBE_STRUCT(Volume,
                      (),
                      (id,
                       owner,
                       name,
                       bytes,
                       node,
                       source,
                       state,
                       created,
                       receipt,
                       pool,
                       used,
                       charged_to,
                       remainder,
                       charged))

struct CreateVolume {
  PartyId owner{};  // Zero: what the actor belongs to.
  std::string name{};
  std::int64_t bytes = 0;
  NodeId node{};  // Zero: wherever the first job that uses it runs.
  wire::VolumeBackend backend = wire::VolumeBackend::kNode;
  std::string pool{};  // Empty: the only one that there is for the actor.
};
struct VolumeCreated {
  VolumeId id{};
  PartyId owner{};
  std::string name{};
  std::int64_t bytes = 0;
  NodeId node{};
  VolumeId source{};
  std::string pool{};
};
BOOST_DESCRIBE_STRUCT(VolumeCreated, (), (id, owner, name, bytes, node, source, pool))

struct StorageCharged {  // Keeping a volume, used or not, for a time within one day.
  VolumeId volume{};
  PartyId party{};  // Whose it is.
  AccountId account{};
  Instant from{};
  Instant to{};
  std::string rule{};
  Money amount{};
  Money owed{};  // The part of it that the account does not cover: the tenant's invoice has it.
  std::int64_t remainder = 0;
};
BOOST_DESCRIBE_STRUCT(StorageCharged, (), (volume, party, account, from, to, rule, amount, owed, remainder))

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
struct Node;
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
// Whether what it holds can be reached from a node that is, or was, connected.
[[nodiscard]] bool is_offered(const Volume&, const Node&);
// The node that copies and wipes it: of a pool the first that is ready. Zero: none.
[[nodiscard]] NodeId worker_of(const State&, const Volume&);
[[nodiscard]] bool is_encrypted(const State&, const Volume&);

}  // namespace tranche::engine
