// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers as people read and write them on the command line: GPUs, sizes, hours, ages.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace tranche::cli {

std::string gpus_text(std::int64_t milli);     // 4000 -> 4, 500 -> 0.5, 1 -> 0.001
std::string hours_text(std::int64_t seconds);  // 5400 -> 1.5: exact to a thousandth, rounded to nearest
std::string bytes_text(std::int64_t bytes);    // 12.3GB: three digits, for columns; exact sizes are in JSON
std::string age_text(Duration age);            // 42s, 12m, 3h, 9d
std::string local_time_text(Instant at);       // 2026-11-15 21:09:55, in the zone of the terminal

// Whole thousandths of a decimal such as 4, 0.5 or 1.25; nothing for anything else or more than 2^40.
std::optional<std::int64_t> parse_milli(std::string_view text);
std::optional<std::int64_t> parse_whole(std::string_view text);

// "acme/research" -> "acme%2Fresearch": a party in a path of the API.
std::string path_segment(std::string_view text);
std::string shell_quoted(std::string_view word);  // As one word of a POSIX shell; plain words stay plain.

}  // namespace tranche::cli
