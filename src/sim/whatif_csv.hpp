// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a what-if reads: a workload from a CSV file, a fleet and shares from words of the command line.
//
// Columns: submit, duration (seconds), tenant, kind, gpus, milli (asked of each device), vram_gb; optional:
// busy_milli (kept busy of each device; as asked where it is missing), model, priority.
#include <string>
#include <vector>

#include "sim/whatif.hpp"

namespace tranche::sim {

[[nodiscard]] std::vector<WhatIfJob> read_workload(const std::string& path);
// "8x8xH100-SXM5-80GB": eight nodes of eight devices. Throws std::invalid_argument with what is wrong.
[[nodiscard]] WhatIfNodes parse_fleet(const std::string& text);
// "acme=4", "acme=4..8": guaranteed devices, and the most it may hold.
void parse_share(const std::string& text, std::map<std::string, wire::Quota>& quotas);

}  // namespace tranche::sim
