// SPDX-License-Identifier: Apache-2.0
// margin: what devices cost their operator, and what is left of what they earn.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"
#include "net/http.hpp"
#include "wire/api_margin.hpp"

namespace tranche::cli {
namespace {

// "0.85/h", or a sum over a time: "31000/1460d".
Money rate_value(const std::string& option, const std::string& given) {
  const std::size_t slash = given.find('/');
  if (given.empty() || slash == std::string::npos || given.substr(slash) == "/h")
    return given.empty() ? Money{} : hourly_value(option, given);
  const auto amount = parse_money(given.substr(0, slash));
  const auto life = parse_duration(given.substr(slash + 1));
  if (!amount || !life || *life < std::chrono::hours(1))
    throw usage_failure(option + " takes 0.85/h, or a sum over a time such as 31000/1460d, not '" + given +
                        "'");
  return {static_cast<std::int64_t>(Int128{amount->micros} * Duration(std::chrono::hours(1)).count() /
                                    life->count())};
}

Table cost_table(const std::vector<wire::CapacityCost>& costs) {
  Table table({{"NODE"},
               {"MODEL"},
               {"VALID FROM"},
               {"PURCHASE", Align::kRight},
               {"LEASE", Align::kRight},
               {"COMMITMENT", Align::kRight},
               {"ENERGY", Align::kRight},
               {"DEVICE-HOUR", Align::kRight}});
  for (const wire::CapacityCost& cost : costs) {
    table.add({cost.node.empty() ? "any" : cost.node,
               cost.model.empty() ? "any" : cost.model,
               local_time_text(cost.valid_from),
               text(cost.purchase),
               text(cost.lease),
               text(cost.commitment),
               text(cost.energy),
               text(cost.hourly())});
  }
  return table;
}

void add_costs(const Command& group, Program& program) {
  add_command(group, {"costs", "What an hour of a device costs, by node and model", "tranche margin costs"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<wire::CapacityCostList>("/v1/capacity-costs");
        session.print(answer.body, {.table = [&] { return cost_table(answer.value.items); }});
      });
  struct Options {
    std::string node{}, model{}, from{}, purchase{}, lease{}, commitment{}, energy{};
  };
  const auto options = std::make_shared<Options>();
  const Command& set =
      add_command(group,
                  {"set",
                   "Set what an hour of a device costs, used or not",
                   "tranche margin set --model H100 --purchase 31000/1460d --energy 0.11/h\n"
                   "tranche margin set --node gpu-07 --lease 1.40/h --from 2027-01-01T00:00:00Z"});
  set.add_option("--node", options->node, "Of this node alone").type_name("NODE");
  set.add_option("--model", options->model, "Of this model alone").type_name("MODEL");
  set.add_option("--purchase", options->purchase, "What was paid for one, over its life").type_name("RATE");
  set.add_option("--lease", options->lease, "Rent of one").type_name("RATE");
  set.add_option("--commitment", options->commitment, "What was committed to for one").type_name("RATE");
  set.add_option("--energy", options->energy, "Power and cooling of one").type_name("RATE");
  set.add_option("--from", options->from, "When it begins to hold; else now").type_name("TIME");
  set.callback([options, &program] {
    const wire::CapacityCost cost{.node = options->node,
                                  .model = options->model,
                                  .valid_from = time_value("--from", options->from),
                                  .purchase = rate_value("--purchase", options->purchase),
                                  .lease = rate_value("--lease", options->lease),
                                  .commitment = rate_value("--commitment", options->commitment),
                                  .energy = rate_value("--energy", options->energy)};
    Session& session = program.session();
    const auto answer = session.ask<wire::CapacityCost>(
        {.method = "PUT", .path = "/v1/capacity-costs", .body = wire::to_json(cost)});
    session.print(answer.body, {.table = [&] { return cost_table({answer.value}); }});
  });
}

Table margin_table(const wire::MarginReport& report) {
  Table table({{"WHAT"},
               {"REVENUE", Align::kRight},
               {"COST", Align::kRight},
               {"MARGIN", Align::kRight},
               {"HELD", Align::kRight}});
  for (const wire::MarginRow& row : report.items)
    table.add({row.what,
               text(row.revenue),
               text(row.cost),
               text(row.margin),
               std::to_string(row.held_percent) + "%"});
  table.add({"all", text(report.revenue), text(report.cost), text(report.margin), ""});
  return table;
}

void add_show(const Command& group, Program& program) {
  struct Options {
    std::string by = "node", from{}, to{};
  };
  const auto options = std::make_shared<Options>();
  const Command& show = add_command(group,
                                    {"show",
                                     "What devices earned, what they cost, and what is left",
                                     "tranche margin show --by tenant\n"
                                     "tranche margin show --by device --from 2026-11-01 --to 2026-11-08"});
  show.add_option("--by", options->by, "device, node, model or tenant")
      .type_name("WHAT")
      .capture_default_str();
  show.add_option("--from", options->from, "First day; else this month's").type_name("DAY");
  show.add_option("--to", options->to, "The day after the last").type_name("DAY");
  show.callback([options, &program] {
    std::string query = "?by=" + net::percent_encode(options->by);
    if (!options->from.empty()) query += "&from=" + net::percent_encode(options->from);
    if (!options->to.empty()) query += "&to=" + net::percent_encode(options->to);
    Session& session = program.session();
    const auto answer = session.get<wire::MarginReport>("/v1/margin" + query);
    session.print(answer.body, {.table = [&] { return margin_table(answer.value); }});
  });
}

}  // namespace

void add_margin_commands(const Command& root, Program& program) {
  const Command& group = add_group(
      root, {"margin", "What devices cost you, and what is left of what they earn", "tranche margin show"});
  add_show(group, program);
  add_costs(group, program);
}

}  // namespace tranche::cli
