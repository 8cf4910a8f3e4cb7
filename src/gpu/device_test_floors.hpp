// SPDX-License-Identifier: Apache-2.0
#pragma once
// The least that a healthy device of a model reaches, as a versioned table. Derived from makers' sheets with
// a margin for what drivers leave of them; replace a row when there is a better figure, and raise the
// version.
#include <cstdint>
#include <string_view>

#include "gpu/opencl_api.hpp"
#include "wire/receipt.hpp"

namespace tranche::gpu {

constexpr std::string_view kFloorsVersion = "floors-1";

// Zero: not known, so a figure is shown and not judged.
struct Floors {
  std::int64_t host_to_device = 0;  // MB/s
  std::int64_t device_to_host = 0;
  std::int64_t within_device = 0;  // Bytes copied, each once.
  std::int64_t compute = 0;        // Mega-operations of floating point a second, of our own chain.
  std::int64_t launches = 0;       // Kernels a second, each waited for.
};
Floors floors_of(const OpenClDevice& device);

// WARNING below the floor, CRITICAL below half of it, INFO where there is none.
inline constexpr const char* kSlower = "slower than a healthy device of this model";
wire::TestOutcome judged(std::string name, std::int64_t measured, std::int64_t floor, std::string unit);

}  // namespace tranche::gpu
