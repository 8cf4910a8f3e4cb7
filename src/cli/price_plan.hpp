// SPDX-License-Identifier: Apache-2.0
#pragma once
// The price of something before it is started, booked or created: the answer to every --dry-run.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/failure.hpp"
#include "cli/session.hpp"
#include "wire/api_plan.hpp"

namespace tranche::cli {

std::string price_text(const wire::JobPrice& price);  // Lines: by the hour, set aside, at most, tax.
// How a command ends whose rehearsal was refused: as the real thing would.
Failure refused_plan(const wire::Refusal& refusal);
// Prints it; a refusal ends the command as the real thing would.
void show_price_plan(Session& session, const Answer<wire::PricePlan>& answer);

std::string percent_text(std::int64_t ppm);                        // "21 %", "8.875 %"
std::optional<std::int64_t> parse_percent(std::string_view text);  // "21%", "8.875" in parts of a million.

}  // namespace tranche::cli
