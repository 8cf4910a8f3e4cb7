// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a workload as people describe it, in a job file or by flags, to the numbers that sizing works with.
#include "policy/sizing.hpp"
#include "wire/codec.hpp"

namespace tranche::policy {

struct Workload {
  wire::WorkloadKind kind = wire::WorkloadKind::kInference;
  const wire::ModelUse* model = nullptr;
  const wire::MediaUse* media = nullptr;
};

// Whether enough is said to know what it needs: a model, or pictures of some size.
[[nodiscard]] bool describes_its_size(const Workload&);
[[nodiscard]] Result<SizingAsk, wire::Problem> sizing_ask(const Workload&);

}  // namespace tranche::policy
