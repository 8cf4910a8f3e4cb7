// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which shapes would hold a workload of a known size: slices, partitions, whole devices, SKUs.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policy/sizing.hpp"
#include "wire/settings.hpp"

namespace tranche::policy {

struct ShapeAdvice {
  std::string gpus{};             // As one would ask for it: 28GB, H100:0.35, H100:3g.40gb, sku large.
  std::int64_t vram_bytes = 0;    // What it gives, over all its devices.
  std::int64_t unused_bytes = 0;  // Of that, beyond the need.
  std::string how{};
  bool operator==(const ShapeAdvice&) const = default;
};
BOOST_DESCRIBE_STRUCT(ShapeAdvice, (), (gpus, vram_bytes, unused_bytes, how))

// The slice by memory first, then SKUs, then devices in order of what they would leave unused, at most
// `most`.
std::vector<ShapeAdvice> advise_shapes(const Sizing& sizing,
                                       std::span<const wire::Sku> skus,
                                       std::size_t most = 10);

// What `tranche size` answers.
struct SizeReport : Sizing {
  std::vector<ShapeAdvice> shapes{};
};
BOOST_DESCRIBE_STRUCT(SizeReport, (Sizing), (shapes))

}  // namespace tranche::policy
