// SPDX-License-Identifier: Apache-2.0
// market: sell idle capacity, buy what is needed, see what is traded.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"
#include "net/http.hpp"
#include "wire/api_market.hpp"

namespace tranche::cli {
namespace {

void add_lists(const Command& group, Program& program) {
  add_command(group, {"orders", "Orders of yours that rest", "tranche market orders"}).callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<wire::OrderList>("/v1/market/orders");
    session.print(answer.body, {.table = [&] {
                    Table table({{"ORDER"},
                                 {"PARTY"},
                                 {"GPU"},
                                 {"SIDE"},
                                 {"PRICE/H", Align::kRight},
                                 {"OPEN", Align::kRight},
                                 {"FROM"},
                                 {"TO"},
                                 {"HELD", Align::kRight},
                                 {"TIF"}});
                    for (const auto& one : answer.value.items) {
                      table.add({one.id,
                                 one.party,
                                 one.gpus,
                                 std::string(wire::name_of(one.side)),
                                 text(one.hourly),
                                 gpus_text(one.milli_open),
                                 local_time_text(one.from),
                                 local_time_text(one.to),
                                 text(one.held),
                                 one.quoted ? "quoted" : std::string(wire::name_of(one.life))});
                    }
                    return table;
                  }});
  });
  add_command(group, {"contracts", "What was bought and sold", "tranche market contracts"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<wire::ContractList>("/v1/market/contracts");
        session.print(answer.body, {.table = [&] {
                        Table table({{"CONTRACT"},
                                     {"ROLE"},
                                     {"PARTY"},
                                     {"STATE"},
                                     {"GPU"},
                                     {"COUNT", Align::kRight},
                                     {"FROM"},
                                     {"TO"},
                                     {"VALUE", Align::kRight},
                                     {"EARNED", Align::kRight},
                                     {"REFUNDED", Align::kRight},
                                     {"SELLER DELIVERS", Align::kRight},
                                     {"WITH"}});
                        for (const auto& one : answer.value.items) {
                          table.add({one.id,
                                     one.role,
                                     one.party,
                                     one.state,
                                     one.gpus,
                                     gpus_text(one.milli),
                                     local_time_text(one.from),
                                     local_time_text(one.to),
                                     text(one.value),
                                     text(one.earned),
                                     text(one.refunded),
                                     permille_text(one.seller_delivers),
                                     one.counterparty.empty() ? "-" : one.counterparty});
                        }
                        return table;
                      }});
      });
  const Command books = add_command(group, {"book", "What is traded, and at what", "tranche market book"});
  books.also("books");
  books.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<wire::BookList>("/v1/market/books");
    session.print(answer.body, {.table = [&] {
                    Table table({{"BOOK", Align::kRight},
                                 {"MODEL"},
                                 {"SHAPE"},
                                 {"REGION"},
                                 {"ISOLATION"},
                                 {"LAST/H", Align::kRight},
                                 {"OPEN", Align::kRight},
                                 {"HIGH", Align::kRight},
                                 {"LOW", Align::kRight}});
                    const auto price = [](Money hourly) { return hourly == Money{} ? "-" : text(hourly); };
                    for (const auto& one : answer.value.items) {
                      table.add({std::to_string(one.book),
                                 one.instrument.model,
                                 one.instrument.shape.empty() ? "-" : one.instrument.shape,
                                 one.instrument.region.empty() ? "-" : one.instrument.region,
                                 std::string(wire::name_of(one.instrument.isolation)),
                                 price(one.last),
                                 price(one.day_open),
                                 price(one.day_high),
                                 price(one.day_low)});
                    }
                    return table;
                  }});
  });
  add_command(group, {"fills", "What was traded last", "tranche market fills"}).callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<wire::FillList>("/v1/market/fills");
    session.print(answer.body, {.table = [&] {
                    Table table({{"AT"},
                                 {"BOOK", Align::kRight},
                                 {"PRICE/H", Align::kRight},
                                 {"GPUS", Align::kRight},
                                 {"FROM"},
                                 {"TO"}});
                    for (const auto& one : answer.value.items) {
                      table.add({local_time_text(one.at),
                                 std::to_string(one.book),
                                 text(one.hourly),
                                 gpus_text(one.milli),
                                 local_time_text(one.from),
                                 local_time_text(one.to)});
                    }
                    return table;
                  }});
  });
}

void add_depth(const Command& group, Program& program) {
  const auto book = std::make_shared<std::string>();
  const auto at = std::make_shared<std::string>();
  const Command& depth =
      add_command(group, {"depth", "Bids and asks of a slot, by price", "tranche market depth 1"});
  depth.add_option("book", *book, "Number of the book").required();
  depth.add_option("--at", *at, "A time in the slot; else now").type_name("TIME");
  depth.callback([book, at, &program] {
    Session& session = program.session();
    const auto answer = session.get<wire::DepthView>("/v1/market/books/" + path_segment(*book) + "/depth" +
                                                     (at->empty() ? "" : "?at=" + net::percent_encode(*at)));
    session.print(
        answer.body, {.table = [&] {
          Table table(
              {{"SIDE"}, {"PRICE/H", Align::kRight}, {"GPUS", Align::kRight}, {"ORDERS", Align::kRight}});
          const auto add = [&](const char* side, const std::vector<wire::DepthLevel>& levels) {
            for (const auto& one : levels)
              table.add({side, text(one.hourly), gpus_text(one.milli), std::to_string(one.orders)});
          };
          add("ask", answer.value.asks);
          add("bid", answer.value.bids);
          return table;
        }});
    if (answer.value.asks.empty() && answer.value.bids.empty())
      session.say("nobody offers or bids in the slot of " + local_time_text(answer.value.slot) +
                  "; --at TIME looks at another");
  });
}

void add_changes(const Command& group, Program& program) {
  const auto id = std::make_shared<std::string>();
  const Command& cancel =
      add_command(group,
                  {"cancel",
                   "Cancel what is open of an order, a quote, or the rest of what is sold again and again",
                   "tranche market cancel ord_000001\ntranche market cancel lst_000001"});
  cancel.add_option("order", *id, "An order (ord_…), a quote (quo_…) or a recurring listing (lst_…)")
      .required();
  cancel.callback([id, &program] {
    Session& session = program.session();
    if (id->starts_with("ctr_"))
      throw usage_failure("a contract binds both sides; sell on what is not needed",
                          "tranche market sell " + *id + " --for 2h --price 1.90/h, or without money back: " +
                              "tranche market release " + *id);
    const std::string kind = id->starts_with("lst_")   ? "recurring/"
                             : id->starts_with("quo_") ? "quotes/"
                                                       : "orders/";
    session.call({.method = "DELETE", .path = "/v1/market/" + kind + path_segment(*id)});
    session.say("cancelled " + *id);
  });
  const auto contract = [&](const char* verb, const char* about) {
    const auto given = std::make_shared<std::string>();
    const Command& command =
        add_command(group, {verb, about, std::string("tranche market ") + verb + " ctr_000001"});
    command.add_option("contract", *given, "Its id").required();
    command.callback([given, verb, &program] {
      Session& session = program.session();
      session.call({.method = "POST",
                    .path = "/v1/market/contracts/" + path_segment(*given) + "/" + verb,
                    .body = "{}"});
      session.say(std::string(verb) + ": " + *given);
    });
  };
  contract("interrupt", "The capacity behind a contract is gone");
  contract("resume", "The capacity behind a contract is back");
  contract("release", "You need no more of what you bought: its price is settled at once");
  const auto body = std::make_shared<std::array<std::string, 4>>();
  const Command& certify = add_command(group,
                                       {"certify",
                                        "Let a device that passed its test be offered",
                                        "tranche market certify gpu_000001 --owner acme --model H100"});
  certify.add_option("device", (*body)[0], "Its id").required();
  certify.add_option("--owner", (*body)[1], "Whose it is").required().type_name("PARTY");
  certify.add_option("--model", (*body)[2], "What it is").required().type_name("MODEL");
  certify.add_option("--region", (*body)[3], "Where it is").type_name("REGION");
  certify.callback([body, &program] {
    const auto device = parse_id("gpu_", (*body)[0]);
    if (!device) throw usage_failure("a device is an id such as gpu_000001, not '" + (*body)[0] + "'");
    const wire::CertifyBody sent{.device = {*device},
                                 .owner = (*body)[1],
                                 .model = (*body)[2],
                                 .region = (*body)[3],
                                 .accepted = true};
    Session& session = program.session();
    session.call({.method = "PUT", .path = "/v1/market/devices", .body = wire::to_json(sent)});
    session.say("certified " + (*body)[0]);
  });
}

}  // namespace

void add_market_commands(const Command& root, Program& program) {
  const Command& group = add_group(root,
                                   {"market",
                                    "Sell idle capacity, buy what is needed",
                                    "tranche market buy H100:0.5 --for 3h --limit 2.10/h"});
  add_buy_commands(group, program);
  add_sell_commands(group, program);
  add_lists(group, program);
  add_market_data_commands(group, program);
  add_depth(group, program);
  add_changes(group, program);
  add_market_rules_commands(group, program);
}

}  // namespace tranche::cli
