// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work that is not a service: frames, people on one device, a training that gives way, teams of a render
// farm.
#include <vector>

#include "bench/bench.hpp"
#include "bench/site.hpp"

namespace tranche::bench {

std::vector<Row> unit_rows(Site& site);  // Part of workloads_suite().

}  // namespace tranche::bench
