// SPDX-License-Identifier: Apache-2.0
// cost: what things did cost.
#include <cstdio>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "net/http.hpp"
#include "wire/api_money.hpp"
#include "wire/api_reconcile.hpp"

namespace tranche::cli {
namespace {

struct ReportOptions {
  std::string party{}, by = "user", from{}, to{};
};

std::string query_of(const ReportOptions& options, bool by) {
  std::string query;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty())
      query += (query.empty() ? "?" : "&") + std::string(name) + "=" + net::percent_encode(value);
  };
  if (by) add("by", options.by);
  add("from", options.from);
  add("to", options.to);
  return query;
}

// "0.0021/frame": the whole row over what was done.
std::string unit_costs(const wire::CostRow& row) {
  std::string out;
  for (const auto& [unit, count] : row.units) {
    if (count <= 0) continue;
    const std::string one = unit.ends_with('s') ? unit.substr(0, unit.size() - 1) : unit;
    out +=
        (out.empty() ? "" : ", ") + text(Money{(row.cost.micros - row.credited.micros) / count}) + "/" + one;
  }
  return out.empty() ? "-" : out;
}

Table cost_table(const wire::CostReport& report) {
  Table table({{"WHAT"},
               {"COST", Align::kRight},
               {"CREDITED", Align::kRight},
               {"GPU-HOURS", Align::kRight},
               {"BUSY", Align::kRight},
               {"PAID BUT IDLE", Align::kRight},
               {"PER UNIT"}});
  for (const wire::CostRow& row : report.items) {
    table.add({row.what,
               text(row.cost),
               text(row.credited),
               hours_text(row.allocated_gpu_milliseconds / 1000),
               hours_text(row.used_gpu_milliseconds / 1000),
               std::to_string(row.idle_percent) + "%",
               unit_costs(row)});
  }
  table.add({"total", text(report.total), "", "", "", "", ""});
  return table;
}

std::string hours_of(std::int64_t milli_microseconds) {
  return hours_text(milli_microseconds / 1'000'000'000);
}

Table reconcile_table(const wire::Reconciliation& report) {
  Table table({{"DAY"},
               {"DEVICE"},
               {"NODE"},
               {"CLASS"},
               {"GPU-HOURS", Align::kRight},
               {"VRAM BYTE-US", Align::kRight, Show::kWide}});
  for (const wire::DeviceDay& day : report.items) {
    const std::string date = text(day.day).substr(0, 10);
    const std::string node = day.simulated ? day.node + " SIM" : day.node;
    for (const wire::ClassSum& one : day.classes)
      table.add({date,
                 text(day.device),
                 node,
                 wire::name_of(one.what),
                 hours_of(one.compute_milli_microseconds),
                 one.vram_byte_microseconds});
    table.add({date,
               text(day.device),
               node,
               day.exact ? "had (exact)" : "HAD, AND THE CLASSES DO NOT ADD UP",
               hours_of(day.compute_milli_microseconds),
               day.vram_byte_microseconds});
  }
  return table;
}

void add_reconcile(const Command& group, Program& program) {
  const auto options = std::make_shared<ReportOptions>();
  const Command& command = add_command(group,
                                       {"reconcile",
                                        "Where every second of each device went, by UTC day",
                                        "tranche cost reconcile\n"
                                        "tranche cost reconcile --from 2026-11-01 --to 2026-11-08 -o csv"});
  command.add_option("--device", options->party, "Only this one").type_name("DEVICE");
  command.add_option("--from", options->from, "First day; else today").type_name("DAY");
  command.add_option("--to", options->to, "The day after the last").type_name("DAY");
  command.callback([options, &program] {
    Session& session = program.session();
    std::string query = query_of(*options, false);
    if (!options->party.empty())
      query += (query.empty() ? "?device=" : "&device=") + path_segment(options->party);
    const auto answer = session.get<wire::Reconciliation>("/v1/reconciliation" + query);
    session.print(answer.body, {.table = [&] { return reconcile_table(answer.value); }});
    if (answer.value.inexact > 0)
      throw Failure(kOther, {std::to_string(answer.value.inexact) + " device-days do not add up"});
  });
}

void add_costs(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"cost", "What was spent, on what", "tranche cost show acme --by job"});
  const auto options = std::make_shared<ReportOptions>();
  const Command& show = add_command(group,
                                    {"show",
                                     "Costs at and below a party",
                                     "tranche cost show acme --by job --from 2026-11-01 --to 2026-12-01\n"
                                     "tranche cost show acme --by tag:team"});
  show.add_option("party", options->party, "Id or path; else --subscriber");
  show.add_option(
          "--by", options->by, "tenant, subscriber, user, job, model, kind, day, unit, tag or tag:NAME")
      .type_name("WHAT");
  show.add_option("--from", options->from, "First day; else this month's").type_name("DAY");
  show.add_option("--to", options->to, "The day after the last").type_name("DAY");
  show.callback([options, &program] {
    Session& session = program.session();
    const std::string party = session.party_or_default(options->party, "the party");
    const auto answer =
        session.get<wire::CostReport>("/v1/costs/" + path_segment(party) + query_of(*options, true));
    session.print(answer.body, {.table = [&] { return cost_table(answer.value); }});
  });
  const auto exported = std::make_shared<ReportOptions>();
  const auto focus = std::make_shared<bool>(false);
  const Command& out = add_command(
      group,
      {"export", "Costs as a table for finance tools", "tranche cost export acme --focus > november.csv"});
  out.add_option("party", exported->party, "Id or path; else --subscriber");
  out.add_flag("--focus", *focus, "FOCUS 1.2 with the columns of 1.3; the only form there is");
  out.add_option("--from", exported->from, "First day; else this month's").type_name("DAY");
  out.add_option("--to", exported->to, "The day after the last").type_name("DAY");
  out.callback([exported, &program] {
    Session& session = program.session();
    const std::string party = session.party_or_default(exported->party, "the party");
    const auto response =
        session.call({.path = "/v1/costs/" + path_segment(party) + "/focus" + query_of(*exported, false)});
    std::fputs(response.body.c_str(), stdout);
  });
  add_reconcile(group, program);
}

}  // namespace

void add_cost_commands(const Command& root, Program& program) {
  add_costs(root, program);
  add_invoice_commands(root, program);
}

}  // namespace tranche::cli
