// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nodes and their devices: who was invited, who joined, what they brought, and whether work may go there.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "engine/health.hpp"
#include "engine/token.hpp"
#include "wire/agent_message.hpp"
#include "wire/states.hpp"
#include "wire/text_map.hpp"

namespace tranche::engine {

using wire::DeviceFacts;
using wire::DeviceState;
using wire::NodeState;

struct Node {
  NodeId id{};
  std::string name{};
  PartyId owner{};  // Whose capacity it is.
  std::string site{};
  NodeState state = NodeState::kJoining;
  bool cordoned = false;
  bool draining = false;
  bool simulated = false;
  TokenHash invitation{};        // Hash of the join token; all zero once used.
  Instant invitation_expires{};  // Of the token.
  Instant since{};               // Of the state.
  std::string boot_id{};
  std::string software{};
  std::uint32_t cpus = 0;
  Bytes memory{};
  wire::TextMap labels{};
  std::uint64_t received = 0;  // Highest sequence of its link that the journal holds.
  std::vector<DeviceId> devices{};
  std::uint64_t version = 0;
  wire::NodeFeatures features{};
};
BOOST_DESCRIBE_STRUCT(Node,
                      (),
                      (id,
                       name,
                       owner,
                       site,
                       state,
                       cordoned,
                       draining,
                       simulated,
                       invitation,
                       invitation_expires,
                       since,
                       boot_id,
                       software,
                       cpus,
                       memory,
                       labels,
                       received,
                       devices,
                       version,
                       features))

struct Device {
  DeviceId id{};
  NodeId node{};
  DeviceState state = DeviceState::kNew;
  Instant since{};
  std::string reason{};  // Why it is in this state, in the words tenants see.
  DeviceFacts facts{};
  DeviceRecord record{};
};
BOOST_DESCRIBE_STRUCT(Device, (), (id, node, state, since, reason, facts, record))

// May new work go there?
[[nodiscard]] constexpr bool takes_work(DeviceState state) {
  return state == DeviceState::kHealthy || state == DeviceState::kProbation;
}
// Takes work, or will when a wipe or a planned window is over: what is planned ahead may count on it.
[[nodiscard]] constexpr bool is_in_service(DeviceState state) {
  return takes_work(state) || state == DeviceState::kScrubbing || state == DeviceState::kMaintenance;
}
[[nodiscard]] inline bool takes_work(const Node& node) {
  return node.state == NodeState::kReady && !node.cordoned && !node.draining;
}

struct AddNode {
  std::string name{};
  PartyId owner{};  // Zero: the platform.
  std::string site{};
  wire::TextMap labels{};
  TokenHash invitation{};
  Duration expires_in{};
};
struct NodeAdded {
  NodeId id{};
  std::string name{};
  PartyId owner{};
  std::string site{};
  wire::TextMap labels{};
  TokenHash hash{};
  Instant expires{};
};
BOOST_DESCRIBE_STRUCT(NodeAdded, (), (id, name, owner, site, labels, hash, expires))

struct JoinNode {  // Shows the invitation; it is used up.
  std::string name{};
  TokenHash hash{};
};
struct NodeInvitationUsed {
  NodeId id{};
};
BOOST_DESCRIBE_STRUCT(NodeInvitationUsed, (), (id))

struct ReportNode {  // An agent said hello on its link.
  NodeId id{};
  wire::Hello hello{};
};
struct ReportedDevice {
  DeviceId id{};
  DeviceFacts facts{};
};
BOOST_DESCRIBE_STRUCT(ReportedDevice, (), (id, facts))
struct NodeReported {
  NodeId id{};
  std::string boot_id{};
  std::string software{};
  std::uint32_t cpus = 0;
  Bytes memory{};
  wire::TextMap labels{};
  bool simulated = false;
  std::vector<ReportedDevice> devices{};
  wire::NodeFeatures features{};
};
BOOST_DESCRIBE_STRUCT(NodeReported,
                      (),
                      (id, boot_id, software, cpus, memory, labels, simulated, devices, features))

struct LoseNode {  // Its leases ran out without a word: nothing of it can still be running.
  NodeId id{};
  std::string reason{};
};
struct NodeStateChanged {
  NodeId id{};
  NodeState before = NodeState::kReady;
  NodeState after = NodeState::kReady;
  std::string reason{};
};
BOOST_DESCRIBE_STRUCT(NodeStateChanged, (), (id, before, after, reason))

struct ChangeNode {
  NodeId id{};
  bool cordoned = false;
  bool draining = false;
  wire::TextMap labels{};
};
struct NodeChanged {
  NodeId id{};
  bool cordoned_before = false, cordoned = false;
  bool draining_before = false, draining = false;
  wire::TextMap labels_before{}, labels{};
};
BOOST_DESCRIBE_STRUCT(NodeChanged,
                      (),
                      (id, cordoned_before, cordoned, draining_before, draining, labels_before, labels))

struct RemoveNode {
  NodeId id{};
};

struct DeviceStateChanged {
  DeviceId id{};
  DeviceState before = DeviceState::kNew;
  DeviceState after = DeviceState::kNew;
  std::string reason{};
  bool tested = false;
  bool scrubbed = false;
  std::uint8_t resets = 0;
  bool probation = false;
  std::string signal{};  // "xid 79"; empty: no signal led to it.
  std::string table_version{};
  PartyId actor{};  // Zero: the platform itself.
};
BOOST_DESCRIBE_STRUCT(
    DeviceStateChanged,
    (),
    (id, before, after, reason, tested, scrubbed, resets, probation, signal, table_version, actor))

}  // namespace tranche::engine
