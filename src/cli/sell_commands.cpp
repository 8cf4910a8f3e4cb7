// SPDX-License-Identifier: Apache-2.0
// market sell, market recurring: what an owner offers, once or again and again.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"

namespace tranche::cli {
namespace {

using wire::OrderOutcome;

struct SellOptions {
  std::string what{}, milli{}, length{}, from{}, window{}, price{}, floor{}, min{}, owner{}, node{},
      min_share{};
  std::vector<std::string> to{}, kinds{};
  InstrumentFlags instrument{};
  std::string every{}, zone{}, until{}, ahead{};
  std::uint32_t times = 0;
};

// A device, a contract, or a model of which any free device will do.
void read_what(const SellOptions& options, wire::ListingBody& body) {
  if (options.what.starts_with("gpu_")) {
    body.device = options.what;
  } else if (options.what.starts_with("ctr_")) {
    body.contract = options.what;
  } else {
    read_shape(options.what, body.instrument, body.milli);
  }
  take_flags(options.instrument, body.instrument);
  body.node = options.node;
  if (options.milli.empty()) return;
  body.milli = share_value("--share", options.milli);
}

// FROM/TO, or --from and --for.
void read_window(const SellOptions& options, wire::ListingBody& body) {
  body.from = time_value("--from", options.from);
  body.length = length_value("--for", options.length);
  if (options.window.empty()) {
    if (options.length.empty()) throw usage_failure("say how long: --for 8h, or --window FROM/TO");
    return;
  }
  const std::size_t slash = options.window.find('/');
  if (slash == std::string::npos || !options.from.empty() || !options.length.empty())
    throw usage_failure("--window takes FROM/TO, instead of --from and --for");
  body.from = time_value("--window", options.window.substr(0, slash));
  body.length = time_value("--window", options.window.substr(slash + 1)) - body.from;
  if (body.length <= Duration{}) throw usage_failure("--window ends after it begins");
}

// "acme", or "tenants=acme,globex,kinds=inference": who may take it, and for what.
void read_audience(const std::string& given, wire::ListingBody& body) {
  std::string key = "tenants";
  for (std::size_t at = 0; at <= given.size();) {
    const std::size_t end = std::min(given.find(',', at), given.size());
    std::string word = given.substr(at, end - at);
    at = end + 1;
    if (const std::size_t sign = word.find('='); sign != std::string::npos) {
      key = word.substr(0, sign);
      word.erase(0, sign + 1);
    }
    if (word.empty()) continue;
    if (key == "tenants") {
      body.to.push_back(word);
    } else if (key == "kinds") {
      body.kinds.push_back(enum_value<wire::WorkloadKind>("--to kinds=", word));
    } else {
      throw usage_failure("--to takes tenants=… and kinds=…, not '" + key + "='");
    }
  }
}

wire::ListingBody body_of(const SellOptions& options) {
  wire::ListingBody body{.owner = options.owner};
  read_what(options, body);
  if (options.every.empty()) {
    read_window(options, body);
  } else {
    body.length = length_value("--for", options.length);
  }
  body.length_min = length_value("--min", options.min);
  body.milli_min = share_value("--min-share", options.min_share);
  if (options.price.empty() && options.floor.empty())
    throw usage_failure("say what an hour costs: --price 2.10/h, with --floor 1.80/h if it may fall");
  body.hourly = hourly_value("--price", options.price.empty() ? options.floor : options.price);
  if (!options.floor.empty() && !options.price.empty()) body.floor = hourly_value("--floor", options.floor);
  for (const std::string& given : options.to) read_audience(given, body);
  for (const std::string& kind : options.kinds)
    body.kinds.push_back(enum_value<wire::WorkloadKind>("--kinds", kind));
  return body;
}

Table recurring_table(const std::vector<wire::RecurringListingView>& listings) {
  Table table({{"LISTING"},
               {"OWNER"},
               {"DEVICE"},
               {"PRICE/H", Align::kRight},
               {"EVERY"},
               {"ZONE"},
               {"NEXT"},
               {"LEFT", Align::kRight},
               {"LISTED", Align::kRight},
               {"MISSED", Align::kRight},
               {"LAST MISSED BECAUSE"}});
  for (const wire::RecurringListingView& one : listings)
    table.add({one.id,
               one.owner,
               one.device,
               text(one.hourly),
               one.every,
               one.zone,
               one.next ? text(*one.next) : "never",
               std::to_string(one.left),
               std::to_string(one.listed),
               std::to_string(one.missed),
               one.misses.empty() ? "-" : text(one.misses.back().from) + ": " + one.misses.back().why});
  return table;
}

std::string names_of(const std::vector<wire::RecurringListingView>& listings) {
  std::string names;
  for (const wire::RecurringListingView& one : listings) names += one.id + "\n";
  return names;
}

void sell_again(Session& session, const SellOptions& options) {
  if (!options.from.empty() || !options.window.empty())
    throw usage_failure("--every says when, and --for how long; leave --from and --window out");
  wire::RecurringListingBody body{.listing = body_of(options),
                                  .every = options.every,
                                  .zone = options.zone,
                                  .times = options.times,
                                  .until = options.until};
  if (!options.ahead.empty()) body.ahead = length_value("--ahead", options.ahead);
  const auto answer = session.ask<wire::RecurringListingView>(
      {.method = "POST", .path = "/v1/market/recurring", .body = wire::to_json(body)});
  session.print(answer.body,
                {.table = [&] { return recurring_table({answer.value}); },
                 .names = [&] { return names_of({answer.value}); }});
}

void add_calendar_flags(const Command& sell, SellOptions& options) {
  sell.add_option("--every", options.every, "Again and again: days and a time, such as \"weekdays 22:00\"")
      .type_name("WHEN");
  sell.add_option("--tz", options.zone, "Of --every, such as Europe/Madrid").type_name("ZONE");
  sell.add_option("--until", options.until, "Last date of --every").type_name("DATE");
  sell.add_option("--times", options.times, "How often in all, with --every").type_name("NUMBER");
  sell.add_option("--ahead", options.ahead, "How long before its window each is listed; else a week")
      .type_name("DURATION");
}

void add_sell(const Command& group, Program& program) {
  const auto options = std::make_shared<SellOptions>();
  const Command& sell = add_command(
      group,
      {"sell",
       "Offer a device, or a part of what was bought",
       "tranche market sell gpu_000001 --for 8h --price 2.10/h --floor 1.80/h\n"
       "tranche market sell H100 --node n1 --window 2026-12-01T20:00:00Z/2026-12-02T08:00:00Z --floor 1.80/h "
       "--to tenants=acme,kinds=inference --min 1h\n"
       "tranche market sell H100:1g.10gb --for 8h --price 0.40/h\n"
       "tranche market sell ctr_000004 --share 0.5 --from 2026-12-01T20:00:00Z --for 2h --price 2.40/h\n"
       "tranche market sell gpu_000001 --every \"weekdays 22:00\" --tz Europe/Madrid --for 8h --price 2/h"});
  sell.add_option("what",
                  options->what,
                  "A device (gpu_…), a contract (ctr_…), or a model: H100, H100:0.5, H100:1g.10gb")
      .required();
  sell.add_option("--node", options->node, "On this node, where a model is offered").type_name("NODE");
  sell.add_option("--for", options->length, "How long").type_name("DURATION");
  sell.add_option("--window", options->window, "FROM/TO, instead of --from and --for").type_name("WINDOW");
  sell.add_option("--price", options->price, "An hour of a whole device or partition; else the floor")
      .type_name("PRICE");
  sell.add_option("--floor", options->floor, "The price falls to this until the window begins")
      .type_name("PRICE");
  sell.add_option("--share", options->milli, "Of the device").type_name("SHARE");
  sell.add_option("--from", options->from, "When it begins; else now").type_name("TIME");
  sell.add_option("--min", options->min, "The shortest part to sell").type_name("DURATION");
  sell.add_option("--min-share", options->min_share, "The smallest part to sell, of a device")
      .type_name("SHARE");
  sell.add_option("--to", options->to, "Who may take it: a party, or tenants=…,kinds=…; may be repeated")
      .type_name("WHO")
      .repeatable();
  sell.add_option("--kinds", options->kinds, "A workload it may be used for; may be repeated")
      .type_name("KIND")
      .repeatable();
  sell.add_option("--as", options->owner, "For which party; else oneself").type_name("PARTY");
  add_instrument_flags(sell, options->instrument);
  add_calendar_flags(sell, *options);
  sell.callback([options, &program] {
    Session& session = program.session();
    if (!options->every.empty()) return sell_again(session, *options);
    for (const std::string* given : {&options->zone, &options->until, &options->ahead})
      if (!given->empty() || options->times > 0)
        throw usage_failure("--tz, --until, --times and --ahead go with --every");
    print_outcome(
        session,
        session.ask<OrderOutcome>(
            {.method = "POST", .path = "/v1/market/listings", .body = wire::to_json(body_of(*options))}));
  });
}

void add_recurring(const Command& group, Program& program) {
  add_command(group,
              {"recurring", "What is sold again and again, and what was missed", "tranche market recurring"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<wire::RecurringListingList>("/v1/market/recurring");
        session.print(answer.body,
                      {.table = [&] { return recurring_table(answer.value.items); },
                       .names = [&] { return names_of(answer.value.items); }});
      });
}

}  // namespace

void add_sell_commands(const Command& market, Program& program) {
  add_sell(market, program);
  add_recurring(market, program);
}

}  // namespace tranche::cli
