// SPDX-License-Identifier: Apache-2.0
#include "cli/market_options.hpp"

#include "base/text.hpp"
#include "cli/human.hpp"

namespace tranche::cli {

using wire::OrderOutcome;

Money hourly_value(const std::string& option, std::string given) {
  if (given.ends_with("/h")) given.resize(given.size() - 2);
  if (const auto amount = parse_money(given)) return *amount;
  throw usage_failure(option + " takes a price such as 2.10/h, not '" + given + "'");
}

Duration length_value(const std::string& option, const std::string& given) {
  if (given.empty()) return {};
  if (const auto length = parse_duration(given); length && *length >= Duration{}) return *length;
  throw usage_failure(option + " takes a duration such as 3h, not '" + given + "'");
}

Instant time_value(const std::string& option, const std::string& given) {
  if (given.empty()) return {};
  if (const auto at = parse_instant(given)) return *at;
  throw usage_failure(option + " takes a time such as 2026-11-15T20:00:00Z, not '" + given + "'");
}

std::int64_t share_value(const std::string& option, const std::string& given) {
  if (given.empty()) return 0;
  if (const auto milli = parse_milli(given)) return *milli;
  throw usage_failure(option + " takes a number such as 0.5, not '" + given + "'");
}

std::string permille_text(const std::optional<std::int64_t>& milli) {
  if (!milli) return "-";
  return std::to_string(*milli / 10) + "." + std::to_string(*milli % 10) + " %";
}

void read_shape(const std::string& given, wire::InstrumentBody& instrument, std::int64_t& milli) {
  const std::size_t colon = given.find(':');
  instrument.model = given.substr(0, colon);
  milli = 1000;
  if (colon == std::string::npos) return;
  const std::string part = given.substr(colon + 1);
  if (const auto share = parse_milli(part)) {
    milli = *share;
  } else if (part.find("g.") != std::string::npos) {
    instrument.shape = part;
  } else {
    throw usage_failure("a shape is a model with a share or a partition, H100:0.5 or H100:1g.10gb, not '" +
                        given + "'");
  }
}

void add_instrument_flags(const Command& command, InstrumentFlags& flags) {
  command.add_option("--shape", flags.shape, "A partition profile such as 1g.10gb").type_name("PROFILE");
  command.add_option("--region", flags.region, "Where").type_name("REGION");
  command.add_option("--isolation", flags.isolation, "dedicated, hard or soft").type_name("CLASS");
  command.add_flag("--interruptible", flags.interruptible, "The owner may have it back without penalty");
}

void take_flags(const InstrumentFlags& flags, wire::InstrumentBody& instrument) {
  if (!flags.shape.empty()) instrument.shape = flags.shape;
  instrument.region = flags.region;
  instrument.interruptible = flags.interruptible;
  if (!flags.isolation.empty())
    instrument.isolation = enum_value<wire::Isolation>("--isolation", flags.isolation);
}

void print_outcome(Session& session, const Answer<OrderOutcome>& answer) {
  const OrderOutcome& outcome = answer.value;
  session.print(answer.body,
                {.table =
                     [&] {
                       Table table({{"ORDER"},
                                    {"TRADED", Align::kRight},
                                    {"OPEN", Align::kRight},
                                    {"PAID", Align::kRight},
                                    {"HELD", Align::kRight},
                                    {"CONTRACTS"}});
                       std::string contracts;
                       for (const std::string& one : outcome.contracts)
                         contracts += (contracts.empty() ? "" : " ") + one;
                       table.add({outcome.order,
                                  gpus_text(outcome.milli_traded),
                                  outcome.resting ? gpus_text(outcome.milli_open) : "-",
                                  text(outcome.paid),
                                  text(outcome.held),
                                  contracts.empty() ? "-" : contracts});
                       return table;
                     },
                 .names = [&] { return outcome.order + "\n"; }});
}

}  // namespace tranche::cli
