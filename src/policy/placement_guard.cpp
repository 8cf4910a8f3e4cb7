// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_guard.hpp"

#include <algorithm>

namespace tranche::policy {

MultiDeviceGuard::MultiDeviceGuard(const std::vector<WeightedForm>& possible, double total) {
  if (total <= 0) return;
  for (const WeightedForm& item : possible) {
    if (item.form.devices < 2 || item.form.milli < kDeviceMilli) continue;
    by_devices_[static_cast<std::size_t>(item.form.devices)].push_back(
        {item.form.cpu, item.weight * item.form.gpu() / total});
    least_ = std::min<int>(least_, item.form.devices);
    most_ = std::max<int>(most_, item.form.devices);
  }
  for (auto& steps : by_devices_) {
    std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.cpu < b.cpu; });
    double sum = 0;
    for (Step& step : steps) step.weight = sum += step.weight;
  }
}

double MultiDeviceGuard::of(const LeanNode& node) const {
  // A job that fits can use the free devices and nothing else; to one that does not fit all idle is lost.
  double reachable = 0;
  for (int devices = least_; devices <= std::min<int>(most_, node.free); ++devices) {
    const auto& steps = by_devices_[static_cast<std::size_t>(devices)];
    const auto above =
        std::upper_bound(steps.begin(), steps.end(), node.cpu, [](std::int32_t cpu, const Step& step) {
          return cpu < step.cpu;
        });
    if (above != steps.begin()) reachable += std::prev(above)->weight;
  }
  return node.idle() - reachable * node.free * kDeviceMilli;
}

}  // namespace tranche::policy
