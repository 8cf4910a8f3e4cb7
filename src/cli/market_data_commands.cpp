// SPDX-License-Identifier: Apache-2.0
// market watch, market earnings: what the exchange does now, and what it brought.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"
#include "cli/terminal.hpp"
#include "net/http.hpp"
#include "wire/api_market.hpp"

namespace tranche::cli {
namespace {

struct WatchOptions {
  std::uint64_t book = 0;
  std::uint64_t count = 0;
  std::string from{};
};

std::string level_text(const wire::DepthLevel& level) {
  return level.hourly == Money{} ? "-" : text(level.hourly) + "/h x " + gpus_text(level.milli);
}

std::string line_of(const wire::MarketTrade& trade) {
  const wire::InstrumentBody& traded = trade.book.instrument;
  return local_time_text(trade.fill.at) + "  trade  " + traded.model +
         (traded.shape.empty() ? "" : ":" + traded.shape) + "  " + text(trade.fill.hourly) + "/h x " +
         gpus_text(trade.fill.milli) + "  " + local_time_text(trade.fill.from) + " to " +
         local_time_text(trade.fill.to) + "  open " + text(trade.book.day_open) + " high " +
         text(trade.book.day_high) + " low " + text(trade.book.day_low) + "\n";
}

std::string line_of(const wire::MarketTop& top) {
  return local_time_text(top.slot) + "  top    book " + std::to_string(top.book) + "  bid " +
         level_text(top.bid) + "  ask " + level_text(top.ask) + "\n";
}

void watch(Session& session, const WatchOptions& options) {
  std::uint64_t shown = 0;
  const bool rows = session.output() == Output::kTable || session.output() == Output::kWide;
  const auto on_event = [&](const net::ServerEvent& received) {
    std::string line;
    std::uint64_t book = 0;
    if (received.event == "trade") {
      const auto trade = Session::parsed<wire::MarketTrade>(received.data);
      book = trade.fill.book;
      line = line_of(trade);
    } else {
      const auto top = Session::parsed<wire::MarketTop>(received.data);
      book = top.book;
      line = line_of(top);
    }
    if (options.book != 0 && book != options.book) return true;
    write_stdout(rows ? line : received.data + "\n");
    return options.count == 0 || ++shown < options.count;
  };
  session.follow("/v1/market/stream", {.last_id = options.from}, on_event);
}

void add_watch(const Command& market, Program& program) {
  const auto options = std::make_shared<WatchOptions>();
  const Command command =
      add_command(market,
                  {"watch",
                   "Trades and best prices as they change",
                   "tranche market watch --book 1\ntranche market watch -o jsonl --count 10"});
  command.add_option("--book", options->book, "Only this book; else all").type_name("NUMBER");
  command.add_option("--count", options->count, "End after so many").type_name("COUNT");
  command.add_option("--from", options->from, "Begin after this event; else now").type_name("NUMBER");
  command.callback([options, &program] { watch(program.session(), *options); });
}

void add_candles(const Command& market, Program& program) {
  struct Options {
    std::string book{}, step{};
  };
  const auto options = std::make_shared<Options>();
  const Command& candles = add_command(market,
                                       {"candles",
                                        "Open, high, low and close of a book, by day or hour",
                                        "tranche market candles 1\ntranche market candles 1 --step hour"});
  candles.add_option("book", options->book, "Number of the book").required();
  candles.add_option("--step", options->step, "day (400 are kept) or hour (192 are kept)").type_name("STEP");
  candles.callback([options, &program] {
    Session& session = program.session();
    const auto answer = session.get<wire::CandleList>(
        "/v1/market/books/" + path_segment(options->book) + "/candles" +
        (options->step.empty() ? "" : "?step=" + net::percent_encode(options->step)));
    session.print(answer.body, {.table = [&] {
                    Table table({{"FROM"},
                                 {"OPEN", Align::kRight},
                                 {"HIGH", Align::kRight},
                                 {"LOW", Align::kRight},
                                 {"CLOSE", Align::kRight},
                                 {"GPU-HOURS", Align::kRight}});
                    for (const wire::CandleView& one : answer.value.items)
                      table.add({local_time_text(one.start),
                                 text(one.open),
                                 text(one.high),
                                 text(one.low),
                                 text(one.close),
                                 gpus_text(one.volume_milli_slots / 4)});
                    return table;
                  }});
  });
}

}  // namespace

void add_market_data_commands(const Command& market, Program& program) {
  add_watch(market, program);
  add_candles(market, program);
  add_command(market, {"earnings", "What you sold, earned, and delivered of it", "tranche market earnings"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<wire::SellerList>("/v1/market/earnings");
        session.print(answer.body, {.table = [&] {
                        Table table({{"SELLER"},
                                     {"CONTRACTS", Align::kRight},
                                     {"RUNNING", Align::kRight},
                                     {"SOLD", Align::kRight},
                                     {"EARNED", Align::kRight},
                                     {"FEE", Align::kRight},
                                     {"REFUNDED", Align::kRight},
                                     {"PENALTY", Align::kRight},
                                     {"TO COME", Align::kRight},
                                     {"DELIVERED", Align::kRight}});
                        for (const wire::SellerView& one : answer.value.items)
                          table.add({one.party,
                                     std::to_string(one.contracts),
                                     std::to_string(one.running),
                                     text(one.sold),
                                     text(one.earned),
                                     text(one.fee),
                                     text(one.refunded),
                                     text(one.penalty),
                                     text(one.to_come),
                                     permille_text(one.delivered)});
                        return table;
                      }});
      });
}

}  // namespace tranche::cli
