// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which nodes look alike? Nodes of one type with the same CPU, memory and multiset of devices left are one
// state: a policy scores states, not nodes. States of a type are announced in an append-only log, so that
// each reader catches up from where it stopped.
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "policy/placement_fleet.hpp"
#include "policy/placement_lean.hpp"

namespace tranche::policy {

using StateIndex = std::uint32_t;
constexpr StateIndex kNoState = 0xFFFFFFFFU;

struct StateRef {
  StateIndex state = kNoState;
  std::uint32_t generation = 0;
};

struct GroupState {
  std::uint64_t signature = 0;  // Of the content, and of the shelf: independent of history.
  TypeIndex type = 0;
  std::uint32_t generation = 0;  // Even: not in use.
  std::uint32_t count = 0;       // Nodes in this state.
  int shelf = 0;
  LeanNode lean;
  std::vector<NodeIndex> members;  // Min-heap; nodes that left are skipped when they come up.
};

class StateTable {
 public:
  explicit StateTable(const Fleet& fleet) : fleet_(fleet) {}

  // Every node stands on one of so many shelves, for ever; nodes of different shelves do not look alike.
  // Reads all nodes again if that is new.
  void set_shelves(int shelves);
  // Reads the node again; moves it to the state it is in now. True when that state is new.
  bool update(NodeIndex node);

  [[nodiscard]] const GroupState& state(StateIndex index) const { return states_[index]; }
  [[nodiscard]] bool live(StateRef ref) const { return states_[ref.state].generation == ref.generation; }
  [[nodiscard]] StateIndex state_of(NodeIndex node) const { return node_state_[node]; }
  [[nodiscard]] std::size_t slots() const { return states_.size(); }
  [[nodiscard]] std::size_t live_states(TypeIndex type) const {
    return type < logs_.size() ? logs_[type].live : 0;
  }
  // Lowest node in the state.
  [[nodiscard]] NodeIndex first_node(StateIndex index);

  [[nodiscard]] const std::vector<StateRef>& log(TypeIndex type) { return log_of(type).entries; }
  // Drops dead entries when they outnumber the live. Returns, for every old position, the new one; empty when
  // nothing was done.
  [[nodiscard]] std::vector<std::uint32_t> compact_log(TypeIndex type);

 private:
  struct Log {
    std::vector<StateRef> entries;
    std::size_t live = 0;
  };
  Log& log_of(TypeIndex type) {
    if (type >= logs_.size()) logs_.resize(type + 1);
    return logs_[type];
  }
  void leave(NodeIndex node);

  const Fleet& fleet_;
  int shelves_ = 1;
  std::vector<GroupState> states_;
  std::vector<StateIndex> free_;
  std::vector<StateIndex> node_state_;
  std::unordered_map<std::uint64_t, StateIndex> by_signature_;  // Looked up, never iterated.
  std::vector<Log> logs_;
};

LeanNode lean_node(const NodeSpec& spec, const NodeState& state);
// The request as a node of this type sees it; devices = -1 when the type can never take it.
LeanForm lean_form(const Fleet& fleet, const NodeSpec& spec, const Shape& shape);

}  // namespace tranche::policy
