// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a workload needs, as people read it: the sum, and the parts that add up to it.
#include <cstdint>
#include <string>

#include "wire/sizing.hpp"

namespace tranche::cli {

std::string gigabytes_text(std::int64_t bytes);  // 53.45 GB
std::string sizing_text(const wire::Sizing& sizing);

}  // namespace tranche::cli
