// SPDX-License-Identifier: Apache-2.0
// account, price: what there is to spend, and what things cost.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "net/http.hpp"
#include "wire/api_money.hpp"

namespace tranche::cli {
namespace {

using wire::AccountView;
using wire::PriceList;

Money money_value(const std::string& option, const std::string& given) {
  if (const auto amount = parse_money(given)) return *amount;
  throw usage_failure(option + " takes an amount such as 12.50, not '" + given + "'");
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
                             one.by_invoice ? "by invoice" : "from credit",
                             one.currency});
                  return table;
                }});
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

Table price_table(const std::vector<PriceList>& lists) {
  Table table({{"LIST"},
               {"VALID FROM"},
               {"RULE"},
               {"MODEL"},
               {"GPU-HOUR", Align::kRight},
               {"GIB-HOUR", Align::kRight},
               {"CHARGED ON"}});
  for (const PriceList& list : lists) {
    for (const wire::PriceRule& rule : list.rules) {
      if (rule.storage_gib_hour) {
        table.add({list.name,
                   local_time_text(list.valid_from),
                   rule.name,
                   rule.shape.empty() ? "volumes" : rule.shape + " volumes",
                   "",
                   text(*rule.storage_gib_hour),
                   "size"});
        continue;
      }
      std::string basis(wire::name_of(rule.basis));
      if (rule.basis == wire::ChargeBasis::kMixed) basis += ' ' + std::to_string(rule.used_percent) + '%';
      table.add({list.name,
                 local_time_text(list.valid_from),
                 rule.name,
                 rule.model.empty() ? "any" : rule.model,
                 text(rule.gpu_hour),
                 "",
                 basis});
    }
  }
  return table;
}

void add_prices(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"price", "What an hour of a device or of storage costs", "tranche price list"});
  add_command(group, {"list", "Price lists, those to come included", "tranche price list"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<wire::PriceListBook>("/v1/prices");
        session.print(answer.body, {.table = [&] { return price_table(answer.value.items); }});
      });
  struct Options {
    std::string name{}, from{}, model{}, gpu_hour{}, basis{}, storage{}, shared_storage{};
    std::uint32_t used_percent = 0;
  };
  const auto options = std::make_shared<Options>();
  const Command& set =
      add_command(group,
                  {"set",
                   "Set a price list of one rule for devices, and of storage; the API takes longer ones",
                   "tranche price set 2026 --gpu-hour 2.40 --storage-gib-hour 0.0002\n"
                   "tranche price set 2027 --model H100 --gpu-hour 2.10 --from 2027-01-01T00:00:00Z "
                   "--charge mixed --used-percent 40"});
  set.add_option("name", options->name, "Of the list").required();
  set.add_option("--gpu-hour", options->gpu_hour, "Price of a whole device").required().type_name("AMOUNT");
  set.add_option("--storage-gib-hour", options->storage, "Price of keeping a GiB in a volume; else free")
      .type_name("AMOUNT");
  set.add_option("--shared-gib-hour", options->shared_storage, "The same of shared volumes, where it differs")
      .type_name("AMOUNT");
  set.add_option("--model", options->model, "For this model alone").type_name("MODEL");
  set.add_option("--from", options->from, "When it begins to hold; else now").type_name("TIME");
  set.add_option("--charge", options->basis, "allocated, used or mixed").type_name("BASIS");
  set.add_option("--used-percent", options->used_percent, "Of a mixed price: the part by use")
      .type_name("PERCENT");
  set.callback([options, &program] {
    PriceList list{.name = options->name, .rules = {{.name = options->name, .model = options->model}}};
    list.rules[0].gpu_hour = money_value("--gpu-hour", options->gpu_hour);
    list.rules[0].used_percent = options->used_percent;
    if (!options->basis.empty())
      list.rules[0].basis = enum_value<wire::ChargeBasis>("--charge", options->basis);
    if (!options->from.empty()) {
      const auto at = parse_instant(options->from);
      if (!at) throw usage_failure("--from takes a time such as 2027-01-01T00:00:00Z");
      list.valid_from = *at;
    }
    const auto add_storage = [&](const char* flag, const std::string& price, const char* backend) {
      if (price.empty()) return;
      wire::PriceRule rule{.name = "storage", .shape = backend};
      rule.storage_gib_hour = money_value(flag, price);
      list.rules.push_back(std::move(rule));
    };
    add_storage("--shared-gib-hour", options->shared_storage, "shared");  // The first that fits holds.
    add_storage("--storage-gib-hour", options->storage, "");
    Session& session = program.session();
    const auto answer =
        session.ask<PriceList>({.method = "PUT", .path = "/v1/prices", .body = wire::to_json(list)});
    session.print(answer.body, {.table = [&] { return price_table({answer.value}); }});
  });
}

}  // namespace

void add_money_commands(const Command& root, Program& program) {
  add_accounts(root, program);
  add_prices(root, program);
  add_cost_commands(root, program);
}

}  // namespace tranche::cli
