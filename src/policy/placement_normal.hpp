// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fixed scales of the published comparators: scores of the literature are fractions of these.

namespace tranche::policy {

constexpr double kCpuScale = 128000;  // milli-CPU
constexpr double kGpuScale = 8000;    // milli-GPU

}  // namespace tranche::policy
