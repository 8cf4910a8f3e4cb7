// SPDX-License-Identifier: Apache-2.0
// The exchange through decide() and apply(): events built, bids covered by holds, asks by bonds.
//
// Rates are per second of this thread's processor time: the machine may be shared, one core is what is meant.
#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/random.hpp"
#include "bench/bench.hpp"
#include "engine/market_world.hpp"

namespace tranche::bench {
namespace {

using engine::MarketWorld;
using engine::Side;

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Tenants with credit, and in each book one pool large enough to sell from all day.
class Exchange {
 public:
  Exchange(std::size_t tenants, std::uint64_t books, std::uint32_t slots)
      : world_(tenants, units(1'000'000'000)), slots_(slots), first_(world_.now_slot() + 1) {
    auto& market = world_.state.market;
    for (std::uint64_t book = 1; book <= books; ++book) {
      engine::apply(world_.state,
                    world_.envelope({}),
                    engine::Event{engine::BookOpened{book, {.model = "model " + std::to_string(book)}}});
      const engine::PieceId id{book};
      const std::size_t seller = book % tenants;
      market.pieces.insert(id.value,
                           engine::Piece{.id = id,
                                         .owner = world_.traders[seller],
                                         .book = book,
                                         .first_slot = first_,
                                         .slots = slots,
                                         .quantity = UINT32_MAX,
                                         .promised = std::vector<std::uint32_t>(slots, 0)});
    }
    for (const PartyId trader : world_.traders) envelopes_.push_back(world_.envelope(trader));
  }

  // Returns whether it was accepted.
  bool place(std::size_t who,
             std::uint64_t book,
             Side side,
             std::int64_t price,
             std::uint32_t quantity,
             std::int64_t from = 0,
             std::uint32_t slots = 1) {
    auto& order = std::get<engine::PlaceOrder>(place_);
    if (side == Side::kSell) who = book % world_.traders.size();
    order.party = world_.traders[who];
    order.book = book;
    order.side = side;
    order.price = price;
    order.first_slot = first_ + from;
    order.slots = slots;
    order.quantity = quantity;
    order.piece = {side == Side::kSell ? book : 0};
    owner_.push_back(static_cast<std::uint32_t>(who));
    if (run(who, place_)) return true;
    owner_.pop_back();
    return false;
  }
  bool cancel(std::uint64_t id) {
    if (world_.state.market.books.order(id) == nullptr) return false;
    std::get<engine::CancelOrder>(cancel_).order = id;
    return run(owner_[id - 1], cancel_);
  }

  [[nodiscard]] MarketWorld& world() { return world_; }
  [[nodiscard]] std::uint64_t next_order() const { return world_.state.market.next_order; }
  [[nodiscard]] std::uint32_t slots() const { return slots_; }

 private:
  bool run(std::size_t who, const engine::Command& command) {
    const auto decision = engine::decide(world_.state, envelopes_[who], command);
    if (!decision) return false;
    engine::apply_record(world_.state, world_.state.sequence + 1, envelopes_[who], *decision);
    return true;
  }

  MarketWorld world_;
  std::uint32_t slots_;
  std::int64_t first_;
  std::vector<Envelope> envelopes_;
  std::vector<std::uint32_t> owner_;  // Of order n + 1.
  engine::Command place_ = engine::PlaceOrder{};
  engine::Command cancel_ = engine::CancelOrder{};
};

// Most cancels are of young orders, as on any exchange. Those that have traded meanwhile are passed over.
bool cancel_young(Exchange& exchange, std::vector<std::uint64_t>& young, Random& random) {
  constexpr std::size_t kYoung = 5000;
  while (!young.empty()) {
    const std::size_t at = young.size() - 1 - random.below(std::min(young.size(), kYoung));
    const std::uint64_t id = young[at];
    young[at] = young.back();
    young.pop_back();
    if (exchange.cancel(id)) return true;
  }
  return false;
}

void single_slot(std::vector<Row>& rows) {
  constexpr int kOperations = 1'000'000;
  Exchange exchange(100, 1000, 1);
  Random random(1);
  std::uint64_t refused = 0;
  std::vector<std::uint64_t> young;
  const double start = processor_seconds();
  for (int i = 0; i < kOperations; ++i) {
    if (i % 5 < 2 && cancel_young(exchange, young, random)) continue;
    const bool buys = random.below(2) == 0;
    const auto price = static_cast<std::int64_t>(buys ? 400 + random.below(104) : 497 + random.below(104));
    young.push_back(exchange.next_order());
    refused += !exchange.place(random.below(100),
                               1 + random.below(1000),
                               buys ? Side::kBuy : Side::kSell,
                               price,
                               static_cast<std::uint32_t>(1 + random.below(100)));
  }
  const double seconds = processor_seconds() - start;
  const auto& market = exchange.world().state.market;
  rows.push_back({.what = "single-slot order operations, 1,000 books, 40 % cancels",
                  .value = (kOperations - static_cast<double>(refused)) / seconds,
                  .unit = "operations/s of one core",
                  .goal = 1'000'000,
                  .peer = "CppTrader 1.2 M/s, liquibook 0.85 M/s, both without money",
                  .peer_source = PeerSource::kQuoted});
  rows.push_back({.what = "  orders resting at the end",
                  .value = static_cast<double>(market.books.size()),
                  .unit = "orders"});
  rows.push_back(
      {.what = "  fills among them", .value = static_cast<double>(market.trade_count), .unit = "fills"});
}

void rectangles(std::vector<Row>& rows) {
  constexpr int kOperations = 200'000;
  Exchange exchange(100, 16, 192);
  Random random(2);
  std::vector<double> taken;
  taken.reserve(kOperations);
  std::vector<std::uint64_t> young;
  const double start = processor_seconds();
  for (int i = 0; i < kOperations; ++i) {
    const double before = processor_seconds();
    if (i % 5 < 2 && cancel_young(exchange, young, random)) {
      taken.push_back(processor_seconds() - before);
      continue;
    }
    const bool buys = random.below(2) == 0;
    const auto price = static_cast<std::int64_t>(buys ? 400 + random.below(102) : 499 + random.below(102));
    young.push_back(exchange.next_order());
    exchange.place(random.below(100),
                   1 + random.below(16),
                   buys ? Side::kBuy : Side::kSell,
                   price,
                   static_cast<std::uint32_t>(1 + random.below(100)),
                   static_cast<std::int64_t>(random.below(97)),
                   96);
    taken.push_back(processor_seconds() - before);
  }
  const double seconds = processor_seconds() - start;
  std::sort(taken.begin(), taken.end());
  rows.push_back({.what = "orders over 96 slots, 16 books, 40 % cancels",
                  .value = kOperations / seconds,
                  .unit = "operations/s of one core",
                  .goal = 100'000});
  rows.push_back({.what = "  99th percentile",
                  .value = taken[taken.size() * 99 / 100] * 1e6,
                  .unit = "us",
                  .goal = 100,
                  .better = Better::kLower});
  rows.push_back({.what = "  orders resting at the end",
                  .value = static_cast<double>(exchange.world().state.market.books.size()),
                  .unit = "orders"});
}

double add_and_cancel(Exchange& exchange, Random& random) {
  constexpr int kPairs = 100'000;
  const double start = processor_seconds();
  for (int i = 0; i < kPairs; ++i) {
    exchange.place(
        random.below(100), 1, Side::kBuy, 1 + static_cast<std::int64_t>(random.below(100'000)), 10);
    exchange.cancel(exchange.next_order() - 1);
  }
  return (processor_seconds() - start) / (2 * kPairs) * 1e9;
}

void deep_book(std::vector<Row>& rows) {
  constexpr int kResting = 1'000'000;
  Exchange exchange(100, 1, 1);
  Random random(3);
  add_and_cancel(exchange, random);
  const double empty = add_and_cancel(exchange, random);
  for (int i = 0; i < kResting; ++i)
    exchange.place(
        random.below(100), 1, Side::kBuy, 1 + static_cast<std::int64_t>(random.below(100'000)), 10);
  const double deep = add_and_cancel(exchange, random);
  rows.push_back({.what = "add or cancel in an empty book", .value = empty, .unit = "ns"});
  rows.push_back({.what = "add or cancel with 1,000,000 resting", .value = deep, .unit = "ns"});
  rows.push_back({.what = "  as a multiple of the empty book",
                  .value = deep / empty,
                  .unit = "x",
                  .goal = 3,
                  .better = Better::kLower,
                  .peer = "liquibook falls to 22,000/s at 270,000",
                  .peer_source = PeerSource::kQuoted});
}

std::vector<Row> market_rows() {
  std::vector<Row> rows;
  single_slot(rows);
  rectangles(rows);
  deep_book(rows);
  return rows;
}

}  // namespace

Suite market_suite() {
  return {"market", "the exchange through the engine: single slots, rectangles, a deep book", market_rows};
}

}  // namespace tranche::bench
