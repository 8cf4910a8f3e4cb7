// SPDX-License-Identifier: Apache-2.0
#include "policy/matching.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tranche::policy {
namespace {

// The worst rank on the other side that the taker's price reaches.
std::int64_t limit_of(const MarketOrder& taker) {
  return taker.side == Side::kBuy ? taker.price : -taker.price;
}

bool admitted(const Admission& admission, const MarketOrder& taker, const MarketOrder& maker) {
  if ((!taker.restricted && !maker.restricted) || admission.admits == nullptr) return true;
  const bool sells = taker.side == Side::kSell;
  return admission.admits(admission.context, sells ? taker : maker, sells ? maker : taker);
}

// A fill smaller than an order's minimum is welcome only when it takes all that is open.
bool enough(const MarketOrder& order, std::uint32_t quantity, std::uint32_t open) {
  return quantity >= order.quantity_min || quantity == open;
}

struct Run {  // Slots next to each other, and what both sides have open in all of them.
  std::int64_t first = 0;
  std::uint32_t slots = 0;
  std::uint32_t quantity = 0;
};

// What of the taker is still wanted, slot by slot.
class Wanted {
 public:
  explicit Wanted(const MarketOrder& taker) : first_(taker.first_slot), open_(taker.slots, taker.open) {
    if (!taker.open_by_slot.empty()) open_ = taker.open_by_slot;
    for (const std::uint32_t one : open_) left_ += one;
  }
  [[nodiscard]] bool done() const { return left_ == 0; }
  [[nodiscard]] std::uint32_t at(std::int64_t slot) const {
    return open_[static_cast<std::size_t>(slot - first_)];
  }
  void take(const Run& run) {
    for (std::uint32_t i = 0; i < run.slots; ++i)
      open_[static_cast<std::size_t>(run.first - first_) + i] -= run.quantity;
    left_ -= static_cast<std::int64_t>(run.slots) * run.quantity;
  }

 private:
  std::int64_t first_;
  std::vector<std::uint32_t> open_;
  std::int64_t left_ = 0;
};

// The next run at or after `from` in which both have something open; no slots: there is none.
Run next_run(const MarketOrder& taker, const Wanted& wanted, const MarketOrder& maker, std::int64_t from) {
  const std::int64_t end = std::min(taker.end_slot(), maker.end_slot());
  std::int64_t slot = std::max({from, taker.first_slot, maker.first_slot});
  const auto both = [&](std::int64_t at) { return std::min(wanted.at(at), maker.open_at(at)); };
  while (slot < end && both(slot) == 0) ++slot;
  if (slot >= end) return {.first = end};
  Run run{.first = slot, .slots = 0, .quantity = both(slot)};
  for (; slot < end && both(slot) > 0; ++slot) {
    run.quantity = std::min(run.quantity, both(slot));
    ++run.slots;
  }
  return run;
}

bool acceptable(const MarketOrder& order, const Run& run, std::uint32_t open) {
  return run.slots >= order.slots_min && enough(order, run.quantity, open);
}

}  // namespace

std::int64_t MarketOrder::open_area() const {
  if (open_by_slot.empty()) return static_cast<std::int64_t>(open) * slots;
  std::int64_t area = 0;
  for (const std::uint32_t one : open_by_slot) area += one;
  return area;
}

template <class Visit>
void OrderBooks::each_lane_key(const MarketOrder& order, Visit visit) const {
  if (order.slots == 1) return visit(slot_lane(order.book, order.first_slot));
  const std::int64_t last = (order.end_slot() - 1) / kLaneSlots;
  for (std::int64_t day = order.first_slot / kLaneSlots; day <= last; ++day)
    visit(wide_lane(order.book, day * kLaneSlots));
}

void OrderBooks::into_lanes(const MarketOrder& order) {
  each_lane_key(order, [&](std::uint64_t key) { lanes_[key].of(order.side).add({order.rank(), order.id}); });
}

void OrderBooks::out_of_lanes(const MarketOrder& order) {
  each_lane_key(order, [&](std::uint64_t key) {
    Lane* lane = lanes_.find(key);
    if (lane != nullptr) lane->of(order.side).remove({order.rank(), order.id});
  });
}

void OrderBooks::rest(const MarketOrder& order) {
  TRANCHE_CHECK(order.slots > 0);
  const MarketOrder& kept = orders_.insert(order.id, order);
  if (!kept.quoted) into_lanes(kept);
}

void OrderBooks::remove(std::uint64_t id) {
  const MarketOrder* order = orders_.find(id);
  if (order == nullptr) return;
  out_of_lanes(*order);
  orders_.erase(id);
}

void OrderBooks::take(std::uint64_t id,
                      std::int64_t first_slot,
                      std::uint32_t slots,
                      std::uint32_t quantity) {
  MarketOrder* order = orders_.find(id);
  TRANCHE_CHECK(order != nullptr);
  const bool all_of_it = slots == order->slots && order->open_by_slot.empty();
  if (all_of_it) {
    TRANCHE_CHECK(order->open >= quantity);
    order->open -= quantity;
  } else {
    if (order->open_by_slot.empty()) order->open_by_slot.assign(order->slots, order->open);
    for (std::uint32_t i = 0; i < slots; ++i) {
      auto& open = order->open_by_slot[static_cast<std::size_t>(first_slot - order->first_slot) + i];
      TRANCHE_CHECK(open >= quantity);
      open -= quantity;
    }
  }
  if (order->open_area() == 0) remove(id);
}

void OrderBooks::reprice(std::uint64_t id, std::int64_t price) {
  MarketOrder* order = orders_.find(id);
  if (order == nullptr || order->quoted) return;
  out_of_lanes(*order);
  order->price = price;
  into_lanes(*order);
}

void OrderBooks::set_held(std::uint64_t id, Money held) {
  if (MarketOrder* order = orders_.find(id)) order->held = held;
}

void OrderBooks::restrict(std::uint64_t id) {
  if (MarketOrder* order = orders_.find(id)) order->restricted = true;
}

void OrderBooks::unquote(std::uint64_t id) {
  MarketOrder* order = orders_.find(id);
  if (order == nullptr || !order->quoted) return;
  order->quoted = false;
  into_lanes(*order);
}

void OrderBooks::drop_empty_lanes() {
  for (const std::uint64_t key : lanes_.ids()) {
    const Lane& lane = *lanes_.find(key);
    if (lane.bids.empty() && lane.asks.empty()) lanes_.erase(key);
  }
}

Match OrderBooks::match(const MarketOrder& taker, const Admission& admission) const {
  Match match;
  taker.slots == 1 ? match_slot(taker, admission, match) : match_window(taker, admission, match);
  if (taker.time_in_force == TimeInForce::kFok && !match.complete) match.fills.clear();
  return match;
}

// One slot, the usual case: nothing is allocated unless something trades.
void OrderBooks::match_slot(const MarketOrder& taker, const Admission& admission, Match& match) const {
  const Side other = taker.side == Side::kBuy ? Side::kSell : Side::kBuy;
  std::uint32_t left = taker.open_at(taker.first_slot);
  const auto meet = [&](const MarketOrder& maker) {
    if (maker.slots_min > 1 || taker.slots_min > 1 || !admitted(admission, taker, maker)) return true;
    const std::uint32_t there = maker.open_at(taker.first_slot);
    const std::uint32_t quantity = std::min(left, there);
    if (!enough(maker, quantity, there) || !enough(taker, quantity, left)) return true;
    if (maker.tenant == taker.tenant) {
      match.met_itself = true;
      return false;
    }
    match.fills.push_back({maker.id, maker.price, taker.first_slot, 1, quantity});
    left -= quantity;
    return left > 0;
  };
  each_at(taker.book, taker.first_slot, other, meet, limit_of(taker));
  match.complete = left == 0;
}

// Everything on the other side that the window touches and the price reaches, best first, each once.
std::vector<Rung> OrderBooks::candidates(const MarketOrder& taker) const {
  std::vector<Rung> found;
  const Side other = taker.side == Side::kBuy ? Side::kSell : Side::kBuy;
  const std::int64_t limit = limit_of(taker);
  const auto gather = [&](std::uint64_t key) {
    const Lane* lane = lanes_.find(key);
    if (lane == nullptr) return;
    const Ladder& ladder = lane->of(other);
    Ladder::Cursor cursor;
    for (const Rung* rung = ladder.at(cursor); rung != nullptr && rung->rank <= limit;
         rung = ladder.at(cursor)) {
      found.push_back(*rung);
      ladder.advance(cursor);
    }
  };
  const bool whole_only = taker.slots_min == taker.slots;
  const std::int64_t last_day = (whole_only && taker.side == Side::kBuy)
                                    ? taker.first_slot / kLaneSlots  // A cover of all touches the first day.
                                    : (taker.end_slot() - 1) / kLaneSlots;
  for (std::int64_t day = taker.first_slot / kLaneSlots; day <= last_day; ++day)
    gather(wide_lane(taker.book, day * kLaneSlots));
  const std::size_t lanes = static_cast<std::size_t>(last_day - taker.first_slot / kLaneSlots) + 1;
  if (taker.slots_min == 1) {
    for (std::int64_t slot = taker.first_slot; slot < taker.end_slot(); ++slot)
      gather(slot_lane(taker.book, slot));
  }
  if (lanes > 1 || taker.slots_min == 1) {
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
  return found;
}

void OrderBooks::match_window(const MarketOrder& taker, const Admission& admission, Match& match) const {
  const std::vector<Rung> makers = candidates(taker);
  if (makers.empty()) return;
  Wanted wanted(taker);
  for (const Rung& rung : makers) {
    const MarketOrder& maker = *orders_.find(rung.order);
    if (!admitted(admission, taker, maker)) continue;
    for (std::int64_t from = taker.first_slot; !wanted.done();) {
      const Run run = next_run(taker, wanted, maker, from);
      if (run.slots == 0) break;
      from = run.first + run.slots;
      if (!acceptable(taker, run, wanted.at(run.first)) || !acceptable(maker, run, maker.open_at(run.first)))
        continue;
      if (maker.tenant == taker.tenant) {
        match.met_itself = true;
        return;
      }
      match.fills.push_back({maker.id, maker.price, run.first, run.slots, run.quantity});
      wanted.take(run);
    }
    if (wanted.done()) break;
  }
  match.complete = wanted.done();
}

}  // namespace tranche::policy
