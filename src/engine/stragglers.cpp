// SPDX-License-Identifier: Apache-2.0
// A device may be above every floor and still hold back the others of its gang: it is compared with all of
// its model that the platform has tested as thoroughly, on whatever node.
#include <algorithm>

#include "engine/health_steps.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kPeersMin = 3;  // Of two, nobody can say which one is slow.
constexpr std::int64_t kTenths = 9;   // Of the median.

bool is_speed(const wire::TestOutcome& row) {
  return row.unit.ends_with("/s") && row.verdict != wire::Verdict::kUnknown;
}

// What the others of its model reached in the same test, and itself now.
std::vector<std::int64_t> speeds_of(const State& state,
                                    const Device& device,
                                    const wire::AcceptanceReceipt& test,
                                    const wire::TestOutcome& own) {
  std::vector<std::int64_t> out{own.measured};
  for (const auto& [id, peer] : state.devices) {
    const auto& last = peer.record.last_test;
    if (id == device.id || peer.facts.model != device.facts.model || !last || last->level != test.level)
      continue;
    for (const wire::TestOutcome& row : last->tests)
      if (row.name == own.name && is_speed(row)) out.push_back(row.measured);
  }
  return out;
}

}  // namespace

std::string slower_than_peers(const State& state, const Device& device, const wire::AcceptanceReceipt& test) {
  // A quick test tells right from wrong, and not fast from slow.
  if (test.level == TestLevel::kQuick || device.facts.model.empty()) return {};
  for (const wire::TestOutcome& own : test.tests) {
    if (!is_speed(own)) continue;
    std::vector<std::int64_t> speeds = speeds_of(state, device, test, own);
    if (speeds.size() < kPeersMin) continue;
    const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    if (own.measured * 10 < *middle * kTenths)
      return own.name + " is " + std::to_string(own.measured) + " " + own.unit + ", its peers reach " +
             std::to_string(*middle);
  }
  return {};
}

}  // namespace tranche::engine
