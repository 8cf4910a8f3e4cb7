// SPDX-License-Identifier: Apache-2.0
// market rules, market reclaim: the terms of the exchange, and taking back what was sold under them.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"
#include "cli/price_plan.hpp"
#include "wire/api_market.hpp"

namespace tranche::cli {
namespace {

using wire::MarketRulesBody;

constexpr std::int64_t kPpmOfBps = 100;

std::string bps_text(std::uint32_t bps) {
  return percent_text(std::int64_t{bps} * kPpmOfBps);
}

std::string rules_text(const MarketRulesBody& rules) {
  const auto line = [](std::string name, const std::string& value) {
    name.resize(12, ' ');
    return name + value + "\n";
  };
  return line("fee", bps_text(rules.fee_bps) + " of what a seller earns") +
         line("bond", bps_text(rules.bond_bps) + " of what an offer would bring") +
         line("penalty", bps_text(rules.penalty_bps) + " of what is not delivered") +
         line("collar",
              rules.collar_percent == 0 ? "none"
                                        : std::to_string(rules.collar_percent) + " % of the last price") +
         line("dispute", text(rules.dispute) + " until what was earned is paid out") +
         line("horizon", text(rules.horizon) + " ahead is traded") +
         line("quotes",
              rules.quote_for == Duration{} ? "are not kept" : "are kept for " + text(rules.quote_for)) +
         line("notice", text(rules.notice) + " before a seller takes back what he sold") +
         line("names", rules.named ? "both sides of a contract learn who the other is" : "are not told");
}

void print(Session& session, const Answer<MarketRulesBody>& answer) {
  session.print(answer.body,
                {.table =
                     [&] {
                       const MarketRulesBody& one = answer.value;
                       Table table({{"FEE", Align::kRight},
                                    {"BOND", Align::kRight},
                                    {"PENALTY", Align::kRight},
                                    {"COLLAR", Align::kRight},
                                    {"DISPUTE"},
                                    {"HORIZON"},
                                    {"QUOTES"},
                                    {"NOTICE"},
                                    {"NAMES"}});
                       table.add({bps_text(one.fee_bps),
                                  bps_text(one.bond_bps),
                                  bps_text(one.penalty_bps),
                                  one.collar_percent == 0 ? "-" : std::to_string(one.collar_percent) + " %",
                                  text(one.dispute),
                                  text(one.horizon),
                                  text(one.quote_for),
                                  text(one.notice),
                                  one.named ? "yes" : "no"});
                       return table;
                     },
                 .text = [&] { return rules_text(answer.value); }});
}

struct RuleOptions {
  std::string fee{}, bond{}, penalty{}, collar{}, dispute{}, horizon{}, quotes{}, notice{}, names{};
};

std::uint32_t bps_value(const std::string& option, const std::string& given) {
  const auto ppm = parse_percent(given);
  if (ppm && *ppm % kPpmOfBps == 0) return static_cast<std::uint32_t>(*ppm / kPpmOfBps);
  throw usage_failure(option + " takes a percentage with at most two decimals, such as 2%, not '" + given +
                      "'");
}

// Only what was said changes.
void change(const RuleOptions& options, MarketRulesBody& rules) {
  if (!options.fee.empty()) rules.fee_bps = bps_value("--fee", options.fee);
  if (!options.bond.empty()) rules.bond_bps = bps_value("--bond", options.bond);
  if (!options.penalty.empty()) rules.penalty_bps = bps_value("--penalty", options.penalty);
  if (!options.collar.empty()) {
    const auto ppm =
        options.collar == "none" ? std::optional<std::int64_t>(0) : parse_percent(options.collar);
    if (!ppm || *ppm % 10'000 != 0) throw usage_failure("--collar takes whole percent such as 20%, or none");
    rules.collar_percent = static_cast<std::uint32_t>(*ppm / 10'000);
  }
  if (!options.dispute.empty()) rules.dispute = length_value("--dispute", options.dispute);
  if (!options.horizon.empty()) rules.horizon = length_value("--horizon", options.horizon);
  if (!options.quotes.empty()) rules.quote_for = length_value("--quotes", options.quotes);
  if (!options.notice.empty()) rules.notice = length_value("--notice", options.notice);
  if (!options.names.empty()) {
    if (options.names != "yes" && options.names != "no") throw usage_failure("--names takes yes or no");
    rules.named = options.names == "yes";
  }
}

void add_rules(const Command& market, Program& program) {
  const Command& group =
      add_group(market, {"rules", "Fee, bond, penalty, collar, notice", "tranche market rules show"});
  add_command(group, {"show", "Show them", "tranche market rules show"}).callback([&program] {
    Session& session = program.session();
    print(session, session.get<MarketRulesBody>("/v1/market/rules"));
  });
  const auto options = std::make_shared<RuleOptions>();
  const Command& set = add_command(group,
                                   {"set",
                                    "Change some of them; the operator",
                                    "tranche market rules set --fee 2% --bond 10%\n"
                                    "tranche market rules set --collar 20% --notice 30m --quotes 2m"});
  set.add_option("--fee", options->fee, "Of what a seller earns").type_name("PERCENT");
  set.add_option("--bond", options->bond, "Set aside for every offer").type_name("PERCENT");
  set.add_option("--penalty", options->penalty, "Of what is not delivered").type_name("PERCENT");
  set.add_option("--collar", options->collar, "How far a price may be from the last one, or none")
      .type_name("PERCENT");
  set.add_option("--dispute", options->dispute, "What was earned is paid out after this")
      .type_name("DURATION");
  set.add_option("--horizon", options->horizon, "How far ahead is traded").type_name("DURATION");
  set.add_option("--quotes", options->quotes, "How long a quote is kept; 0s: none is").type_name("DURATION");
  set.add_option("--notice", options->notice, "Before a seller takes back what he sold")
      .type_name("DURATION");
  set.add_option("--names", options->names, "Whether both sides learn who the other is: yes or no")
      .type_name("YES|NO");
  set.callback([options, &program] {
    Session& session = program.session();
    MarketRulesBody rules = session.get<MarketRulesBody>("/v1/market/rules", Explain::kPreparation).value;
    change(*options, rules);
    print(session,
          session.ask<MarketRulesBody>(
              {.method = "PUT", .path = "/v1/market/rules", .body = wire::to_json(rules)}));
  });
}

void add_reclaim(const Command& market, Program& program) {
  struct Options {
    std::string contract{}, at{};
  };
  const auto options = std::make_shared<Options>();
  const Command& reclaim = add_command(
      market,
      {"reclaim",
       "Take back what was sold, with notice: the contract ends earlier",
       "tranche market reclaim ctr_000001\ntranche market reclaim ctr_000001 --at 2026-12-01T20:00:00Z"});
  reclaim.add_option("contract", options->contract, "Its id").required();
  reclaim.add_option("--at", options->at, "When it shall end; else as soon as the notice allows")
      .type_name("TIME");
  reclaim.callback([options, &program] {
    wire::ReclaimBody body;
    if (!options->at.empty()) body.at = time_value("--at", options->at);
    Session& session = program.session();
    const auto answer = session.ask<wire::ContractList>(
        {.method = "POST",
         .path = "/v1/market/contracts/" + path_segment(options->contract) + "/reclaim",
         .body = wire::to_json(body)});
    for (const wire::ContractView& one : answer.value.items)
      session.say(one.id + " ends at " + local_time_text(one.to) + "; the rest is refunded to its buyer");
  });
}

}  // namespace

void add_market_rules_commands(const Command& market, Program& program) {
  add_rules(market, program);
  add_reclaim(market, program);
}

}  // namespace tranche::cli
