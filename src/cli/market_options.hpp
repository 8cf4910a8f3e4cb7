// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the commands that buy and those that sell have in common.
#include <optional>
#include <string>

#include "base/money.hpp"
#include "base/time.hpp"
#include "cli/command.hpp"
#include "cli/session.hpp"
#include "wire/api_market.hpp"

namespace tranche::cli {

// Each says what is wrong with the option where the text is no such value; an empty text is zero.
[[nodiscard]] Money hourly_value(const std::string& option, std::string given);
[[nodiscard]] Duration length_value(const std::string& option, const std::string& given);
[[nodiscard]] Instant time_value(const std::string& option, const std::string& given);
[[nodiscard]] std::int64_t share_value(const std::string& option, const std::string& given);  // Thousandths.
// "99.5 %"; "-" where there is nothing yet.
[[nodiscard]] std::string permille_text(const std::optional<std::int64_t>& milli);

struct InstrumentFlags {
  std::string shape{}, region{}, isolation{};
  bool interruptible = false;
};

// "H100", "H100:0.5", "H100:1g.10gb": what is traded, and how much of it in thousandths.
void read_shape(const std::string& given, wire::InstrumentBody& instrument, std::int64_t& milli);
void add_instrument_flags(const Command& command, InstrumentFlags& flags);
void take_flags(const InstrumentFlags& flags, wire::InstrumentBody& instrument);

void print_outcome(Session& session, const Answer<wire::OrderOutcome>& answer);

}  // namespace tranche::cli
