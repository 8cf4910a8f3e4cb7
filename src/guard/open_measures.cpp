// SPDX-License-Identifier: Apache-2.0
#include "guard/open_measures.hpp"

#include <algorithm>

#include "guard/gate.hpp"

namespace tranche::guard {
namespace {

constexpr std::uint64_t kToldWithinNs = 100'000'000;

}  // namespace

bool OpenMeasures::keep(const OpenMeasure& measure) {
  for (OpenMeasure& place : places_) {
    if (place.entry != nullptr) continue;
    place = measure;
    ++taken_;
    return true;
  }
  return false;
}

bool OpenMeasures::take(const ControlRegion& control,
                        LedgerRegion& ledger,
                        std::uint64_t now,
                        OpenMeasure& measure,
                        Reading& reading) {
  if (taken_ == 0) return false;
  for (OpenMeasure& place : places_) {
    if (place.entry == nullptr) continue;
    const LaunchEnds& ends = place.ends;
    const std::uint64_t began =
        LaneGate(control, ledger, place.device, Lane::kCompute).began_at(place.mark, ends.ended_at);
    if (began == 0 && now < ends.ended_at + kToldWithinNs) continue;
    const std::uint64_t took = ends.ended_at - std::max({began, ends.began_at, ends.submitted_at});
    reading = began != 0 ? Reading{took, took, Trust::kExact} : read_ends(ends);
    measure = place;
    place.entry = nullptr;
    --taken_;
    return true;
  }
  return false;
}

}  // namespace tranche::guard
