// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far apart two tenants are kept on hardware.
#include <boost/describe/enum.hpp>
#include <cstdint>

namespace tranche::wire {

enum class Isolation : std::uint8_t {
  kDefault,    // What policy says for the workload.
  kDedicated,  // A whole device, or a whole node on request.
  kHard,       // A hardware partition such as MIG.
  kSoft,       // Time-sliced or MPS, under the guard.
};
BOOST_DESCRIBE_ENUM(Isolation, kDefault, kDedicated, kHard, kSoft)

}  // namespace tranche::wire
