// SPDX-License-Identifier: Apache-2.0
#include "policy/matching.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <map>

#include "base/random.hpp"

namespace tranche::policy {
namespace {

PartyId tenant(std::uint64_t number) {
  return PartyId::make(PartyKind::kTenant, number);
}

MarketOrder order(std::uint64_t id, Side side, std::int64_t price, std::uint32_t quantity) {
  return {.id = id,
          .book = 1,
          .tenant = tenant(id),
          .side = side,
          .price = price,
          .first_slot = 100,
          .slots = 1,
          .quantity = quantity,
          .open = quantity};
}

MarketOrder window(MarketOrder from, std::int64_t first, std::uint32_t slots, std::uint32_t slots_min) {
  from.first_slot = first;
  from.slots = slots;
  from.slots_min = slots_min;
  return from;
}

TEST_CASE("matching: the better price first, then the older order, at the resting price") {
  OrderBooks books;
  books.rest(order(1, Side::kSell, 12, 500));
  books.rest(order(2, Side::kSell, 10, 300));
  books.rest(order(3, Side::kSell, 10, 300));
  const Match match = books.match(order(9, Side::kBuy, 12, 800));
  CHECK(match.complete);
  CHECK(match.fills == std::vector<Fill>{{2, 10, 100, 1, 300}, {3, 10, 100, 1, 300}, {1, 12, 100, 1, 200}});
}

TEST_CASE("matching: fill-or-kill takes all or nothing, immediate-or-cancel takes what there is") {
  OrderBooks books;
  books.rest(order(1, Side::kSell, 10, 500));
  MarketOrder bid = order(9, Side::kBuy, 10, 800);
  bid.time_in_force = TimeInForce::kFok;
  CHECK(books.match(bid).fills.empty());
  bid.time_in_force = TimeInForce::kIoc;
  CHECK(books.match(bid).fills == std::vector<Fill>{{1, 10, 100, 1, 500}});
}

TEST_CASE("matching: nobody trades with his own tree; the newer order gives way") {
  OrderBooks books;
  books.rest(order(1, Side::kSell, 10, 500));
  MarketOrder bid = order(9, Side::kBuy, 10, 800);
  bid.tenant = tenant(1);
  const Match match = books.match(bid);
  CHECK(match.met_itself);
  CHECK(match.fills.empty());
}

TEST_CASE("matching: a window is served by one piece unless its owner lets it be stitched") {
  OrderBooks books;
  books.rest(window(order(1, Side::kSell, 10, 1000), 96, 8, 1));
  books.rest(window(order(2, Side::kSell, 9, 1000), 96, 2, 1));
  books.rest(window(order(3, Side::kSell, 8, 1000), 97, 1, 1));
  const MarketOrder whole = window(order(9, Side::kBuy, 10, 500), 96, 4, 4);
  CHECK(books.match(whole).fills == std::vector<Fill>{{1, 10, 96, 4, 500}});
  const MarketOrder stitched = window(order(9, Side::kBuy, 10, 500), 96, 4, 1);
  CHECK(books.match(stitched).fills ==
        std::vector<Fill>{{3, 8, 97, 1, 500}, {2, 9, 96, 1, 500}, {1, 10, 98, 2, 500}});
}

TEST_CASE("matching: minimum quantity and duration of either side hold") {
  OrderBooks books;
  MarketOrder ask = window(order(1, Side::kSell, 10, 1000), 96, 8, 4);
  ask.quantity_min = 500;
  books.rest(ask);
  CHECK(books.match(window(order(9, Side::kBuy, 10, 1000), 96, 2, 2)).fills.empty());
  CHECK(books.match(window(order(9, Side::kBuy, 10, 400), 96, 4, 4)).fills.empty());
  CHECK(books.match(window(order(9, Side::kBuy, 10, 500), 96, 4, 4)).fills.size() == 1);
}

TEST_CASE("matching: an ask that is not for everybody is passed over") {
  OrderBooks books;
  MarketOrder ask = order(1, Side::kSell, 10, 1000);
  ask.restricted = true;
  books.rest(ask);
  const Admission none{[](const void*, const MarketOrder&, const MarketOrder&) { return false; }, nullptr};
  CHECK(books.match(order(9, Side::kBuy, 10, 500), none).fills.empty());
  CHECK(books.match(order(9, Side::kBuy, 10, 500)).fills.size() == 1);
}

// The same rules, written again without ladders, lanes or shortcuts: every order has one cell a slot, and
// each match looks at all of them.
struct NaiveOrder {
  MarketOrder said{};
  std::map<std::int64_t, std::uint32_t> cells{};
};
struct NaiveBooks {
  std::map<std::uint64_t, NaiveOrder> orders{};

  static NaiveOrder spread(const MarketOrder& said) {
    NaiveOrder out{said, {}};
    for (std::uint32_t i = 0; i < said.slots; ++i) out.cells[said.first_slot + i] = said.quantity;
    return out;
  }

  static std::uint32_t cell(const NaiveOrder& order, std::int64_t slot) {
    const auto found = order.cells.find(slot);
    return found == order.cells.end() ? 0 : found->second;
  }

  Match match(const MarketOrder& said) const {
    NaiveOrder taker = spread(said);
    std::vector<const NaiveOrder*> makers;
    for (const auto& [id, maker] : orders) {
      if (maker.said.book != said.book || maker.said.side == said.side) continue;
      const bool reaches =
          said.side == Side::kBuy ? maker.said.price <= said.price : maker.said.price >= said.price;
      if (reaches) makers.push_back(&maker);
    }
    std::stable_sort(makers.begin(), makers.end(), [&](const NaiveOrder* a, const NaiveOrder* b) {
      return said.side == Side::kBuy ? a->said.price < b->said.price : a->said.price > b->said.price;
    });
    Match out;
    for (const NaiveOrder* maker : makers) {
      std::int64_t slot = said.first_slot;
      while (slot < said.end_slot()) {
        std::int64_t end = slot;
        std::uint32_t quantity = UINT32_MAX;
        while (end < said.end_slot() && cell(taker, end) > 0 && cell(*maker, end) > 0) {
          quantity = std::min({quantity, cell(taker, end), cell(*maker, end)});
          ++end;
        }
        const auto length = static_cast<std::uint32_t>(end - slot);
        if (length == 0) {
          ++slot;
          continue;
        }
        const auto agrees = [&](const MarketOrder& one, std::uint32_t open) {
          return length >= one.slots_min && (quantity >= one.quantity_min || quantity == open);
        };
        if (agrees(said, cell(taker, slot)) && agrees(maker->said, cell(*maker, slot))) {
          if (maker->said.tenant == said.tenant) {
            out.met_itself = true;
            return said.time_in_force == TimeInForce::kFok ? Match{{}, true, false} : out;
          }
          out.fills.push_back({maker->said.id, maker->said.price, slot, length, quantity});
          for (std::int64_t at = slot; at < end; ++at) taker.cells[at] -= quantity;
        }
        slot = end;
      }
    }
    out.complete =
        std::all_of(taker.cells.begin(), taker.cells.end(), [](const auto& one) { return one.second == 0; });
    if (said.time_in_force == TimeInForce::kFok && !out.complete) out.fills.clear();
    return out;
  }

  void take(std::uint64_t id, const Fill& fill) {
    NaiveOrder& order = orders.at(id);
    bool any = false;
    for (std::uint32_t i = 0; i < fill.slots; ++i) order.cells[fill.first_slot + i] -= fill.quantity;
    for (const auto& [slot, open] : order.cells) any = any || open > 0;
    if (!any) orders.erase(id);
  }
};

MarketOrder any_order(Random& random, std::uint64_t id) {
  MarketOrder out = order(id,
                          random.below(2) == 0 ? Side::kBuy : Side::kSell,
                          90 + static_cast<std::int64_t>(random.below(20)),
                          100 * static_cast<std::uint32_t>(1 + random.below(10)));
  out.book = 1 + random.below(2);
  out.tenant = tenant(1 + random.below(6));
  out.time_in_force = static_cast<TimeInForce>(random.below(4));
  out.first_slot = 90 + static_cast<std::int64_t>(random.below(12));
  out.slots = random.below(2) == 0 ? 1 : static_cast<std::uint32_t>(1 + random.below(12));
  const std::uint64_t split = random.below(3);
  out.slots_min = split == 0   ? 1
                  : split == 1 ? out.slots
                               : static_cast<std::uint32_t>(1 + random.below(out.slots));
  out.quantity_min = random.below(3) == 0 ? 300 : 0;
  return out;
}

TEST_CASE("matching: random orders trade as an independent model of the rules says") {
  const bool thorough = std::getenv("TRANCHE_LONG") != nullptr;
  const std::uint64_t seeds = thorough ? 200 : 20;
  std::uint64_t traded = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    OrderBooks books;
    NaiveBooks model;
    for (std::uint64_t id = 1; id <= 1500; ++id) {
      if (random.below(5) == 0 && !model.orders.empty()) {
        auto victim = model.orders.begin();
        std::advance(victim, random.below(model.orders.size()));
        books.remove(victim->first);
        model.orders.erase(victim);
        continue;
      }
      const MarketOrder taker = any_order(random, id);
      const Match match = books.match(taker);
      const Match wanted = model.match(taker);
      REQUIRE(match.fills == wanted.fills);
      REQUIRE(match.met_itself == wanted.met_itself);
      traded += match.fills.size();
      books.rest(taker);
      model.orders[id] = NaiveBooks::spread(taker);
      for (const Fill& fill : match.fills) {
        for (const std::uint64_t side : {fill.maker, id}) {
          books.take(side, fill.first_slot, fill.slots, fill.quantity);
          model.take(side, fill);
        }
      }
      const bool rests = taker.time_in_force == TimeInForce::kGtc || taker.time_in_force == TimeInForce::kGtd;
      if (!rests || match.met_itself) {
        books.remove(id);
        model.orders.erase(id);
      }
      REQUIRE(books.size() == model.orders.size());
    }
    for (const auto& [id, naive] : model.orders) {
      const MarketOrder* real = books.order(id);
      REQUIRE(real != nullptr);
      for (const auto& [slot, open] : naive.cells) CHECK(real->open_at(slot) == open);
    }
  }
  CHECK(traded > seeds * 100);
}

}  // namespace
}  // namespace tranche::policy
