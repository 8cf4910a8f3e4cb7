// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says of nodes and devices, and the words with which a machine joins.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/node_features.hpp"
#include "wire/states.hpp"
#include "wire/text_map.hpp"

namespace tranche::wire {

struct NodeAdd {
  std::string name{};
  std::string owner{};  // Id or path of the party whose capacity it is; empty: the platform's.
  std::string site{};
  TextMap labels{};
  Duration expires_in = std::chrono::hours(1);  // Of the join token.
};
BOOST_DESCRIBE_STRUCT(NodeAdd, (), (name, owner, site, labels, expires_in))

struct NodeInvite {  // Answers NodeAdd. The token is shown once.
  NodeId id{};
  std::string name{};
  std::string token{};
  std::string ca_pin{};   // "sha256:…" of the authority's certificate (DER).
  std::string address{};  // Where agents connect.
  std::string command{};  // The line to paste.
  Instant expires{};
};
BOOST_DESCRIBE_STRUCT(NodeInvite, (), (id, name, token, ca_pin, address, command, expires))

// POST /v1/nodes/join, on the agents' address, before the agent has a certificate. The token is used up.
struct NodeJoin {
  std::string name{};
  std::string token{};
  std::string certificate_request{};  // PEM; the key never leaves the node.
};
BOOST_DESCRIBE_STRUCT(NodeJoin, (), (name, token, certificate_request))

struct NodeJoined {
  NodeId id{};
  std::string certificate{};  // PEM, short-lived; renewed over the link.
  std::string ca{};           // PEM, to be checked against the pin.
};
BOOST_DESCRIBE_STRUCT(NodeJoined, (), (id, certificate, ca))

// What people are told of a node: its own state, and what its devices make of it.
enum class NodeCondition : std::uint8_t {
  kJoining,
  kReady,
  kCordoned,
  kDraining,
  kMaintenance,
  kLost,
  kRetired,
  kTesting,       // No device is fit yet; some are being tested, wiped or reset.
  kProbation,     // Its devices take only work that may be stopped.
  kDegraded,      // Some of its devices take no new work, or not all of it.
  kOutOfService,  // None does.
};
BOOST_DESCRIBE_ENUM(NodeCondition,
                    kJoining,
                    kReady,
                    kCordoned,
                    kDraining,
                    kMaintenance,
                    kLost,
                    kRetired,
                    kTesting,
                    kProbation,
                    kDegraded,
                    kOutOfService)

struct DeviceView {
  DeviceId id{};
  NodeId node_id{};
  std::string node{};
  std::string uuid{};
  std::string vendor{};
  std::string model{};
  std::string name{};
  Bytes vram{};
  DeviceState state = DeviceState::kNew;
  DeviceMode mode = DeviceMode::kWhole;
  bool simulated = false;
  bool soft_capable = false;
  std::uint32_t slices = 0;
  std::int64_t milli_used = 0;
  Bytes vram_reserved{};
  // As last reported by the device; absent while nothing was.
  std::optional<std::int64_t> busy_milli{};
  std::optional<Bytes> vram_used{};
  std::optional<std::int64_t> power_milliwatts{};
  std::optional<std::int64_t> temperature_celsius{};
  std::string health{};  // The state in a tenant's words, with its reason.
  Instant since{};       // Of the state.
};
BOOST_DESCRIBE_STRUCT(DeviceView,
                      (),
                      (id,
                       node_id,
                       node,
                       uuid,
                       vendor,
                       model,
                       name,
                       vram,
                       state,
                       mode,
                       simulated,
                       soft_capable,
                       slices,
                       milli_used,
                       vram_reserved,
                       busy_milli,
                       vram_used,
                       power_milliwatts,
                       temperature_celsius,
                       health,
                       since))

struct NodeView {
  NodeId id{};
  std::string name{};
  std::string owner{};
  std::string site{};
  NodeCondition state = NodeCondition::kJoining;
  bool connected = false;
  bool simulated = false;
  std::string software{};
  std::uint32_t cpus = 0;
  Bytes memory{};
  TextMap labels{};
  std::uint32_t leases = 0;
  Instant since{};
  std::vector<DeviceView> devices{};
  NodeFeatures features{};
  std::string health{};  // Of its devices: "3 healthy, 1 in_repair"; empty: it has none.
};
BOOST_DESCRIBE_STRUCT(NodeView,
                      (),
                      (id,
                       name,
                       owner,
                       site,
                       state,
                       connected,
                       simulated,
                       software,
                       cpus,
                       memory,
                       labels,
                       leases,
                       since,
                       devices,
                       features,
                       health))

struct NodeList {
  std::vector<NodeView> items{};
};
BOOST_DESCRIBE_STRUCT(NodeList, (), (items))

struct DeviceList {
  std::vector<DeviceView> items{};
};
BOOST_DESCRIBE_STRUCT(DeviceList, (), (items))

struct NodeChange {                // What is absent stays.
  std::optional<bool> cordoned{};  // Nothing new; what runs goes on.
  std::optional<bool> draining{};  // What runs is moved away, too.
  std::optional<TextMap> labels{};
};
BOOST_DESCRIBE_STRUCT(NodeChange, (), (cordoned, draining, labels))

}  // namespace tranche::wire
