// SPDX-License-Identifier: Apache-2.0
#pragma once
// What-if runs beside each other as one HTML file with charts.
#include <string>
#include <utility>
#include <vector>

#include "sim/whatif.hpp"

namespace tranche::sim {

using WhatIfRuns = std::vector<std::pair<WhatIfOptions, WhatIfReport>>;
std::string whatif_html(const WhatIfRuns& runs);

// "as-asked", "dedicated, forecast 100 %"
std::string run_name(const WhatIfOptions& options);

}  // namespace tranche::sim
