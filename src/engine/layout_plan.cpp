// SPDX-License-Identifier: Apache-2.0
#include "engine/layout_plan.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace tranche::engine {
namespace {

struct Wanted {
  std::uint8_t priority = 0;
  std::string profile{};
  std::int64_t count = 0;  // Beyond those that run.
  int width = 0;
};

// So many of each as the busiest of the hours wants, less what runs of them.
std::vector<Wanted> wanted_until(const State& state, Instant now, Instant until) {
  std::map<ProfileClass, std::int64_t> running;
  for (const auto& [id, lease] : state.leases) {
    const Job* job = state.job(lease.job);
    if (job != nullptr && lease.live() && lease.holds_slices() && !job->ask.profile.empty())
      running[{job->ask.priority, job->ask.profile}] += static_cast<std::int64_t>(lease.slices.size());
  }
  std::vector<Wanted> wanted;
  for (const auto& [of, forecast] : state.index.demand->profiles()) {
    std::int64_t most = 0;
    for (Instant hour = hour_start(now); hour < until; hour += std::chrono::hours(1))
      most = std::max(most, state.index.demand->expected(of, hour));
    const std::int64_t count = (most * state.settings.prepare_percent / 100 + 500) / 1000 - running[of];
    if (count > 0) wanted.push_back({.priority = of.priority, .profile = of.profile, .count = count});
  }
  return wanted;
}

const wire::ProfileFacts* profile_of(const DeviceFacts& facts, const std::string& name) {
  const auto found = std::find_if(facts.profiles.begin(), facts.profiles.end(), [&](const auto& one) {
    return wire::equal_ignoring_case(one.name, name);
  });
  return found == facts.profiles.end() ? nullptr : &*found;
}

// A device that could be cut, as it would be after what is planned so far.
struct Cut {
  const Device* device = nullptr;
  const policy::Geometry* geometry = nullptr;
  std::uint16_t used = 0;
  bool free = false;
};

std::vector<Cut> devices_to_cut(const State& state) {
  std::vector<Cut> cuts;
  const Capacity& capacity = *state.index.capacity;
  for (const auto& [id, device] : state.devices) {
    if (device.facts.profiles.empty() || !takes_work(device.state) ||
        !takes_work(state.nodes.at(device.node)))
      continue;
    const policy::NodeIndex index = capacity.group_of(id);
    const policy::DeviceState& now =
        capacity.fleet().node(index).devices[static_cast<std::size_t>(capacity.position_of(id))];
    const bool cut = now.mode == policy::DeviceMode::kPartitioned;
    if (now.blocked || (!cut && now.mode != policy::DeviceMode::kFree)) continue;
    cuts.push_back({.device = &device,
                    .geometry = &capacity.fleet().geometry(capacity.fleet().spec(index)),
                    .used = now.slots_used,
                    .free = !cut});
  }
  return cuts;
}

// On a device that is cut already, the one with least room left; else on a free one.
Cut* best_for(std::vector<Cut>& cuts, const Capacity& capacity, const std::string& name, int& start) {
  Cut* best = nullptr;
  for (Cut& cut : cuts) {
    if (profile_of(cut.device->facts, name) == nullptr) continue;
    const policy::PartitionProfile* profile = cut.geometry->find(capacity.profile_number(name));
    if (profile == nullptr) continue;
    const auto at = cut.geometry->best_start(*profile, cut.used);
    if (!at) continue;
    const auto rank = [](const Cut& one) { return std::tuple(one.free, one.geometry->room(one.used)); };
    if (best != nullptr && rank(cut) >= rank(*best)) continue;
    best = &cut;
    start = *at;
  }
  return best;
}

}  // namespace

std::vector<PlannedPartition> plan_layouts(const State& state, Instant now, Instant until) {
  std::vector<PlannedPartition> plan;
  if (state.index.demand->profiles().empty()) return plan;
  std::vector<Wanted> wanted = wanted_until(state, now, until);
  std::vector<Cut> cuts = devices_to_cut(state);
  const Capacity& capacity = *state.index.capacity;
  for (Wanted& one : wanted)
    for (const Cut& cut : cuts)
      if (const wire::ProfileFacts* profile = profile_of(cut.device->facts, one.profile))
        one.width = std::max<int>(one.width, profile->memory_slices);
  std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::tuple(-a.width, -int{a.priority}) < std::tuple(-b.width, -int{b.priority});
  });
  for (const Wanted& one : wanted) {
    for (std::int64_t i = 0; i < one.count; ++i) {
      int start = 0;
      Cut* cut = best_for(cuts, capacity, one.profile, start);
      if (cut == nullptr) break;
      const std::uint16_t slots = cut->geometry->find(capacity.profile_number(one.profile))->slots_at(start);
      cut->used = static_cast<std::uint16_t>(cut->used | slots);
      cut->free = false;
      plan.push_back({cut->device->id, one.profile, static_cast<std::uint8_t>(start), slots, one.priority});
    }
  }
  return plan;
}

}  // namespace tranche::engine
