// SPDX-License-Identifier: Apache-2.0
#include "engine/capacity.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "engine/state.hpp"
#include "policy/placement_value.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kMib = 1 << 20;
constexpr std::uint32_t kCpuOfPlainJob = 1000;  // A job without a GPU takes a core, unless it says otherwise.

// Pools: what a node's devices may be used for. Filters: which pools a job may go to.
constexpr policy::PoolIndex pool_of(bool soft_capable, bool simulated) {
  return (soft_capable ? 0U : 1U) + (simulated ? 2U : 0U);
}
enum Filter : policy::FilterIndex { kRealSoft = 1, kReal, kSimulatedSoft, kSimulated };

policy::Fleet empty_fleet() {
  policy::Fleet fleet;
  TRANCHE_CHECK(fleet.add_filter({0}) == kRealSoft);
  TRANCHE_CHECK(fleet.add_filter({0, 1}) == kReal);
  TRANCHE_CHECK(fleet.add_filter({2}) == kSimulatedSoft);
  TRANCHE_CHECK(fleet.add_filter({2, 3}) == kSimulated);
  return fleet;
}

policy::FilterIndex filter_of(const Ask& ask, bool shares) {
  if (ask.simulated) return shares ? kSimulatedSoft : kSimulated;
  return shares ? kRealSoft : kReal;
}

policy::Seconds seconds(Instant at) {
  return std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
}

}  // namespace

std::uint32_t trust_group(const State& state, PartyId tenant) {
  const Party* party = state.party(tenant);
  if (party != nullptr && party->quota.share_soft.value_or(false)) return kSharingGroup;
  return static_cast<std::uint32_t>(tenant.value >> 3U) + 1;
}

Capacity::Capacity() : placer_(empty_fleet()) {
  placer_.use(policy::make_value_policy(placer_.fleet()));
}

std::unique_ptr<Capacity> Capacity::rebuilt(const State& state) {
  auto capacity = std::make_unique<Capacity>();
  for (const auto& [id, node] : state.nodes) capacity->add_node(state, node);
  // Who is on a node or device that takes no more work is still on it.
  for (const auto& [id, node] : state.nodes) capacity->close(id, false);
  for (const auto& [id, place] : capacity->places_)
    capacity->placer_.set_blocked(place.first, place.second, false);
  for (const auto& [id, lease] : state.leases) {
    const Job* job = state.job(lease.job);
    if (!lease.live()) capacity->charge(lease);
    if (!lease.live()) capacity->note_crash(lease);
    if (lease.holds_slices() && job != nullptr) capacity->take(lease, job->ask);
    if (lease.live() && lease.parking == Parking::kParked && job != nullptr)
      capacity->stay_on_host(lease, job->ask);
  }
  for (const auto& [id, node] : state.nodes) capacity->refresh_node(state, node);
  for (const auto& [id, booking] : state.bookings) capacity->refresh_holds(state, booking);
  for (const auto& [id, job] : state.jobs)
    if (job.state == JobState::kPending && !is_held(state, id)) capacity->enqueue(state, job);
  return capacity;
}

void Capacity::add_group(const Node& node, const std::vector<const Device*>& devices, std::int64_t share_of) {
  const auto count = static_cast<std::int64_t>(devices.size());
  policy::NodeSpec spec{.cpu_milli = std::int64_t{node.cpus} * 1000,
                        .memory_mib = node.memory.count / kMib,
                        .devices = static_cast<std::int32_t>(count),
                        .pool = pool_of(true, node.simulated)};
  if (share_of > 0) {
    const DeviceFacts& facts = devices.front()->facts;
    spec.cpu_milli = spec.cpu_milli * count / share_of;
    spec.memory_mib = spec.memory_mib * count / share_of;
    spec.model = model_bit(facts);
    spec.vram = facts.vram.count;
    spec.geometry = geometry_of(facts);
    spec.pool = pool_of(facts.soft_capable, node.simulated);
  }
  Group group{.node = node.id, .index = placer_.add_node(spec)};
  TRANCHE_CHECK(group.index == groups_.size());
  for (const Device* device : devices) {
    places_[device->id] = {group.index, static_cast<int>(group.devices.size())};
    group.devices.push_back(device->id);
  }
  groups_by_node_[node.id].push_back(group.index);
  groups_.push_back(std::move(group));
  room_when_empty_.clear();
  device_kinds_.clear();
  waiting_kinds_.node_freed(groups_.back().index);
}

void Capacity::add_node(const State& state, const Node& node) {
  if (node.boot_id.empty()) return;  // Invited, never seen.
  const std::size_t models_before = models_.size();
  std::map<std::tuple<std::string, std::int64_t, bool>, std::vector<const Device*>> by_kind;
  for (const DeviceId id : node.devices) {
    const Device& device = state.devices.at(id);
    if (!places_.contains(id))
      by_kind[{device.facts.model, device.facts.vram.count, device.facts.soft_capable}].push_back(&device);
  }
  const auto total = static_cast<std::int64_t>(node.devices.size());
  for (const auto& [key, devices] : by_kind) {
    for (std::size_t from = 0; from < devices.size(); from += policy::kDevicesMax) {
      const auto end = std::min<std::size_t>(devices.size(), from + policy::kDevicesMax);
      add_group(node,
                {devices.begin() + static_cast<std::ptrdiff_t>(from),
                 devices.begin() + static_cast<std::ptrdiff_t>(end)},
                total);
    }
  }
  if (total == 0 && groups_of(node.id).empty()) add_group(node, {}, 0);
  refresh_node(state, node);
  if (models_.size() == models_before) return;
  // A new model: whoever asked for it by name waits under another kind now.
  const auto waiting = where_waiting_;
  for (const auto& [id, key] : waiting) {
    const Job* job = state.job(id);
    if (job == nullptr || (job->ask.model.empty() && !job->ask.wish)) continue;
    dequeue(state, *job);
    enqueue(state, *job);
  }
}

void Capacity::refresh_node(const State& state, const Node& node) {
  for (const policy::NodeIndex index : groups_of(node.id)) {
    placer_.set_open(index, takes_work(node));
    if (takes_work(node)) waiting_kinds_.node_freed(index);
  }
  for (const DeviceId id : node.devices) refresh_device(state, state.devices.at(id));
  room_when_empty_.clear();
  device_kinds_.clear();
  changed();
}

std::optional<policy::Shape> Capacity::shape_of(const Ask& ask, std::uint32_t group) const {
  const std::uint32_t members = std::max(ask.nodes, 1U);
  policy::Shape shape{.cpu_milli = ask.cpu_milli,
                      .memory_mib = ask.memory_bytes / kMib,
                      .devices = static_cast<std::int32_t>(ask.instances / members),
                      .milli = static_cast<std::int32_t>(ask.milli_each)};
  if (ask.instances == 0) {
    shape.filter = filter_of(ask, false);
    if (shape.cpu_milli == 0) shape.cpu_milli = kCpuOfPlainJob;
    shape.milli = 0;
    return shape;
  }
  if (ask.isolation != Isolation::kSoft && ask.profile.empty()) shape.milli = policy::kDeviceMilli;
  if (!ask.profile.empty()) {
    const auto profile = profiles_.find(wire::lower_case(ask.profile));
    if (profile == profiles_.end()) return std::nullopt;
    shape.profile = profile->second;
  }
  if (shape.shares()) {
    shape.vram = ask.vram_each;
    shape.trust_group = group;
  }
  shape.filter = filter_of(ask, shape.shares());
  if (ask.model.empty() && !ask.wish) return shape;
  shape.models = models_for(ask);
  if (shape.models == 0) return std::nullopt;
  return shape;
}

std::optional<Place> Capacity::choose(const policy::Shape& shape, const Ask& ask) {
  if (!ask.wish || !ask.wish->in_order) return choose(shape);
  Ask one = ask;
  for (const std::string& model : ask.wish->models) {
    one.wish->models = {model};
    policy::Shape narrow = shape;
    narrow.models = models_for(one);
    if (narrow.models == 0) continue;
    if (auto place = choose(narrow)) return place;
  }
  return std::nullopt;
}

std::uint32_t Capacity::room_when_empty(const State& state,
                                        const policy::Shape& shape,
                                        std::uint32_t enough) {
  const policy::KindIndex kind = placer_.kind(shape);
  if (const auto known = room_when_empty_.find(kind);
      known != room_when_empty_.end() && known->second >= enough)
    return known->second;
  std::uint32_t members = 0;
  for (const auto& [id, node] : state.nodes) {
    if (node.state == NodeState::kRetired) continue;
    for (const policy::NodeIndex index : groups_of(id)) {
      members += fleet().members_of_empty(fleet().spec(index), shape);
      if (members >= enough) return room_when_empty_[kind] = members;
    }
  }
  return members;
}

std::optional<Place> Capacity::choose(const policy::Shape& shape) {
  const auto placement = placer_.would_place(placer_.kind(shape));
  if (!placement) return std::nullopt;
  return place_at(shape, *placement);
}

Place Capacity::place_at(const policy::Shape& shape, const policy::Placement& placement) const {
  const Group& group = groups_[placement.node];
  Place place{.node = group.node, .placement = placement};
  const policy::NodeSpec& spec = fleet().spec(placement.node);
  for (std::size_t i = 0; i < group.devices.size(); ++i) {
    if (((static_cast<unsigned>(placement.devices) >> i) & 1U) == 0) continue;
    Slice slice{.device = group.devices[i],
                .milli = static_cast<std::uint16_t>(shape.milli),
                .vram = shape.shares() ? shape.vram : spec.vram,
                .start = static_cast<std::uint8_t>(placement.slot(static_cast<int>(i)))};
    if (shape.profile != 0) {
      const policy::PartitionProfile* profile = fleet().geometry(spec).find(shape.profile);
      slice.milli = static_cast<std::uint16_t>(profile->milli);
      slice.vram = profile->vram;
    }
    place.slices.push_back(slice);
  }
  return place;
}

void Capacity::take(const policy::Shape& shape, const Place& place) {
  placer_.take(placer_.kind(shape), place.placement);
}

void Capacity::release(const policy::Shape& shape, const Place& place) {
  placer_.release(placer_.kind(shape), place.placement, policy::Learning::kIgnore);
}

void Capacity::close(NodeId node, bool closed) {
  for (const policy::NodeIndex index : groups_of(node)) placer_.set_open(index, !closed);
}

policy::Placement Capacity::placement_of(const Lease& lease) const {
  policy::Placement placement;
  if (lease.slices.empty()) {
    const auto groups = groups_of(lease.node);
    placement.node = groups.empty() ? policy::kNoNode : groups.front();
    return placement;
  }
  for (const Slice& slice : lease.slices) {
    const auto [index, position] = places_.at(slice.device);
    placement.node = index;
    placement.devices = static_cast<std::uint16_t>(placement.devices | (1U << position));
    placement.set_slot(position, slice.start);
  }
  return placement;
}

policy::Shape Capacity::shape_of(const Lease& lease, const Ask& ask) const {
  auto shape = shape_of(ask, lease.trust_group);
  TRANCHE_CHECK(shape && "a lease has a shape while its devices are known");
  if (!shape->shares() || lease.slices.empty()) return *shape;
  // As it is, or as it becomes where that is more.
  const Slice& slice = lease.slices.front();
  const std::int64_t vram = std::max(slice.vram, lease.change ? lease.change->vram : 0);
  shape->milli = std::max<std::int32_t>(slice.milli, lease.change ? lease.change->milli : 0);
  shape->vram = vram;
  return *shape;
}

void Capacity::take(const Lease& lease, const Ask& ask) {
  const policy::Placement placement = placement_of(lease);
  moved_ = true;
  leases_[lease.node].insert(lease.id);
  if (lease.promised_to != JobId{}) promise(lease.id);
  if (lease.live()) {
    if (ask.preemptible) preemptible_.insert(lease.id);
    if (ask.is_elastic() && lease.rank == 0) elastic_.insert(lease.id);
    if (ask.range) resizable_.insert(lease.id);
    running_milli_[lease.tenant] += lease.gpu_milli();
    shares_.change_rate(share_leaf(lease.tenant), lease.gpu_milli(), seconds(lease.granted));
    const auto by_units =
        std::chrono::floor<std::chrono::seconds>(lease.by_time_from() - lease.granted).count();
    if (by_units > 0) weigh(lease.tenant, lease.weighed - lease.gpu_milli() * by_units, lease.by_time_from());
  }
  placer_.take(placer_.kind(shape_of(lease, ask)), placement);
}

void Capacity::release(const Lease& lease, const Ask& ask) {
  leases_[lease.node].erase(lease.id);
  if (!lease.left) keep_promise(lease);  // Else it is kept when its devices are wiped.
  if (parked_.erase(lease.id) != 0) return leave_host(lease, ask);
  const policy::Placement placement = placement_of(lease);
  const policy::KindIndex kind = placer_.kind(shape_of(lease, ask));
  placer_.release(kind, placement, policy::Learning::kCount);
  waiting_kinds_.node_freed(placement.node);
  changed();
}

void Capacity::ended(const Lease& lease, Instant at) {
  preemptible_.erase(lease.id);
  elastic_.erase(lease.id);
  resizable_.erase(lease.id);
  note_crash(lease);
  changed();
  if (lease.parking == Parking::kParked) return;  // It was counted out when it went.
  running_milli_[lease.tenant] -= lease.gpu_milli();
  shares_.change_rate(share_leaf(lease.tenant), -lease.gpu_milli(), seconds(at));
}

void Capacity::charge(const Lease& lease) {
  const auto held = std::chrono::floor<std::chrono::seconds>(lease.ended - lease.by_time_from()).count();
  shares_.charge(share_leaf(lease.tenant),
                 lease.weighed + lease.gpu_milli() * std::max<std::int64_t>(held, 0),
                 seconds(lease.ended));
}

void Capacity::weigh(PartyId tenant, std::int64_t milli_seconds, Instant at) {
  shares_.charge(share_leaf(tenant), milli_seconds, seconds(at));
}

policy::ShareNode Capacity::share_leaf(PartyId tenant) {
  const auto found = share_leaves_.find(tenant);
  if (found != share_leaves_.end()) return found->second;
  return share_leaves_.emplace(tenant, shares_.add(policy::FairShareTree::kRoot, 1)).first->second;
}

std::map<PartyId, std::int32_t> Capacity::ranks(Instant now) const {
  const std::vector<std::int32_t> by_leaf = shares_.ranks(seconds(now));
  std::map<PartyId, std::int32_t> ranks;
  for (const auto& [tenant, leaf] : share_leaves_) ranks[tenant] = by_leaf[static_cast<std::size_t>(leaf)];
  return ranks;
}

std::int64_t Capacity::running_milli(PartyId tenant) const {
  const auto found = running_milli_.find(tenant);
  return found == running_milli_.end() ? 0 : found->second;
}

const std::set<LeaseId>& Capacity::leases_on(NodeId node) const {
  static const std::set<LeaseId> kNone;
  const auto found = leases_.find(node);
  return found == leases_.end() ? kNone : found->second;
}

const std::vector<policy::NodeIndex>& Capacity::groups_of(NodeId node) const {
  static const std::vector<policy::NodeIndex> kNone;
  const auto found = groups_by_node_.find(node);
  return found == groups_by_node_.end() ? kNone : found->second;
}

}  // namespace tranche::engine
