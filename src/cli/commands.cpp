// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.hpp"

#include <algorithm>
#include <array>
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
  root.add_option("--use", flags.context, "Context to use, instead of the current one").type_name("NAME");
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

namespace {

// Commands by the first word that a person types. What names the whole tree is not here.
struct CommandGroup {
  std::string_view names{};  // With a space between them.
  void (*add)(const Command& root, Program& program) = nullptr;
};
constexpr std::array kGroups{
    CommandGroup{"login logout whoami context", add_login_commands},
    CommandGroup{"run sbatch", add_run_command},
    CommandGroup{"ps show stop pause resume release", add_job_commands},
    CommandGroup{"why", add_why_command},
    CommandGroup{"logs wait", add_log_commands},
    CommandGroup{"results", add_results_command},
    CommandGroup{"serve service", add_service_commands},
    CommandGroup{"exec cp", add_exec_commands},
    CommandGroup{"shell", add_shell_command},
    CommandGroup{"notebook", add_notebook_command},
    CommandGroup{"recurring", add_recurring_commands},
    CommandGroup{"level", add_level_commands},
    CommandGroup{"forecast", add_forecast_commands},
    CommandGroup{"node gpus", add_node_commands},
    CommandGroup{"book maintenance", add_book_commands},
    CommandGroup{"health repair receipts", add_health_commands},
    CommandGroup{"top", add_top_command},
    CommandGroup{"behaviour", add_behaviour_command},
    CommandGroup{"volume", add_volume_commands},
    CommandGroup{"events", add_event_commands},
    CommandGroup{"tenant subscriber user service-account", add_party_commands},
    CommandGroup{"role", add_role_commands},
    CommandGroup{"token", add_token_commands},
    CommandGroup{"quota", add_quota_commands},
    CommandGroup{"rules", add_rules_commands},
    CommandGroup{"sku settings", add_platform_commands},
    CommandGroup{"market", add_market_commands},
    CommandGroup{"account ledger price tax cost invoice", add_money_commands},
    CommandGroup{"margin", add_margin_commands},
    CommandGroup{"doctor", add_doctor_command},
};

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

bool add_client_commands_of(std::string_view word, const Command& root, Program& program) {
  const auto* const group = std::find_if(
      kGroups.begin(), kGroups.end(), [&](const CommandGroup& one) { return has_word(one.names, word); });
  if (group == kGroups.end()) return false;
  group->add(root, program);
  return true;
}

void add_client_commands(const Command& root, Program& program) {
  for (const CommandGroup& group : kGroups) group.add(root, program);
  add_completion_command(root, program);
  add_help_command(root, program);
}

}  // namespace tranche::cli
