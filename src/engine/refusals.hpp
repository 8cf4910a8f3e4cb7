// SPDX-License-Identifier: Apache-2.0
#pragma once
// Refusals that many nouns give in the same form.
#include <string>
#include <utility>

#include "wire/refusal.hpp"

namespace tranche::engine {

// The command itself makes no sense, whoever sends it.
[[nodiscard]] inline wire::Refusal invalid(std::string rule, std::string message, std::string fix) {
  return {.reason = wire::Reason::kInvalid,
          .rule = std::move(rule),
          .message = std::move(message),
          .fix = std::move(fix)};
}

}  // namespace tranche::engine
