// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order books of the exchange: who trades with whom, at which price, over which slots of time.
//
// An order is a rectangle: a quantity of one shape, in thousandths, during a run of slots. Prices are whole
// micro-units for one thousandth during one slot, so that every product is exact. The better price goes
// first, then the older order; what trades, trades at the price of the order that rested.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <vector>

#include "base/id_table.hpp"
#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "policy/matching_ladder.hpp"

namespace tranche::policy {

enum class Side : std::uint8_t { kBuy, kSell };
BOOST_DESCRIBE_ENUM(Side, kBuy, kSell)

enum class TimeInForce : std::uint8_t {
  kGtc,  // Good till cancelled, or until its window is over.
  kGtd,  // Good till a date.
  kIoc,  // What can be had at once; the rest is cancelled.
  kFok,  // All of it at once, or nothing.
};
BOOST_DESCRIBE_ENUM(TimeInForce, kGtc, kGtd, kIoc, kFok)

struct MarketOrder {
  std::uint64_t id = 0;  // Grows with time: the priority among equal prices.
  std::uint64_t book = 0;
  PartyId party{};   // Who trades.
  PartyId tenant{};  // Whose tree it is in: nobody trades with himself.
  PartyId payer{};   // Whose account stands for it.
  Side side = Side::kBuy;
  TimeInForce time_in_force = TimeInForce::kGtc;
  bool restricted = false;  // Not everybody may trade with it: ask Admission.
  std::uint8_t workload = 0;
  bool quoted = false;     // Kept for a quote: nobody else meets it.
  std::int64_t price = 0;  // Micro-units for a thousandth during a slot.
  std::int64_t first_slot = 0;
  std::uint32_t slots = 1;
  std::uint32_t quantity = 0;      // Thousandths, as placed.
  std::uint32_t open = 0;          // Thousandths in every slot, while all slots are alike.
  std::uint32_t quantity_min = 0;  // Of one fill, unless it takes all that is open.
  std::uint32_t slots_min = 1;     // Of one fill. As many as `slots`: all of the window or none of it.
  Instant expires{};
  Money held{};             // Set aside for what is open: the price of a bid, the bond of an ask.
  std::uint64_t piece = 0;  // What an ask sells from.
  std::int64_t floor = 0;   // An ask's price falls to this until its window begins; zero: it stays.
  std::int64_t price_first = 0;
  Instant decays_from{};
  std::vector<std::uint32_t> open_by_slot{};  // In use once slots differ.

  [[nodiscard]] std::int64_t end_slot() const { return first_slot + slots; }
  [[nodiscard]] std::uint32_t open_at(std::int64_t slot) const {
    if (slot < first_slot || slot >= end_slot()) return 0;
    return open_by_slot.empty() ? open : open_by_slot[static_cast<std::size_t>(slot - first_slot)];
  }
  [[nodiscard]] std::int64_t open_area() const;  // Thousandths times slots.
  [[nodiscard]] std::int64_t rank() const { return side == Side::kSell ? price : -price; }
};
BOOST_DESCRIBE_STRUCT(MarketOrder,
                      (),
                      (id,
                       book,
                       party,
                       tenant,
                       payer,
                       side,
                       time_in_force,
                       restricted,
                       workload,
                       price,
                       first_slot,
                       slots,
                       quantity,
                       open,
                       quantity_min,
                       slots_min,
                       expires,
                       held,
                       piece,
                       floor,
                       price_first,
                       decays_from,
                       open_by_slot,
                       quoted))

// Whether a bid may take from an ask, where either is not for everybody.
struct Admission {
  bool (*admits)(const void* context, const MarketOrder& ask, const MarketOrder& bid) = nullptr;
  const void* context = nullptr;
};

struct Fill {
  std::uint64_t maker = 0;
  std::int64_t price = 0;
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
  std::uint32_t quantity = 0;
  bool operator==(const Fill&) const = default;
};

struct Match {
  std::vector<Fill> fills{};
  bool met_itself = false;  // The best left to take is of the same tenant: the newer order gives way.
  bool complete = false;    // Nothing of the taker is left.
};

class OrderBooks {
 public:
  [[nodiscard]] const MarketOrder* order(std::uint64_t id) const { return orders_.find(id); }
  [[nodiscard]] std::size_t size() const { return orders_.size(); }
  [[nodiscard]] std::vector<std::uint64_t> ids() const { return orders_.ids(); }

  // What an order would trade if it came now. Fill-or-kill gives no fills unless it is complete.
  [[nodiscard]] Match match(const MarketOrder& taker, const Admission& admission = {}) const;

  void rest(const MarketOrder& order);  // One that is kept for a quote is only remembered.
  void remove(std::uint64_t id);
  // Takes away what a fill took; an order with nothing open goes.
  void take(std::uint64_t id, std::int64_t first_slot, std::uint32_t slots, std::uint32_t quantity);
  void reprice(std::uint64_t id, std::int64_t price);
  void set_held(std::uint64_t id, Money held);
  void restrict(std::uint64_t id);  // From now on not everybody may trade with it.
  void unquote(std::uint64_t id);   // The quote is over: it rests like any other.
  void drop_empty_lanes();

  // Calls visit(order) for the orders of a side that touch a slot, best first, until it returns false. No
  // order whose rank is above the limit is looked at.
  template <class Visit>
  void each_at(
      std::uint64_t book, std::int64_t slot, Side side, Visit visit, std::int64_t limit = INT64_MAX) const;

 private:
  struct Lane {  // Orders that a window may meet: of one slot, or wider ones that touch one day.
    Ladder bids, asks;
    [[nodiscard]] const Ladder& of(Side side) const { return side == Side::kBuy ? bids : asks; }
    [[nodiscard]] Ladder& of(Side side) { return side == Side::kBuy ? bids : asks; }
  };

  template <class Visit>
  void each_lane_key(const MarketOrder& order, Visit visit) const;
  void into_lanes(const MarketOrder& order);
  void out_of_lanes(const MarketOrder& order);
  void match_slot(const MarketOrder& taker, const Admission& admission, Match& match) const;
  void match_window(const MarketOrder& taker, const Admission& admission, Match& match) const;
  [[nodiscard]] std::vector<Rung> candidates(const MarketOrder& taker) const;

  IdTable<MarketOrder> orders_;
  IdTable<Lane> lanes_;
};

constexpr std::int64_t kLaneSlots = 96;  // Width of a lane of wide orders.

// Lane ids: book, whether wide, slot or day. Slots of the next centuries fit 31 bits.
constexpr std::uint64_t slot_lane(std::uint64_t book, std::int64_t slot) {
  return (book << 32U) | static_cast<std::uint64_t>(slot & 0x7FFFFFFF);
}
constexpr std::uint64_t wide_lane(std::uint64_t book, std::int64_t slot) {
  return (book << 32U) | 0x80000000U | static_cast<std::uint64_t>((slot / kLaneSlots) & 0x7FFFFFFF);
}

template <class Visit>
void OrderBooks::each_at(
    std::uint64_t book, std::int64_t slot, Side side, Visit visit, std::int64_t limit) const {
  static const Ladder kNone;
  const Lane* narrow = lanes_.find(slot_lane(book, slot));
  const Lane* wide = lanes_.find(wide_lane(book, slot));
  const Ladder& a = narrow == nullptr ? kNone : narrow->of(side);
  const Ladder& b = wide == nullptr ? kNone : wide->of(side);
  if (!a.reaches(limit) && !b.reaches(limit)) return;
  Ladder::Cursor in_a, in_b;
  for (;;) {
    const Rung* left = a.at(in_a);
    const Rung* right = b.at(in_b);
    if (left == nullptr && right == nullptr) return;
    const bool from_a = right == nullptr || (left != nullptr && *left < *right);
    const Rung& next = from_a ? *left : *right;
    if (next.rank > limit) return;
    const MarketOrder& order = *orders_.find(next.order);
    from_a ? a.advance(in_a) : b.advance(in_b);
    if (order.open_at(slot) > 0 && !visit(order)) return;
  }
}

}  // namespace tranche::policy
