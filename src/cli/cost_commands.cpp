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

// "0.0021/frame", "0.30/1M tokens": the whole row over what was done.
std::string unit_costs(const wire::CostRow& row) {
  constexpr Money kTellsLittle{10};  // Below it, one digit is left.
  std::string out;
  for (const auto& [unit, cost] : row.unit_cost) {
    const auto million = row.cost_per_million.find(unit);
    const std::string one = unit.ends_with('s') ? unit.substr(0, unit.size() - 1) : unit;
    const bool by_one = million == row.cost_per_million.end() || cost >= kTellsLittle;
    out +=
        (out.empty() ? "" : ", ") + (by_one ? text(cost) + "/" + one : text(million->second) + "/1M " + unit);
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
               {"SMALLER SLICE SAVES", Align::kRight},
               {"PER UNIT"}});
  for (const wire::CostRow& row : report.items) {
    table.add({row.what,
               text(row.cost),
               text(row.credited),
               hours_text(row.allocated_gpu_milliseconds / 1000),
               hours_text(row.used_gpu_milliseconds / 1000),
               std::to_string(row.idle_percent) + "%",
               row.smaller_slice_saves == Money{} ? "-" : std::to_string(row.smaller_slice_percent) + "%",
               unit_costs(row)});
  }
  const auto sum = [&](const std::string& what, Money amount, const std::string& saves) {
    table.add({what, text(amount), "", "", "", "", saves, ""});
  };
  sum("total", report.total, report.smaller_slice_saves == Money{} ? "" : text(report.smaller_slice_saves));
  if (report.forecast != Money{}) sum("forecast to " + local_time_text(report.to), report.forecast, "");
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
               {"BUSY", Align::kRight},
               {"VRAM BYTE-US", Align::kRight, Show::kWide}});
  for (const wire::DeviceDay& day : report.items) {
    const std::string date = text(day.day).substr(0, 10);
    const std::string node = day.simulated ? day.node + " SIM" : day.node;
    std::int64_t busy = 0;  // A device has as many nanoseconds as its thousandths have microseconds.
    for (const wire::ClassSum& one : day.classes) {
      busy += one.busy_nanoseconds;
      table.add({date,
                 text(day.device),
                 node,
                 wire::name_of(one.what),
                 hours_of(one.compute_milli_microseconds),
                 hours_of(one.busy_nanoseconds),
                 one.vram_byte_microseconds});
    }
    table.add({date,
               text(day.device),
               node,
               day.exact ? "had (exact)" : "HAD, AND THE CLASSES DO NOT ADD UP",
               hours_of(day.compute_milli_microseconds),
               hours_of(busy),
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

// The party that is asked about; else all that the caller may see the bill of.
std::string costs_path(Session& session, const ReportOptions& options) {
  std::string party = options.party.empty() ? session.target().subscriber : options.party;
  return "/v1/costs/" + path_segment(party.empty() ? "~" : party);
}

void show_costs(Session& session, const ReportOptions& options) {
  const auto answer = session.get<wire::CostReport>(costs_path(session, options) + query_of(options, true));
  session.print(answer.body, {.table = [&] { return cost_table(answer.value); }});
}

void add_report_flags(const Command& command, ReportOptions& options) {
  command.add_option("party", options.party, "Id or path; else --subscriber, else all that you may see");
  command
      .add_option(
          "--by", options.by, "tenant, subscriber, user, job, model, kind, day, unit, tag or tag:NAME")
      .type_name("WHAT");
  command.add_option("--from", options.from, "First day; else this month's").type_name("DAY");
  command.add_option("--to", options.to, "The day after the last").type_name("DAY");
}

void check_export(Session& session, const ReportOptions& options) {
  const std::string query = query_of(options, false);
  const auto answer = session.get<wire::FocusCheck>(costs_path(session, options) + "/focus" + query +
                                                    (query.empty() ? "?" : "&") + "check=true");
  const wire::FocusCheck& check = answer.value;
  session.print(answer.body, {.table = [&] {
                  Table table({{"ROWS", Align::kRight}, {"INVOICES ADDED UP", Align::kRight}, {"PROBLEM"}});
                  const auto row = [&](const std::string& problem) {
                    table.add({std::to_string(check.rows), std::to_string(check.invoices), problem});
                  };
                  for (const std::string& problem : check.problems) row(problem);
                  if (check.problems.empty()) row("none");
                  return table;
                }});
  if (!check.problems.empty()) throw Failure(kOther, {"the table does not conform to FOCUS 1.2"});
}

void add_export(const Command& group, Program& program) {
  struct Options {
    ReportOptions report{};
    bool focus = false, check = false;
  };
  const auto options = std::make_shared<Options>();
  const Command& out = add_command(group,
                                   {"export",
                                    "Costs as a table for finance tools",
                                    "tranche cost export acme --focus > november.csv\n"
                                    "tranche cost export acme --from 2026-11-01 --to 2026-12-01 --check"});
  out.add_option("party", options->report.party, "Id or path; else --subscriber, else all that you may see");
  out.add_flag("--focus", options->focus, "FOCUS 1.2 with the columns of 1.3; the only form there is");
  out.add_option("--from", options->report.from, "First day; else this month's").type_name("DAY");
  out.add_option("--to", options->report.to, "The day after the last").type_name("DAY");
  out.add_flag("--check", options->check, "Check it against the columns of FOCUS 1.2 instead of printing it");
  out.callback([options, &program] {
    Session& session = program.session();
    if (options->check) return check_export(session, options->report);
    const auto response = session.call(
        {.path = costs_path(session, options->report) + "/focus" + query_of(options->report, false)});
    std::fputs(response.body.c_str(), stdout);
  });
}

void add_costs(const Command& root, Program& program) {
  const auto top = std::make_shared<ReportOptions>();
  const Command& group = add_command(root,
                                     {"cost",
                                      "What was spent, on what",
                                      "tranche cost --by tenant\n"
                                      "tranche cost show acme --by job --from 2026-11-01 --to 2026-12-01"});
  group.add_option("--by", top->by, "tenant, subscriber, user, job, model, kind, day, unit, tag or tag:NAME")
      .type_name("WHAT");
  group.add_option("--from", top->from, "First day; else this month's").type_name("DAY");
  group.add_option("--to", top->to, "The day after the last").type_name("DAY");
  group.callback([top, group, &program] {
    if (!group.subcommand_given()) show_costs(program.session(), *top);
  });
  const auto options = std::make_shared<ReportOptions>();
  const Command& show = add_command(group,
                                    {"show",
                                     "Costs at and below a party",
                                     "tranche cost show acme --by job --from 2026-11-01 --to 2026-12-01\n"
                                     "tranche cost show acme --by tag:team"});
  add_report_flags(show, *options);
  show.callback([options, &program] { show_costs(program.session(), *options); });
  add_export(group, program);
  add_reconcile(group, program);
}

}  // namespace

void add_cost_commands(const Command& root, Program& program) {
  add_costs(root, program);
  add_invoice_commands(root, program);
}

}  // namespace tranche::cli
