// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every group of client commands, each in a file of its own. None of them needs more than a session.
#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/session.hpp"

namespace tranche::cli {

// What all commands of one run share: flags before parsing, the session after it.
class Program {
 public:
  explicit Program(Environment environment) : environment_(std::move(environment)) {}
  GlobalFlags flags{};
  std::string version{};  // Of this build.
  Session& session();     // Made when first asked for, by the command that runs.
  [[nodiscard]] bool may_colour_errors() const;

 private:
  Environment environment_;
  std::unique_ptr<Session> session_;
};

void add_global_flags(const Command& root, Program& program);

void add_login_commands(const Command& root, Program& program);  // login, logout, whoami, context
void add_party_commands(const Command& root, Program& program);  // tenant, subscriber, user, service-account
void add_role_commands(const Command& root, Program& program);   // role
void add_token_commands(const Command& root, Program& program);  // token
void add_quota_commands(const Command& root, Program& program);  // quota
void add_rules_commands(const Command& root, Program& program);  // rules
void add_platform_commands(const Command& root, Program& program);  // sku, settings
void add_market_commands(const Command& root, Program& program);    // market
void add_money_commands(const Command& root, Program& program);  // account, ledger, price, tax, cost, invoice
void add_run_command(const Command& root, Program& program);     // run, sbatch
void add_job_commands(const Command& root, Program& program);    // ps, show, stop, release
void add_log_commands(const Command& root, Program& program);    // logs, wait
void add_results_command(const Command& root, Program& program);     // results
void add_service_commands(const Command& root, Program& program);    // serve, service
void add_exec_commands(const Command& root, Program& program);       // exec, cp
void add_level_commands(const Command& root, Program& program);      // level
void add_forecast_commands(const Command& root, Program& program);   // forecast
void add_margin_commands(const Command& root, Program& program);     // margin
void add_recurring_commands(const Command& root, Program& program);  // recurring
void add_sell_commands(const Command& market, Program& program);     // market sell, market recurring
void add_buy_commands(const Command& market, Program& program);
void add_market_rules_commands(const Command& market, Program& program);
void add_market_data_commands(const Command& market, Program& program);  // market watch, market earnings
void add_cost_commands(const Command& root, Program& program);           // cost
void add_price_commands(const Command& root, Program& program);          // price
void add_tax_commands(const Command& root, Program& program);            // tax
void add_ledger_commands(const Command& root, Program& program);         // ledger
void add_invoice_commands(const Command& root, Program& program);        // invoice
void add_shell_command(const Command& root, Program& program);           // shell
void add_node_commands(const Command& root, Program& program);           // node, gpus
void add_book_commands(const Command& root, Program& program);           // book, maintenance
void add_health_commands(const Command& root, Program& program);         // health, repair, receipts
void add_why_command(const Command& root, Program& program);             // why
void add_event_commands(const Command& root, Program& program);          // events
void add_doctor_command(const Command& root, Program& program);          // doctor
void add_completion_command(const Command& root, Program& program);      // completion
void add_help_command(const Command& root, Program& program);            // help
void add_notebook_command(const Command& root, Program& program);        // notebook

// Parses, runs the command, reports what goes wrong; the exit code.
int parse_and_run(const Command& root, Program& program, int argc, char** argv);

// All of the above; commands that need other rooms are added by app/main.cpp.
void add_client_commands(const Command& root, Program& program);
// Only the group in which `word` is a command: hundreds of options take longer to declare than most commands
// to run. False: there is no such group.
bool add_client_commands_of(std::string_view word, const Command& root, Program& program);

}  // namespace tranche::cli
