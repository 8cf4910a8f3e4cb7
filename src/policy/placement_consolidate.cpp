// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_consolidate.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.hpp"

namespace tranche::policy {
namespace {

struct Option {
  std::int64_t cost = 0;
  NodeIndex node = kNoNode;
  std::vector<Resident> leaving;
};

// Moving a whole device's worth of work costs more than moving CPU-only work.
std::int64_t cost_of(const Shape& shape) {
  return shape.gpu_milli() + 20 + shape.cpu_milli / 100;
}

class RoomSearch {
 public:
  RoomSearch(Placer& placer,
             const Residents& residents,
             const Shape& wanted,
             const ConsolidationLimits& limits)
      : placer_(placer), residents_(residents), wanted_(wanted), limits_(limits) {}

  std::vector<Option> options() {
    const Fleet& fleet = placer_.fleet();
    for (NodeIndex node = 0; node < fleet.node_count(); ++node) {
      if (!fleet.node(node).open || !fleet.type_allows(fleet.spec(node), wanted_)) continue;
      movable_.clear();
      for (const Resident& resident : residents_.on(node))
        if (has_elsewhere(resident.kind, node)) movable_.push_back(resident);
      if (!movable_.empty()) search_node(node);
    }
    std::sort(found_.begin(), found_.end(), [](const Option& a, const Option& b) {
      return std::tuple(a.cost, a.node) < std::tuple(b.cost, b.node);
    });
    return std::move(found_);
  }

 private:
  bool has_elsewhere(KindIndex kind, NodeIndex here) {
    const auto [at, fresh] = elsewhere_.try_emplace(kind);
    if (fresh) at->second = placer_.would_place(kind);
    return at->second.has_value() && at->second->node != here;
  }

  void search_node(NodeIndex node) {
    std::sort(movable_.begin(), movable_.end(), [&](const Resident& a, const Resident& b) {
      return std::tuple(cost_of(placer_.shape(a.kind)), a.job) <
             std::tuple(cost_of(placer_.shape(b.kind)), b.job);
    });
    for (const Resident& one : movable_) {
      if (!fits_without(node, {one})) continue;
      add(node, {one});
      break;  // The cheapest single move of this node.
    }
    if (limits_.moves > 1) search_sets(node);
  }

  // Several moves: clear devices, the lightest loaded first; CPU-only work goes as a last resort.
  void search_sets(NodeIndex node) {
    const NodeState& state = placer_.fleet().node(node);
    std::vector<std::tuple<std::int64_t, int, std::vector<Resident>>> loads;
    for (int device = 0; device < state.device_count; ++device) {
      std::vector<Resident> on_it;
      std::int64_t load = 0;
      for (const Resident& resident : movable_) {
        if (((static_cast<unsigned>(resident.placement.devices) >> static_cast<unsigned>(device)) & 1U) == 0)
          continue;
        on_it.push_back(resident);
        load += cost_of(placer_.shape(resident.kind));
      }
      if (on_it.size() == state.devices[static_cast<std::size_t>(device)].tenants && !on_it.empty())
        loads.emplace_back(load, device, std::move(on_it));
    }
    std::sort(loads.begin(), loads.end(), [](const auto& a, const auto& b) {
      return std::tuple(std::get<0>(a), std::get<1>(a)) < std::tuple(std::get<0>(b), std::get<1>(b));
    });
    std::vector<Resident> leaving;
    for (const auto& [load, device, on_it] : loads) {
      for (const Resident& resident : on_it) {
        const auto same = [&](const Resident& other) { return other.job == resident.job; };
        if (std::none_of(leaving.begin(), leaving.end(), same)) leaving.push_back(resident);
      }
      if (leaving.size() > static_cast<std::size_t>(limits_.moves)) return;
      if (!fits_without(node, leaving)) continue;
      if (leaving.size() > 1) add(node, leaving);
      return;
    }
  }

  bool fits_without(NodeIndex node, const std::vector<Resident>& leaving) const {
    NodeState state = placer_.fleet().node(node);
    for (const Resident& resident : leaving)
      placer_.fleet().release_from(state, placer_.shape(resident.kind), resident.placement);
    return placer_.fleet().state_fits(state, wanted_);
  }

  void add(NodeIndex node, std::vector<Resident> leaving) {
    std::int64_t cost = 0;
    for (const Resident& resident : leaving) cost += cost_of(placer_.shape(resident.kind));
    found_.push_back({cost, node, std::move(leaving)});
  }

  Placer& placer_;
  const Residents& residents_;
  const Shape& wanted_;
  const ConsolidationLimits& limits_;
  std::map<KindIndex, std::optional<Placement>> elsewhere_;
  std::vector<Resident> movable_;
  std::vector<Option> found_;
};

// Where processors run out before devices do, a job that takes more of them than its part leaves devices idle
// beside it: room made for it strands more than it fills. One that wants no device does nothing else.
bool is_worth_moves(const Fleet& fleet, const Shape& wanted) {
  if (wanted.devices == 0) return false;
  std::int64_t cpu = 0;
  std::int64_t milli = 0;
  for (NodeIndex node = 0; node < fleet.node_count(); ++node) {
    const NodeState& state = fleet.node(node);
    const std::int64_t idle = state.open ? state.idle_milli() : 0;
    if (idle == 0) continue;
    milli += idle;
    cpu += state.cpu_left;
  }
  return wanted.cpu_milli * milli <= cpu * wanted.gpu_milli();
}

// Moves them all off the node, or none.
std::optional<std::vector<Move>> carry_out(Placer& placer, const Option& option) {
  std::vector<Move> moves;
  placer.set_open(option.node, false);
  for (const Resident& resident : option.leaving) {
    placer.release(resident.kind, resident.placement, Learning::kIgnore);
    const auto to = placer.place(resident.kind, Learning::kIgnore);
    moves.push_back({resident.job, resident.kind, resident.placement, to.value_or(Placement{})});
    if (!to) break;
  }
  placer.set_open(option.node, true);
  if (moves.back().to.node != kNoNode) return moves;
  for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
    if (move->to.node != kNoNode) placer.release(move->kind, move->to, Learning::kIgnore);
    placer.take(move->kind, move->from);
  }
  return std::nullopt;
}

}  // namespace

void Residents::add(const Resident& resident) {
  if (resident.placement.node >= by_node_.size()) by_node_.resize(resident.placement.node + 1);
  by_node_[resident.placement.node].push_back(resident);
}

void Residents::remove(std::uint64_t job, NodeIndex node) {
  auto& list = by_node_[node];
  const auto at = std::find_if(list.begin(), list.end(), [&](const Resident& one) { return one.job == job; });
  TRANCHE_CHECK(at != list.end());
  list.erase(at);
}

const std::vector<Resident>& Residents::on(NodeIndex node) const {
  static const std::vector<Resident> kNobody;
  return node < by_node_.size() ? by_node_[node] : kNobody;
}

std::optional<std::vector<Move>> make_room(Placer& placer,
                                           Residents& residents,
                                           KindIndex wanted,
                                           const ConsolidationLimits& limits) {
  const Shape shape = placer.shape(wanted);
  if (!is_worth_moves(placer.fleet(), shape)) return std::nullopt;
  const auto options = RoomSearch(placer, residents, shape, limits).options();
  int tries = limits.tries;
  for (const Option& option : options) {
    if (tries-- == 0) break;
    const auto moves = carry_out(placer, option);
    if (!moves) continue;
    for (const Move& move : *moves) residents.apply(move);
    TRANCHE_CHECK(placer.fleet().fits(option.node, shape));
    return moves;
  }
  return std::nullopt;
}

}  // namespace tranche::policy
