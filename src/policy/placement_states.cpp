// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_states.hpp"

#include <algorithm>
#include <functional>

#include "base/check.hpp"

namespace tranche::policy {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0xBF58476D1CE4E5B9ULL;
  hash ^= hash >> 32U;
  hash *= 0x94D049BB133111EBULL;
  return hash ^ (hash >> 29U);
}

std::uint64_t device_word(const DeviceState& device) {
  const std::uint64_t room = static_cast<std::uint64_t>(static_cast<std::uint16_t>(device.milli_left)) |
                             (static_cast<std::uint64_t>(device.slots_used) << 16U);
  const std::uint64_t terms = (static_cast<std::uint64_t>(device.trust_group) << 8U) |
                              (static_cast<std::uint64_t>(device.mode) << 1U) | (device.blocked ? 1U : 0U);
  const std::uint64_t word = terms == 0 ? room : mixed(room, terms);
  return device.vram_left == 0 ? word : mixed(word, static_cast<std::uint64_t>(device.vram_left));
}

std::uint64_t signature_of(const NodeState& state) {
  std::array<std::uint64_t, kDevicesMax> words{};
  for (int i = 0; i < state.device_count; ++i) {
    const std::uint64_t word = device_word(state.devices[static_cast<std::size_t>(i)]);
    int at = i;  // Insertion sort: a handful of devices, nearly in order.
    for (; at > 0 && words[static_cast<std::size_t>(at - 1)] > word; --at)
      words[static_cast<std::size_t>(at)] = words[static_cast<std::size_t>(at - 1)];
    words[static_cast<std::size_t>(at)] = word;
  }
  std::uint64_t hash = mixed(state.type, static_cast<std::uint64_t>(state.cpu_left));
  hash = mixed(hash, static_cast<std::uint64_t>(state.memory_left));
  for (int i = 0; i < state.device_count; ++i) hash = mixed(hash, words[static_cast<std::size_t>(i)]);
  return hash;
}

}  // namespace

LeanNode lean_node(const NodeSpec& spec, const NodeState& state) {
  constexpr std::int64_t kMost = 0x7FFFFFFF;
  LeanNode lean;
  lean.cpu = static_cast<std::int32_t>(std::min(state.cpu_left, kMost));
  lean.memory = static_cast<std::int32_t>(std::min(state.memory_left, kMost));
  for (int i = 0; i < state.device_count; ++i) {
    const DeviceState& device = state.devices[static_cast<std::size_t>(i)];
    if (device.blocked || device.mode == DeviceMode::kWhole) continue;
    if (device.mode == DeviceMode::kFree) {
      ++lean.free;
      continue;
    }
    std::int64_t left = device.milli_left;
    if (spec.vram > 0) left = std::min<std::int64_t>(left, device.vram_left * kDeviceMilli / spec.vram);
    lean.insert(static_cast<int>(left));
  }
  return lean;
}

LeanForm lean_form(const Fleet& fleet, const NodeSpec& spec, const Shape& shape) {
  LeanForm form;
  form.cpu = static_cast<std::int32_t>(shape.cpu_milli);
  form.memory = static_cast<std::int32_t>(shape.memory_mib);
  form.devices = static_cast<std::int16_t>(shape.devices);
  std::int64_t milli = shape.milli;
  bool possible = spec.devices >= shape.devices && spec.cpu_milli >= shape.cpu_milli &&
                  spec.memory_mib >= shape.memory_mib && fleet.type_allows(spec, shape);
  if (shape.profile != 0) {
    const PartitionProfile* profile = fleet.geometry(spec).find(shape.profile);
    possible = possible && profile != nullptr;
    if (profile != nullptr) milli = std::max<std::int64_t>(profile->milli, 1);
  } else if (shape.shares() && shape.vram > 0) {
    possible = possible && shape.vram <= spec.vram;
    if (spec.vram > 0) milli = std::max(milli, (shape.vram * kDeviceMilli + spec.vram - 1) / spec.vram);
  }
  form.milli = static_cast<std::int16_t>(std::min<std::int64_t>(milli, kDeviceMilli));
  if (!possible) form.devices = -1;
  return form;
}

void StateTable::leave(NodeIndex node) {
  const StateIndex index = node_state_[node];
  if (index == kNoState) return;
  node_state_[node] = kNoState;
  GroupState& state = states_[index];
  if (--state.count > 0) {
    if (state.members.size() > 2 * state.count + 16) {
      std::erase_if(state.members, [&](NodeIndex member) { return node_state_[member] != index; });
      std::sort(state.members.begin(), state.members.end());
      state.members.erase(std::unique(state.members.begin(), state.members.end()), state.members.end());
    }
    return;
  }
  by_signature_.erase(state.signature);
  ++state.generation;
  state.members.clear();
  --log_of(state.type).live;
  free_.push_back(index);
}

void StateTable::set_shelves(int shelves) {
  if (shelves == shelves_) return;
  shelves_ = shelves;
  for (NodeIndex node = 0; node < node_state_.size(); ++node) update(node);
}

bool StateTable::update(NodeIndex node) {
  if (node >= node_state_.size()) node_state_.resize(fleet_.node_count(), kNoState);
  leave(node);
  const NodeState& now = fleet_.node(node);
  if (!now.open) return false;
  // By a hash: the order in which nodes joined may mean something.
  const auto shelf =
      shelves_ == 1 ? 0 : static_cast<int>(mixed(1, node) % static_cast<std::uint64_t>(shelves_));
  const std::uint64_t content = signature_of(now);
  const std::uint64_t signature = shelf == 0 ? content : mixed(content, static_cast<std::uint64_t>(shelf));
  const auto [at, fresh] = by_signature_.try_emplace(signature, kNoState);
  if (fresh) {
    if (free_.empty()) {
      at->second = static_cast<StateIndex>(states_.size());
      states_.emplace_back();
    } else {
      at->second = free_.back();
      free_.pop_back();
    }
    GroupState& state = states_[at->second];
    state.signature = signature;
    state.type = now.type;
    state.shelf = shelf;
    ++state.generation;
    state.count = 0;
    state.lean = lean_node(fleet_.types()[now.type], now);
    Log& log = log_of(now.type);
    log.entries.push_back({at->second, state.generation});
    ++log.live;
  }
  GroupState& state = states_[at->second];
  ++state.count;
  state.members.push_back(node);
  std::push_heap(state.members.begin(), state.members.end(), std::greater<>());
  node_state_[node] = at->second;
  return fresh;
}

NodeIndex StateTable::first_node(StateIndex index) {
  auto& members = states_[index].members;
  while (node_state_[members.front()] != index) {
    std::pop_heap(members.begin(), members.end(), std::greater<>());
    members.pop_back();
    TRANCHE_CHECK(!members.empty());
  }
  return members.front();
}

std::vector<std::uint32_t> StateTable::compact_log(TypeIndex type) {
  Log& log = log_of(type);
  if (log.entries.size() < 2 * log.live + 256) return {};
  std::vector<std::uint32_t> moved(log.entries.size() + 1);
  std::uint32_t kept = 0;
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    moved[i] = kept;
    if (live(log.entries[i])) log.entries[kept++] = log.entries[i];
  }
  moved[log.entries.size()] = kept;
  log.entries.resize(kept);
  return moved;
}

}  // namespace tranche::policy
