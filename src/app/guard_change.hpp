// SPDX-License-Identifier: Apache-2.0
#pragma once
// tranche guard limit|pause|resume: changing what a running tenant may use.
#include <cstdint>
#include <string>

namespace tranche::cli {
class Command;
}

namespace tranche::app {

void add_guard_changes(const cli::Command& group);
// "2GiB"; throws std::runtime_error with the text when it is no size.
std::uint64_t size_of(const std::string& text);
// 30%, 0.3 or 30: a share of the device, of guard::kShareWhole.
std::uint32_t share_of(const std::string& text);

}  // namespace tranche::app
