// SPDX-License-Identifier: Apache-2.0
// market: sell idle capacity, buy what is needed, see what is traded.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"
#include "wire/api_market.hpp"

namespace tranche::cli {
namespace {

using wire::OrderBody;
using wire::OrderOutcome;

struct BuyOptions {
  std::string shape{}, length{}, from{}, limit{}, party{}, workload{}, expires{}, min{};
  std::uint32_t count = 1;
  InstrumentFlags instrument{};
  bool now = false, rest = false, all = false;
};

OrderBody body_of(const BuyOptions& options) {
  OrderBody body{.party = options.party};
  read_shape(options.shape, body.instrument, body.milli);
  take_flags(options.instrument, body.instrument);
  body.milli *= options.count;
  body.length = length_value("--for", options.length);
  body.length_min = length_value("--min", options.min);
  body.from = time_value("--from", options.from);
  body.expires = time_value("--expires", options.expires);
  if (!options.limit.empty()) body.hourly = hourly_value("--limit", options.limit);
  if (!options.workload.empty()) body.workload = enum_value<wire::WorkloadKind>("--kind", options.workload);
  body.life = options.all                ? wire::OrderLife::kFok
              : !options.expires.empty() ? wire::OrderLife::kGtd
              : options.rest             ? wire::OrderLife::kGtc
                                         : wire::OrderLife::kIoc;
  return body;
}

void add_buy(const Command& group, Program& program) {
  const auto options = std::make_shared<BuyOptions>();
  const Command& buy =
      add_command(group,
                  {"buy",
                   "Buy capacity at once, or rest a bid",
                   "tranche market buy H100:0.5 --for 3h --now --limit 2.10/h\n"
                   "tranche market buy H100:1g.10gb --for 1h --limit 0.40/h\n"
                   "tranche market buy H100 --for 8h --from 2026-12-01T20:00:00Z --limit 1.90/h --rest"});
  buy.add_option("shape", options->shape, "A model, with a share or a partition: H100:0.5, H100:1g.10gb")
      .required();
  buy.add_option("--for", options->length, "How long").required().type_name("DURATION");
  buy.add_option("--limit", options->limit, "The most to pay, an hour of a whole device or partition")
      .required()
      .type_name("PRICE");
  buy.add_option("--count", options->count, "How many of these").type_name("NUMBER");
  buy.add_option("--from", options->from, "When it begins; else now").type_name("TIME");
  buy.add_flag("--now", options->now, "From now on; the default");
  buy.add_flag("--rest", options->rest, "What cannot be had at once waits");
  buy.add_flag("--all", options->all, "All of it at once, or nothing");
  buy.add_option("--expires", options->expires, "Until when the bid rests").type_name("TIME");
  buy.add_option("--min", options->min, "The shortest part to take; else all of the window")
      .type_name("DURATION");
  buy.add_option("--kind", options->workload, "What will run on it, for owners who ask").type_name("KIND");
  buy.add_option("--as", options->party, "For which party; else oneself").type_name("PARTY");
  add_instrument_flags(buy, options->instrument);
  buy.callback([options, &program] {
    Session& session = program.session();
    print_outcome(
        session,
        session.ask<OrderOutcome>(
            {.method = "POST", .path = "/v1/market/orders", .body = wire::to_json(body_of(*options))}));
  });
}

void add_quote(const Command& group, Program& program) {
  const auto options = std::make_shared<BuyOptions>();
  const Command& quote = add_command(
      group,
      {"quote", "What a purchase would cost now, and at most", "tranche market quote H100:0.5 --for 3h"});
  quote.add_option("shape", options->shape, "Model, or model and share").required();
  quote.add_option("--for", options->length, "How long").required().type_name("DURATION");
  quote.add_option("--from", options->from, "When it begins; else now").type_name("TIME");
  quote.add_option("--limit", options->limit, "The most to pay").type_name("PRICE");
  add_instrument_flags(quote, options->instrument);
  quote.callback([options, &program] {
    Session& session = program.session();
    const auto answer = session.ask<wire::QuoteView>(
        {.method = "POST", .path = "/v1/market/quote", .body = wire::to_json(body_of(*options))});
    session.print(
        answer.body, {.table = [&] {
          Table table({{"AVAILABLE", Align::kRight},
                       {"COST", Align::kRight},
                       {"AT MOST", Align::kRight},
                       {"BEST/H", Align::kRight}});
          const wire::QuoteView& quoted = answer.value;
          table.add(
              {gpus_text(quoted.milli_now), text(quoted.cost_now), text(quoted.most), text(quoted.best)});
          return table;
        }});
  });
}

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
                                 {"HELD", Align::kRight}});
                    for (const auto& one : answer.value.items) {
                      table.add({one.id,
                                 one.party,
                                 one.gpus,
                                 std::string(wire::name_of(one.side)),
                                 text(one.hourly),
                                 gpus_text(one.milli_open),
                                 local_time_text(one.from),
                                 local_time_text(one.to),
                                 text(one.held)});
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
                                     {"REFUNDED", Align::kRight}});
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
                                     text(one.refunded)});
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
                                 {"ISOLATION"},
                                 {"LAST/H", Align::kRight},
                                 {"OPEN", Align::kRight},
                                 {"HIGH", Align::kRight},
                                 {"LOW", Align::kRight}});
                    for (const auto& one : answer.value.items) {
                      table.add({std::to_string(one.book),
                                 one.instrument.model,
                                 one.instrument.shape.empty() ? "-" : one.instrument.shape,
                                 std::string(wire::name_of(one.instrument.isolation)),
                                 text(one.last),
                                 text(one.day_open),
                                 text(one.day_high),
                                 text(one.day_low)});
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
                                                     (at->empty() ? "" : "?at=" + *at));
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
  });
}

void add_changes(const Command& group, Program& program) {
  const auto id = std::make_shared<std::string>();
  const Command& cancel =
      add_command(group,
                  {"cancel",
                   "Cancel what is open of an order, or the rest of what is sold again and again",
                   "tranche market cancel ord_000001\ntranche market cancel lst_000001"});
  cancel.add_option("order", *id, "An order (ord_…) or a recurring listing (lst_…)").required();
  cancel.callback([id, &program] {
    Session& session = program.session();
    const std::string kind = id->starts_with("lst_") ? "recurring/" : "orders/";
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
  add_buy(group, program);
  add_quote(group, program);
  add_sell_commands(group, program);
  add_lists(group, program);
  add_market_data_commands(group, program);
  add_depth(group, program);
  add_changes(group, program);
}

}  // namespace tranche::cli
