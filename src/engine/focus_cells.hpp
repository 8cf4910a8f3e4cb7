// SPDX-License-Identifier: Apache-2.0
#pragma once
// How instants, hours, labels and kinds of accounts stand in the cells of a FOCUS table.
#include <map>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace tranche::engine {

[[nodiscard]] std::string instant_cell(Instant);                            // 2026-11-15T20:00:00Z
[[nodiscard]] std::string gpu_hours_cell(std::int64_t milli_milliseconds);  // Six decimals, rounded down.
[[nodiscard]] std::string gib_hours_cell(std::int64_t mib_seconds);         // Likewise.
[[nodiscard]] std::string labels_cell(const std::map<std::string, std::string>& labels);
[[nodiscard]] std::string kind_cell(PartyId);                // Tenant, Subscriber, …
void append_cell(std::string& out, std::string_view value);  // An empty text is null.

}  // namespace tranche::engine
