// SPDX-License-Identifier: Apache-2.0
#pragma once
// A packing trial's report as one HTML file with charts.
#include <string>

#include "sim/pack_report.hpp"

namespace tranche::sim {

std::string pack_html(const PackReport& report);

}  // namespace tranche::sim
