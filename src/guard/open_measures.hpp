// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work of this process whose end is known, but not yet when the work of other tenants before it had ended.
//
// The broker tells that as soon as they have told their ends. Until then the launch stays charged as
// predicted; if nobody tells, the model of the moment it was let in has to do. Fixed places, no heap; one
// thread at a time, the caller sees to that.
#include <cstdint>

#include "guard/kernel_times.hpp"
#include "guard/region.hpp"

namespace tranche::guard {

struct OpenMeasure {
  KernelTime* entry = nullptr;  // Null: a free place.
  std::uint64_t key = 0;
  std::uint64_t mark = 0;
  std::uint64_t charged_ns = 0;  // For each launch it stands for.
  std::uint32_t covered = 0;
  std::uint32_t device = 0;
  LaunchEnds ends;
};

class OpenMeasures {
 public:
  // False when there is no place.
  bool keep(const OpenMeasure& measure);
  // Takes out one that can be concluded by now, and says how long its work took.
  bool take(const ControlRegion& control,
            LedgerRegion& ledger,
            std::uint64_t now,
            OpenMeasure& measure,
            Reading& reading);

 private:
  static constexpr std::uint32_t kPlaces = 32;
  OpenMeasure places_[kPlaces];
  std::uint32_t taken_ = 0;
};

}  // namespace tranche::guard
