// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which device does the test want? Lines `key = value` in <state>.conf, then TRANCHE_STANDIN_SET=key=value,…
#include <string>

#include "device_state.hpp"

namespace standin {

Config read_config(const std::string& state_path);
// "2ms", "500us", "8GiB", "12"; throws std::invalid_argument on anything else.
std::uint64_t parse_quantity(const std::string& text);

}  // namespace standin
