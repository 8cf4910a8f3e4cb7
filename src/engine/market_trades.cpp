// SPDX-License-Identifier: Apache-2.0
// What a trade leaves behind for everybody to see: the last price, the hour and the day, and the trade
// itself, with nobody's name.
#include <algorithm>

#include "engine/market_fill.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kTradesKept = 1000;
constexpr std::size_t kHoursKept = 24 * 8;
constexpr std::size_t kDaysKept = 400;

// Adds a trade to the hour or the day that it is in.
void add_candle(std::vector<Candle>& candles, Duration length, std::size_t kept, const Trade& trade) {
  const Instant start(trade.at.time_since_epoch() / length * length);
  if (candles.empty() || candles.back().start != start) {
    if (candles.size() == kept) candles.erase(candles.begin());
    candles.push_back({start, trade.price, trade.price, trade.price, trade.price, 0});
  }
  Candle& candle = candles.back();
  candle.high = std::max(candle.high, trade.price);
  candle.low = std::min(candle.low, trade.price);
  candle.close = trade.price;
  candle.volume += std::int64_t{trade.quantity} * trade.slots;
}

}  // namespace

void note_trade(Market& market, const OrderFilled& event, std::uint64_t number, Instant at) {
  BookState& book = market.instruments[number - 1];
  const std::int64_t day = slot_of(at) / 96;
  if (book.day != day) {
    book.day = day;
    book.day_open = book.day_high = book.day_low = event.price;
    book.day_volume = 0;
  }
  book.last = event.price;
  book.day_high = std::max(book.day_high, event.price);
  book.day_low = std::min(book.day_low, event.price);
  book.day_volume += std::int64_t{event.quantity} * event.slots;
  const Trade trade{number, at, event.price, event.first_slot, event.slots, event.quantity};
  add_candle(book.hours, std::chrono::hours(1), kHoursKept, trade);
  add_candle(book.days, std::chrono::hours(24), kDaysKept, trade);
  if (market.trades.size() < kTradesKept) {
    market.trades.push_back(trade);
  } else {
    market.trades[market.trade_count % kTradesKept] = trade;
  }
  ++market.trade_count;
}

}  // namespace tranche::engine
