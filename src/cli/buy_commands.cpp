// SPDX-License-Identifier: Apache-2.0
// market buy, market quote: what it costs, and having it.
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
  std::string shape{}, length{}, from{}, limit{}, party{}, workload{}, expires{}, min{}, min_share{}, life{};
  std::string quote{};
  std::uint32_t count = 1;
  InstrumentFlags instrument{};
  bool now = false, rest = false, all = false, dry_run = false, keep = false;
};

// --tif says it by name; --rest, --all and --expires say it in words.
wire::OrderLife life_of(const BuyOptions& options) {
  if (options.all && (options.rest || !options.expires.empty()))
    throw usage_failure("--all is at once or nothing, and leaves nothing that rests",
                        "leave one of them out");
  const wire::OrderLife said = options.all                ? wire::OrderLife::kFok
                               : !options.expires.empty() ? wire::OrderLife::kGtd
                               : options.rest             ? wire::OrderLife::kGtc
                                                          : wire::OrderLife::kIoc;
  if (options.life.empty()) return said;
  const auto life = enum_value<wire::OrderLife>("--tif", options.life);
  const bool flags = options.all || options.rest;
  if (flags && life != said) throw usage_failure("--tif contradicts --rest or --all; leave one of them out");
  if (life == wire::OrderLife::kGtd && options.expires.empty())
    throw usage_failure("an order good till a date needs one: --expires 2026-12-01T00:00:00Z");
  if (life != wire::OrderLife::kGtd && !options.expires.empty())
    throw usage_failure("--expires goes with --tif gtd");
  return life;
}

OrderBody body_of(const BuyOptions& options) {
  if (options.shape.empty() || options.length.empty())
    throw usage_failure("say what to buy, and for how long",
                        "tranche market buy H100:0.5 --for 3h --limit 2.10/h");
  if (options.now && !options.from.empty()) throw usage_failure("--now and --from contradict each other");
  OrderBody body{.party = options.party};
  read_shape(options.shape, body.instrument, body.milli);
  take_flags(options.instrument, body.instrument);
  body.milli *= options.count;
  body.milli_min = share_value("--min-share", options.min_share);
  body.length = length_value("--for", options.length);
  body.length_min = length_value("--min", options.min);
  body.from = time_value("--from", options.from);
  body.expires = time_value("--expires", options.expires);
  if (!options.limit.empty()) body.hourly = hourly_value("--limit", options.limit);
  if (!options.workload.empty()) body.workload = enum_value<wire::WorkloadKind>("--kind", options.workload);
  body.life = life_of(options);
  return body;
}

void print_quote(Session& session, const Answer<wire::QuoteView>& answer) {
  session.print(answer.body,
                {.table =
                     [&] {
                       Table table({{"QUOTE"},
                                    {"AVAILABLE", Align::kRight},
                                    {"COST", Align::kRight},
                                    {"AT MOST", Align::kRight},
                                    {"BEST/H", Align::kRight},
                                    {"KEPT UNTIL"}});
                       const wire::QuoteView& quoted = answer.value;
                       table.add({quoted.id.empty() ? "-" : quoted.id,
                                  gpus_text(quoted.milli_now),
                                  text(quoted.cost_now),
                                  text(quoted.most),
                                  text(quoted.best),
                                  quoted.expires ? local_time_text(*quoted.expires) : "not kept"});
                       return table;
                     },
                 .names = [&] { return answer.value.id + "\n"; }});
  if (!answer.value.why.empty()) session.say(answer.value.why);
}

void buy(Session& session, const BuyOptions& options) {
  if (!options.quote.empty()) {
    if (!options.shape.empty() || !options.length.empty() || !options.limit.empty())
      throw usage_failure("--quote says what, for how long and at what price; leave the rest out",
                          "tranche market buy --quote " + options.quote);
    const std::string path = "/v1/market/quotes/" + path_segment(options.quote);
    if (options.dry_run) return print_quote(session, session.get<wire::QuoteView>(path));
    return print_outcome(session,
                         session.ask<OrderOutcome>({.method = "POST", .path = path + "/take", .body = "{}"}));
  }
  const OrderBody body = body_of(options);
  if (options.dry_run)
    return print_quote(session,
                       session.ask<wire::QuoteView>(
                           {.method = "POST", .path = "/v1/market/quote", .body = wire::to_json(body)}));
  if (options.limit.empty())
    throw usage_failure("say the most to pay: --limit 2.10/h",
                        "tranche market quote tells what it costs now");
  print_outcome(session,
                session.ask<OrderOutcome>(
                    {.method = "POST", .path = "/v1/market/orders", .body = wire::to_json(body)}));
}

void add_what_to_buy(const Command& command, BuyOptions& options) {
  command.add_option("shape", options.shape, "A model, with a share or a partition: H100:0.5, H100:1g.10gb");
  command.add_option("--for", options.length, "How long").type_name("DURATION");
  command.add_option("--limit", options.limit, "The most to pay, an hour of a whole device or partition")
      .type_name("PRICE");
  command.add_option("--count", options.count, "How many of these").type_name("NUMBER");
  command.add_option("--from", options.from, "When it begins; else now").type_name("TIME");
  command.add_option("--min", options.min, "The shortest part to take; else all of the window")
      .type_name("DURATION");
  command.add_option("--min-share", options.min_share, "The smallest part to take, of a device")
      .type_name("SHARE");
  command.add_option("--kind", options.workload, "What will run on it, for owners who ask").type_name("KIND");
  command.add_option("--as", options.party, "For which party; else oneself").type_name("PARTY");
  add_instrument_flags(command, options.instrument);
}

void add_buy(const Command& group, Program& program) {
  const auto options = std::make_shared<BuyOptions>();
  const Command& command =
      add_command(group,
                  {"buy",
                   "Buy capacity at once, or rest a bid",
                   "tranche market buy H100:0.5 --for 3h --now --limit 2.10/h\n"
                   "tranche market buy H100:1g.10gb --for 1h --limit 0.40/h\n"
                   "tranche market buy H100 --for 8h --from 2026-12-01T20:00:00Z --limit 1.90/h --tif gtc\n"
                   "tranche market buy --quote quo_000001"});
  add_what_to_buy(command, *options);
  command.add_flag("--now", options->now, "From now on; the default");
  command
      .add_option("--tif",
                  options->life,
                  "ioc: what there is at once (the default); fok: all of it at once, or nothing; gtc: rests "
                  "until its window is over; gtd: rests until --expires")
      .type_name("LIFE");
  command.add_flag("--rest", options->rest, "What cannot be had at once waits; as --tif gtc");
  command.add_flag("--all", options->all, "All of it at once, or nothing; as --tif fok");
  command.add_option("--expires", options->expires, "Until when the bid rests").type_name("TIME");
  command.add_option("--quote", options->quote, "Buy what was quoted, at that price").type_name("QUOTE");
  command.add_flag("--dry-run", options->dry_run, "Say what it would cost; buy nothing");
  command.callback([options, &program] { buy(program.session(), *options); });
}

void add_quote(const Command& group, Program& program) {
  const auto options = std::make_shared<BuyOptions>();
  const Command& command = add_command(group,
                                       {"quote",
                                        "What a purchase would cost now, and at most",
                                        "tranche market quote H100:0.5 --for 3h\n"
                                        "tranche market quote H100:0.5 --for 3h --keep\n"
                                        "tranche market buy --quote quo_000001"});
  add_what_to_buy(command, *options);
  command.add_flag("--keep", options->keep, "Set capacity and money aside until it expires: the price holds");
  command.callback([options, &program] {
    Session& session = program.session();
    const std::string path = options->keep ? "/v1/market/quotes" : "/v1/market/quote";
    print_quote(session,
                session.ask<wire::QuoteView>(
                    {.method = "POST", .path = path, .body = wire::to_json(body_of(*options))}));
    if (options->keep) session.say("nobody else gets it meanwhile; tranche market buy --quote takes it");
  });
}

}  // namespace

void add_buy_commands(const Command& market, Program& program) {
  add_buy(market, program);
  add_quote(market, program);
}

}  // namespace tranche::cli
