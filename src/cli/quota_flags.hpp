// SPDX-License-Identifier: Apache-2.0
#pragma once
// `tranche quota set --gpus 4 --vram 80GB …`: flags to a changed Quota, and a quota back to rows for people.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "wire/api_party.hpp"

namespace tranche::cli {

struct QuotaFlag {
  std::string_view name{};     // Without the dashes; also what --clear takes.
  std::string_view example{};  // A value that is taken.
  std::string_view about{};
};
std::span<const QuotaFlag> quota_flags();

// Changes one part of a quota. The error is a sentence that names the flag and a value that would do.
Result<void, std::string> set_quota_flag(wire::Quota& quota, std::string_view flag, std::string_view value);
// As if it had never been said. `devices` and `skus` clear all of them, `device=H100` one.
Result<void, std::string> clear_quota_flag(wire::Quota& quota, std::string_view flag);

struct QuotaRow {
  std::string what{};
  std::string guaranteed{}, used{}, limit{};  // "-": this node says nothing.
};
// Only what is set or used: a node that says nothing has no rows.
std::vector<QuotaRow> quota_rows(const wire::QuotaView& view);

}  // namespace tranche::cli
