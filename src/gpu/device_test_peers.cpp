// SPDX-License-Identifier: Apache-2.0
// A device may be above every floor and still hold back the others of its gang.
#include <algorithm>
#include <map>

#include "gpu/device_tests.hpp"

namespace tranche::gpu {
namespace {

constexpr std::size_t kPeersMin = 3;  // Of two, nobody can say which one is slow.
constexpr std::int64_t kTenths = 9;   // Of the median.

bool is_speed(const TestOutcome& outcome) {
  return outcome.unit.ends_with("/s") && outcome.verdict != Verdict::kUnknown;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string kind_of(const DeviceReport& report) {
  return report.model.empty() ? report.name : report.model;
}

}  // namespace

void compare_with_peers(std::vector<DeviceReport>& reports) {
  std::map<std::pair<std::string, std::string>, std::vector<std::int64_t>> speeds;  // Of model and test.
  for (const DeviceReport& report : reports) {
    for (const TestOutcome& outcome : report.receipt.tests) {
      if (is_speed(outcome)) speeds[{kind_of(report), outcome.name}].push_back(outcome.measured);
    }
  }
  for (DeviceReport& report : reports) {
    for (TestOutcome& outcome : report.receipt.tests) {
      if (!is_speed(outcome)) continue;
      const auto& peers = speeds[{kind_of(report), outcome.name}];
      if (peers.size() < kPeersMin) continue;
      const std::int64_t usual = median(peers);
      if (outcome.measured * 10 >= usual * kTenths) continue;
      if (outcome.verdict != Verdict::kCritical) outcome.verdict = Verdict::kWarning;
      outcome.detail = "a straggler: its peers reach " + std::to_string(usual) + " " + outcome.unit;
    }
    report.receipt.verdict = verdict_of(report.receipt.tests);
  }
}

Verdict verdict_of(std::span<const TestOutcome> outcomes) {
  const auto any = [&](Verdict verdict) {
    return std::any_of(
        outcomes.begin(), outcomes.end(), [&](const TestOutcome& one) { return one.verdict == verdict; });
  };
  if (outcomes.empty()) return Verdict::kUnknown;
  if (any(Verdict::kCritical)) return Verdict::kCritical;
  if (any(Verdict::kWarning)) return Verdict::kWarning;
  return any(Verdict::kUnknown) ? Verdict::kUnknown : Verdict::kPass;
}

}  // namespace tranche::gpu
