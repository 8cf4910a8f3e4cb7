// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nodes and devices as people read them. Simulated ones say SIM in a column of their own, and are never
// summed with real ones.
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "wire/api_node.hpp"

namespace tranche::cli {

[[nodiscard]] Table node_table(const std::vector<wire::NodeView>& nodes);
[[nodiscard]] Table device_table(const std::vector<wire::DeviceView>& devices);
[[nodiscard]] std::string node_text(const wire::NodeView& node);
[[nodiscard]] std::string devices_text(const std::vector<wire::DeviceView>& devices);

}  // namespace tranche::cli
