// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rules as people write and read them: a YAML or JSON file in, one line a clause out.
#include <string>

#include "wire/api_party.hpp"

namespace tranche::cli {

// {rules: […]}, or the list alone. Throws Failure (usage) that names file, line and key.
wire::RulesBody read_rules(const std::string& text, const std::string& file);

std::string when_text(
    const wire::When& when);  // "training, model over 13b, outside 22:00-06:00 Europe/Madrid"
std::string then_text(const wire::Then& then);     // "isolation soft, at most 0.5 GPU"
std::string hours_text(const wire::Hours& hours);  // "22:00-06:00 Europe/Madrid mon/fri"

}  // namespace tranche::cli
