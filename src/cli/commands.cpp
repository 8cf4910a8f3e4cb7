// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.hpp"

#include <malloc.h>

#include "cli/command.hpp"
#include "cli/fleet_commands.hpp"
#include "cli/terminal.hpp"

namespace tranche::cli {

Session& Program::session() {
  if (!session_) {
    end_on_interrupt();
    // Long lists are read once and printed: memory that was faulted in is used again, not given back.
    ::mallopt(M_MMAP_THRESHOLD, 256 * 1024 * 1024);
    ::mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024);
    ::mallopt(M_TOP_PAD, 1024 * 1024);
    session_ = std::make_unique<Session>(flags, environment_);
  }
  return *session_;
}

bool Program::may_colour_errors() const {
  return !flags.no_color && environment_.no_color.empty() && stderr_is_terminal();
}

void add_global_flags(const Command& root, Program& program) {
  GlobalFlags& flags = program.flags;
  root.add_option("-o,--output", flags.output, "table, wide, json, jsonl, yaml, csv or name")
      .type_name("FORM");
  root.add_option("--server", flags.server, "Address of the server, instead of the context's")
      .type_name("URL");
  root.add_option("--context", flags.context, "Context to use, instead of the current one").type_name("NAME");
  root.add_option("--subscriber", flags.subscriber, "Party to act for where none is given")
      .type_name("PARTY");
  root.add_option("--idempotency-key", flags.idempotency_key, "Repeats with the same key take effect once")
      .type_name("KEY");
  root.add_flag("--no-color", flags.no_color, "No colours; the variable NO_COLOR does the same");
  root.add_flag("-q,--quiet", flags.quiet, "Data and errors, no talk");
  root.add_flag("-v,--verbose", flags.verbose, "Show each request, its status and how long it took");
  root.add_flag("-y,--yes", flags.yes, "Do not ask before what cannot be undone");
  root.add_flag("--explain-api", flags.explain_api, "Print the curl equivalent instead of calling");
}

void add_client_commands(const Command& root, Program& program) {
  add_login_commands(root, program);
  add_run_command(root, program);
  add_job_commands(root, program);
  add_why_command(root, program);
  add_log_commands(root, program);
  add_results_command(root, program);
  add_service_commands(root, program);
  add_exec_commands(root, program);
  add_shell_command(root, program);
  add_recurring_commands(root, program);
  add_level_commands(root, program);
  add_forecast_commands(root, program);
  add_node_commands(root, program);
  add_book_commands(root, program);
  add_health_commands(root, program);
  add_top_command(root, program);
  add_behaviour_command(root, program);
  add_volume_commands(root, program);
  add_event_commands(root, program);
  add_party_commands(root, program);
  add_role_commands(root, program);
  add_token_commands(root, program);
  add_quota_commands(root, program);
  add_rules_commands(root, program);
  add_platform_commands(root, program);
  add_market_commands(root, program);
  add_money_commands(root, program);
  add_margin_commands(root, program);
  add_doctor_command(root, program);
  add_completion_command(root, program);
  add_help_command(root, program);
}

}  // namespace tranche::cli
