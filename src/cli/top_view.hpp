// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `top` shows: the fleet in a line, devices with what runs on them, and queues. Real and simulated
// capacity are never summed.
#include <string>

#include "cli/output.hpp"
#include "wire/api_telemetry.hpp"

namespace tranche::cli {

Table top_table(const wire::TopView& view);       // One row a slice, or a device that is free.
std::string top_text(const wire::TopView& view);  // For people.

}  // namespace tranche::cli
