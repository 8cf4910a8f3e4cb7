// SPDX-License-Identifier: Apache-2.0
// account: what there is to spend.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "wire/api_ledger.hpp"
#include "wire/api_money.hpp"

namespace tranche::cli {
namespace {

using wire::AccountView;

Money money_value(const std::string& option, const std::string& given) {
  if (const auto amount = parse_money(given)) return *amount;
  throw usage_failure(
      option + " takes an amount such as 12.50, with at most six decimals and below 9 trillion, not '" +
      given + "'");
}

void print(Session& session, const Answer<AccountView>& answer) {
  const AccountView& one = answer.value;
  session.print(answer.body, {.table = [&] {
                  Table table({{"PARTY"},
                               {"CREDIT", Align::kRight},
                               {"HELD", Align::kRight},
                               {"AVAILABLE", Align::kRight},
                               {"EARNED", Align::kRight},
                               {"SPENT THIS MONTH", Align::kRight},
                               {"OWED", Align::kRight},
                               {"PAYS"},
                               {"CURRENCY"}});
                  table.add({one.party,
                             text(one.credit),
                             text(one.held),
                             text(one.available),
                             text(one.payable),
                             text(one.spent_this_month),
                             text(one.owed),
                             !one.by_invoice ? "from credit"
                             : one.owe_limit ? "by invoice, up to " + text(*one.owe_limit)
                                             : "by invoice",
                             one.currency});
                  return table;
                }});
}

void add_owe_limit(const Command& group, Program& program) {
  struct Options {
    std::string party{}, amount{};
  };
  const auto options = std::make_shared<Options>();
  const Command& limit =
      add_command(group,
                  {"owe-limit",
                   "How much may be owed by invoice; beyond that nothing starts",
                   "tranche account owe-limit acme 5000\ntranche account owe-limit acme none"});
  limit.add_option("party", options->party, "Id or path").required();
  limit.add_option("amount", options->amount, "How much, or none").required();
  limit.callback([options, &program] {
    wire::OweLimitBody body;
    if (options->amount != "none") body.limit = money_value("amount", options->amount);
    Session& session = program.session();
    print(session,
          session.ask<AccountView>({.method = "PUT",
                                    .path = "/v1/accounts/" + path_segment(options->party) + "/owe-limit",
                                    .body = wire::to_json(body)}));
  });
}

void add_accounts(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"account", "Credit of a party, and what is set aside", "tranche account show acme"});
  const auto party = std::make_shared<std::string>();
  const Command& show = add_command(group, {"show", "Balance and holds", "tranche account show acme"});
  show.add_option("party", *party, "Id or path; else --subscriber");
  show.callback([party, &program] {
    Session& session = program.session();
    print(session,
          session.get<AccountView>("/v1/accounts/" +
                                   path_segment(session.party_or_default(*party, "the party"))));
  });
  struct TopUp {
    std::string party{}, amount{}, reference{}, memo{};
  };
  const auto paid = std::make_shared<TopUp>();
  const Command& top_up = add_command(
      group, {"top-up", "Money came in", "tranche account top-up acme 500 --reference 'bank transfer 4711'"});
  top_up.add_option("party", paid->party, "Id or path").required();
  top_up.add_option("amount", paid->amount, "How much").required();
  top_up.add_option("--reference", paid->reference, "Of the payment; the same one counts once")
      .type_name("TEXT");
  top_up.add_option("--memo", paid->memo, "A word about it").type_name("TEXT");
  top_up.callback([paid, &program] {
    Session& session = program.session();
    const wire::TopUpBody body{money_value("amount", paid->amount), paid->reference, paid->memo};
    print(session,
          session.ask<AccountView>({.method = "POST",
                                    .path = "/v1/accounts/" + path_segment(paid->party) + "/top-up",
                                    .body = wire::to_json(body)}));
  });
  add_owe_limit(group, program);
  const auto line = std::make_shared<TopUp>();
  const Command& overdraft = add_command(
      group, {"overdraft", "How far below zero it may go", "tranche account overdraft acme 1000"});
  overdraft.add_option("party", line->party, "Id or path").required();
  overdraft.add_option("amount", line->amount, "How far").required();
  overdraft.callback([line, &program] {
    Session& session = program.session();
    const wire::OverdraftBody body{money_value("amount", line->amount)};
    print(session,
          session.ask<AccountView>({.method = "PUT",
                                    .path = "/v1/accounts/" + path_segment(line->party) + "/overdraft",
                                    .body = wire::to_json(body)}));
  });
}

}  // namespace

void add_money_commands(const Command& root, Program& program) {
  add_accounts(root, program);
  add_ledger_commands(root, program);
  add_price_commands(root, program);
  add_tax_commands(root, program);
  add_cost_commands(root, program);
}

}  // namespace tranche::cli
