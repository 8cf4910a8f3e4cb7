// SPDX-License-Identifier: Apache-2.0
#include "engine/margin.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "engine/decide.hpp"

namespace tranche::engine {
namespace {

using wire::MarginBy;

// Thousandths of a device times microseconds.
using MilliTime = std::int64_t;
struct Held {
  PartyId tenant{};
  std::map<DeviceId, MilliTime> on{};
};

struct Sum {
  Int128 revenue = 0;
  Int128 cost = 0;
  Int128 held = 0;
  Int128 had = 0;
};

class Margin {
 public:
  Margin(const State& state, MarginBy by, Instant from, Instant to)
      : state_(state), by_(by), from_(from), to_(std::max(from, to)) {
    find_held();
  }

  wire::MarginReport report() {
    for (const auto& [id, device] : state_.devices)
      if (!state_.nodes.at(device.node).simulated) add_cost(device);
    const auto end = state_.costs.lower_bound(CostKey{to_, {}, {}});
    for (auto at = state_.costs.lower_bound(CostKey{from_, {}, {}}); at != end; ++at) add_revenue(at->second);
    return view();
  }

 private:
  void find_held() {
    for (const auto& [id, lease] : state_.leases) {
      const Instant from = std::max(lease.granted, from_);
      const Instant to = std::min(lease.live() ? state_.now : lease.ended, to_);
      if (from >= to || lease.slices.empty()) continue;
      if (const Node* node = state_.node(lease.node); node != nullptr && node->simulated) {
        simulated_.insert(lease.job);
        continue;
      }
      Held& held = held_[lease.job];
      held.tenant = lease.tenant;
      for (const Slice& slice : lease.slices) {
        held.on[slice.device] += slice.milli * (to - from).count();
        tenants_on_[slice.device][lease.tenant] += slice.milli * (to - from).count();
      }
    }
  }

  void add_cost(const Device& device) {
    Int128 cost = 0;
    MilliTime had = 0;
    const Instant today = std::chrono::floor<std::chrono::days>(state_.now);
    const auto add = [&](const DeviceDayUse& day) {
      cost += capacity_cost(state_, device, day.from, day.to).micros;
      had += day.had.milli;
    };
    for (auto at = state_.device_days.lower_bound({from_, {}});
         at != state_.device_days.end() && at->first.day < std::min(to_, today);
         ++at)
      if (at->first.device == device.id) add(at->second);
    for (const DeviceDayUse& day : device_days(state_, device, std::max(from_, today), to_)) add(day);
    if (had == 0) return;
    Sum& of_device = sums_[by_ == MarginBy::kTenant ? "(idle)" : label(device)];
    of_device.cost += cost;
    of_device.had += had;
    for (const auto& [tenant, milli_time] : tenants_on_[device.id]) {
      if (by_ != MarginBy::kTenant) {
        of_device.held += milli_time;
        continue;
      }
      Sum& of_tenant = sums_[path_of(state_, tenant)];
      const Int128 part = cost * milli_time / had;
      of_tenant.cost += part;
      of_tenant.held += milli_time;
      of_device.cost -= part;  // What nobody held stays.
    }
  }

  void add_revenue(const CostLine& line) {
    if (simulated_.contains(line.key.job)) return;
    if (line.key.of_exchange()) return;  // Paid to a seller: the operator's part of it is the fee.
    const std::int64_t net = line.amount.micros - line.credited.micros;
    const auto held = held_.find(line.key.job);
    if (by_ == MarginBy::kTenant) {
      sums_[path_of(state_, tenant_of(state_, line.key.party))].revenue += net;
    } else if (held == held_.end()) {
      sums_[line.key.volume != VolumeId{}         ? "(storage)"
            : line.key.source == CostSource::kFee ? "(exchange)"
                                                  : "(no device)"]
          .revenue += net;
    } else {
      share_out(held->second, net);
    }
  }

  // Over the devices that the job had, by what it had of each; the last takes what rounding left.
  void share_out(const Held& held, std::int64_t net) {
    Int128 all = 0;
    for (const auto& [device, milli_time] : held.on) all += milli_time;
    Int128 left = net;
    for (const auto& [id, milli_time] : held.on) {
      const bool last = id == held.on.rbegin()->first;
      const Int128 part = last ? left : Int128{net} * milli_time / all;
      left -= part;
      const auto device = state_.devices.find(id);
      sums_[device == state_.devices.end() ? "(no device)" : label(device->second)].revenue += part;
    }
  }

  [[nodiscard]] std::string label(const Device& device) const {
    const Node& node = state_.nodes.at(device.node);
    if (by_ == MarginBy::kNode) return node.name;
    if (by_ == MarginBy::kModel) return device.facts.model;
    const auto at = std::find(node.devices.begin(), node.devices.end(), device.id);
    return node.name + " " + std::to_string(at - node.devices.begin()) + " " + device.facts.model;
  }

  wire::MarginReport view() const {
    wire::MarginReport out{.currency = state_.settings.currency, .from = from_, .to = to_};
    Int128 all_had = 0;
    for (const auto& [what, sum] : sums_) all_had += sum.had;
    for (const auto& [what, sum] : sums_) {
      const Int128 had = by_ == MarginBy::kTenant ? all_had : sum.had;
      wire::MarginRow row{.what = what,
                          .revenue = {static_cast<std::int64_t>(sum.revenue)},
                          .cost = {static_cast<std::int64_t>(sum.cost)}};
      row.margin = {row.revenue.micros - row.cost.micros};
      if (had > 0) row.held_percent = static_cast<std::int64_t>(sum.held * 100 / had);
      out.revenue.micros += row.revenue.micros;
      out.cost.micros += row.cost.micros;
      out.items.push_back(std::move(row));
    }
    out.margin = {out.revenue.micros - out.cost.micros};
    return out;
  }

  const State& state_;
  MarginBy by_;
  Instant from_, to_;
  std::map<JobId, Held> held_;
  std::set<JobId> simulated_;
  std::map<DeviceId, std::map<PartyId, MilliTime>> tenants_on_;
  std::map<std::string, Sum> sums_;
};

}  // namespace

wire::MarginReport margin_report(const State& state, MarginBy by, Instant from, Instant to) {
  return Margin(state, by, from, to).report();
}

}  // namespace tranche::engine
