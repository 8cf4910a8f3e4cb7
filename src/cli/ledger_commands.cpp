// SPDX-License-Identifier: Apache-2.0
// ledger: accounts, entries and holds, for the operator.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"
#include "wire/api_ledger.hpp"

namespace tranche::cli {
namespace {

using wire::PostingView;

Money amount_value(const std::string& option, const std::string& given) {
  if (const auto amount = parse_money(given)) return *amount;
  throw usage_failure(option + " takes an amount such as 12.50 or -12.50, not '" + given + "'");
}

Table posting_table(const std::vector<PostingView>& postings) {
  Table table(
      {{"POSTING"}, {"AT"}, {"PARTY"}, {"ACCOUNT"}, {"AMOUNT", Align::kRight}, {"MEMO"}, {"REVERSED BY"}});
  for (const PostingView& one : postings)
    for (const wire::LegBody& leg : one.legs)
      table.add({one.id,
                 local_time_text(one.at),
                 leg.party,
                 leg.kind,
                 text(leg.amount),
                 one.memo,
                 one.reversed_by.empty() ? "-" : one.reversed_by});
  return table;
}

void print(Session& session, const Answer<PostingView>& answer) {
  session.print(answer.body,
                {.table = [&] { return posting_table({answer.value}); },
                 .names = [&] { return answer.value.id + "\n"; }});
}

void add_accounts(const Command& group, Program& program) {
  add_command(group, {"accounts", "Every account; the balances add up to zero", "tranche ledger accounts"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<wire::LedgerAccounts>("/v1/ledger/accounts");
        session.print(answer.body, {.table = [&] {
                        Table table({{"PARTY"},
                                     {"ACCOUNT"},
                                     {"BALANCE", Align::kRight},
                                     {"HELD", Align::kRight},
                                     {"MAY GO BELOW ZERO", Align::kRight},
                                     {"CURRENCY"}});
                        for (const wire::LedgerAccountView& one : answer.value.items)
                          table.add({one.party,
                                     one.kind,
                                     text(one.balance),
                                     text(one.held),
                                     one.bounded ? text(one.overdraft) : "any",
                                     one.currency});
                        table.add({"sum", "", text(answer.value.sum), "", "", ""});
                        return table;
                      }});
      });
}

// "acme=12.50", "platform/revenue=-12.50": an account, and what it gets.
wire::LegBody leg_of(const std::string& given) {
  const std::size_t sign = given.rfind('=');
  if (sign == std::string::npos)
    throw usage_failure("a leg is PARTY=AMOUNT or PARTY:KIND=AMOUNT, not '" + given + "'");
  wire::LegBody leg{.party = given.substr(0, sign), .amount = amount_value("a leg", given.substr(sign + 1))};
  if (const std::size_t colon = leg.party.rfind(':'); colon != std::string::npos) {
    leg.kind = leg.party.substr(colon + 1);
    leg.party.resize(colon);
  }
  return leg;
}

void add_postings(const Command& group, Program& program) {
  add_command(group, {"postings", "Entries that people made, newest first", "tranche ledger postings"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<wire::PostingList>("/v1/ledger/postings");
        session.print(answer.body, {.table = [&] { return posting_table(answer.value.items); }});
      });
  struct Options {
    std::vector<std::string> legs{};
    std::string memo{}, reference{}, posting{};
  };
  const auto entry = std::make_shared<Options>();
  const Command& post = add_command(
      group,
      {"post",
       "Make an entry whose legs add up to zero",
       "tranche ledger post acme=5 platform:revenue=-5 --memo \"goodwill, ticket 4711\" --reference T-4711"});
  post.add_option("leg", entry->legs, "PARTY=AMOUNT or PARTY:KIND=AMOUNT; two or more")
      .required()
      .expected(2, 64);
  post.add_option("--memo", entry->memo, "Why").required().type_name("TEXT");
  post.add_option("--reference", entry->reference, "Of a document; the same one counts once")
      .type_name("TEXT");
  post.callback([entry, &program] {
    wire::PostingBody body{.memo = entry->memo, .reference = entry->reference};
    for (const std::string& leg : entry->legs) body.legs.push_back(leg_of(leg));
    Session& session = program.session();
    print(session,
          session.ask<PostingView>(
              {.method = "POST", .path = "/v1/ledger/postings", .body = wire::to_json(body)}));
  });
  const auto wrong = std::make_shared<Options>();
  const Command& reverse = add_command(group,
                                       {"reverse",
                                        "Take an entry back by a second one",
                                        "tranche ledger reverse pst_000004 --memo \"wrong tenant\""});
  reverse.add_option("posting", wrong->posting, "Its id").required();
  reverse.add_option("--memo", wrong->memo, "Why").required().type_name("TEXT");
  reverse.callback([wrong, &program] {
    Session& session = program.session();
    print(
        session,
        session.ask<PostingView>({.method = "POST",
                                  .path = "/v1/ledger/postings/" + path_segment(wrong->posting) + "/reverse",
                                  .body = wire::to_json(wire::ReverseBody{wrong->memo})}));
  });
}

Table hold_table(const std::vector<wire::HoldView>& holds) {
  Table table({{"HOLD"}, {"PARTY"}, {"AMOUNT", Align::kRight}, {"EXPIRES"}, {"PURPOSE"}});
  for (const wire::HoldView& one : holds)
    table.add({one.id,
               one.party,
               text(one.amount),
               one.expires ? local_time_text(*one.expires) : "never",
               one.purpose.empty() ? "-" : one.purpose});
  return table;
}

void add_holds(const Command& group, Program& program) {
  add_command(group, {"holds", "Money set aside by people", "tranche ledger holds"}).callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<wire::HoldList>("/v1/ledger/holds");
    session.print(answer.body, {.table = [&] { return hold_table(answer.value.items); }});
  });
  struct Options {
    std::string party{}, amount{}, length{}, purpose{}, hold{}, captured{};
  };
  const auto wanted = std::make_shared<Options>();
  const Command& hold =
      add_command(group,
                  {"hold",
                   "Set credit of a party aside",
                   "tranche ledger hold acme 100 --for 24h --purpose \"support contract\""});
  hold.add_option("party", wanted->party, "Id or path").required();
  hold.add_option("amount", wanted->amount, "How much").required();
  hold.add_option("--for", wanted->length, "It ends by itself then; else never").type_name("DURATION");
  hold.add_option("--purpose", wanted->purpose, "What for").type_name("TEXT");
  hold.callback([wanted, &program] {
    const wire::HoldBody body{.party = wanted->party,
                              .amount = amount_value("amount", wanted->amount),
                              .expires_in = length_value("--for", wanted->length),
                              .purpose = wanted->purpose};
    Session& session = program.session();
    const auto answer = session.ask<wire::HoldView>(
        {.method = "POST", .path = "/v1/ledger/holds", .body = wire::to_json(body)});
    session.print(answer.body,
                  {.table = [&] { return hold_table({answer.value}); },
                   .names = [&] { return answer.value.id + "\n"; }});
  });
  const auto ended = std::make_shared<Options>();
  const Command& release = add_command(group,
                                       {"release",
                                        "End a hold; with --capture a part of it is paid to the platform",
                                        "tranche ledger release hold_000001\n"
                                        "tranche ledger release hold_000001 --capture 40"});
  release.add_option("hold", ended->hold, "Its id").required();
  release.add_option("--capture", ended->captured, "What is paid of it; the rest is free again")
      .type_name("AMOUNT");
  release.callback([ended, &program] {
    wire::EndHoldBody body;
    if (!ended->captured.empty()) body.captured = amount_value("--capture", ended->captured);
    Session& session = program.session();
    session.call({.method = "POST",
                  .path = "/v1/ledger/holds/" + path_segment(ended->hold) + "/end",
                  .body = wire::to_json(body)});
    session.say("ended " + ended->hold);
  });
}

}  // namespace

void add_ledger_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"ledger", "Accounts, entries and holds", "tranche ledger accounts"});
  add_accounts(group, program);
  add_postings(group, program);
  add_holds(group, program);
}

}  // namespace tranche::cli
