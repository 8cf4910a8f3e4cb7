// SPDX-License-Identifier: Apache-2.0
// Nothing could be had at once: which rule stood in the way, and what would pass.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "engine/market_fill.hpp"
#include "engine/market_portion.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kLookAhead = 96;

struct Left {  // What the other side has in the first slot of an order, by why it was not taken.
  std::int64_t best = 0;
  std::uint64_t reached = 0;                                            // At that price or a better one.
  std::uint32_t slots_least = UINT32_MAX, quantity_least = UINT32_MAX;  // Of what was reached.
  std::uint64_t own = 0, for_others = 0;
  std::set<wire::WorkloadKind> kinds{};  // Of what he might have for another kind of work.
};

void note_kinds(const Admitting& context, const MarketOrder& ask, MarketOrder bid, Left& left) {
  const Piece* piece = context.state.market.pieces.find(ask.piece);
  if (piece == nullptr) return;
  const policy::Admission admission = admission_of(context);
  for (const wire::WorkloadKind kind : piece->audience.kinds) {
    bid.workload = static_cast<std::uint8_t>(kind);
    if (admission.admits(&context, ask, bid)) left.kinds.insert(kind);
  }
}

Left left_for(const State& state, const MarketOrder& order) {
  Left left;
  const bool buys = order.side == Side::kBuy;
  const Admitting context{state, nullptr};
  const policy::Admission admission = admission_of(context);
  state.market.books.each_at(
      order.book, order.first_slot, buys ? Side::kSell : Side::kBuy, [&](const MarketOrder& maker) {
        const MarketOrder& ask = buys ? maker : order;
        const MarketOrder& bid = buys ? order : maker;
        if (maker.tenant == order.tenant) {
          left.own += maker.open_at(order.first_slot);
          return true;
        }
        if ((maker.restricted || order.restricted) && !admission.admits(&context, ask, bid)) {
          left.for_others += maker.open_at(order.first_slot);
          if (buys) note_kinds(context, ask, bid, left);
          return true;
        }
        if (left.best == 0) left.best = maker.price;
        if (buys ? maker.price > order.price : maker.price < order.price) return false;
        left.reached += maker.open_at(order.first_slot);
        left.slots_least = std::min(left.slots_least, maker.slots_min);
        left.quantity_least = std::min(left.quantity_least, maker.quantity_min);
        return true;
      });
  return left;
}

// Nothing is there in his window: when is the next that he may have, at whatever price? A day is looked at.
std::string next_offer(const State& state, const MarketOrder& order) {
  if (order.side != Side::kBuy) return {};
  MarketOrder later = order;
  later.price = INT64_MAX;
  while (later.first_slot < order.first_slot + kLookAhead) {
    ++later.first_slot;
    if (const Left left = left_for(state, later); left.reached > 0)
      return "from " + text(start_of(later.first_slot)) + " on something is offered, the best at " +
             price_text(left.best);
  }
  return {};
}

struct Words {
  std::string rule{}, message{}, fix{};
};

// There is something at that price, and none of it fits.
Words too_much_or_too_little(const MarketOrder& order, const Left& left) {
  if (left.slots_least > order.slots)
    return {"length_min",
            "what is offered there is for " + text(kSlot * left.slots_least) + " at least",
            "ask for that long, or let the order rest"};
  if (left.quantity_least > order.quantity)
    return {"quantity_min",
            "what is offered there is for " + portion_text(left.quantity_least) + " at least",
            "ask for that much, or let the order rest"};
  const std::string there =
      portion_text(left.reached) + " left at that price, the best is " + price_text(left.best);
  if (left.reached >= order.quantity)
    return {"",
            there + ", and not all of the window from one offer",
            "ask for a shorter time, or for parts: --min 15m"};
  return {"", there, "ask for at most " + portion_text(left.reached) + ", or let it be filled in parts"};
}

Words words_for(const State& state, const MarketOrder& order, const Left& left) {
  if (order.book == 0 || order.book > state.market.instruments.size())
    return {
        "", "nothing like that is traded here", "tranche market book shows what is; or let the order rest"};
  if (left.reached > 0) return too_much_or_too_little(order, left);
  if (left.best != 0)
    return {"",
            "nothing is left at that price, the best is " + price_text(left.best),
            "raise the limit to " + price_text(left.best) + ", or let the order rest"};
  if (left.own > 0)
    return {"self_trade",
            "what is offered in that window is of your own tenant, and nobody trades with himself",
            "cancel the other order (tranche market orders), or choose another window"};
  if (!left.kinds.empty()) {
    std::string list;
    for (const wire::WorkloadKind kind : left.kinds)
      list += (list.empty() ? "" : ", ") + std::string(wire::name_of(kind));
    return {"kinds",
            "what is offered in that window is only for " + list,
            "say what will run on it: --kind " + std::string(wire::name_of(*left.kinds.begin()))};
  }
  if (left.for_others > 0)
    return {"audience",
            "what is offered in that window is not for you: its owner chose others, a rule of one side keeps "
            "you apart, or it is a part of a device and you do not share devices",
            "see tranche rules show and tranche quota show, buy whole devices, or let the order rest"};
  const std::string next = next_offer(state, order);
  return {"",
          "nothing is offered in that window",
          next.empty() ? "choose another window, or let the order rest" : next + "; or let the order rest"};
}

}  // namespace

std::optional<Refusal> traded_window_problem(const MarketRules& rules,
                                             std::int64_t first_slot,
                                             std::uint32_t slots,
                                             Instant now) {
  if (first_slot < slot_of(now))
    return invalid("window", "the window begins in the past", "begin now or later");
  if (start_of(first_slot + slots) <= now + rules.horizon) return std::nullopt;
  return invalid("horizon",
                 "the window ends further ahead than is traded, " + text(rules.horizon),
                 "let it end at " + text(start_of(slot_of(now + rules.horizon))) + " or before");
}

Refusal nothing_left(const State& state, const MarketOrder& order) {
  const Left left = left_for(state, order);
  const auto [rule, message, fix] = words_for(state, order, left);
  const bool whole = order.time_in_force == TimeInForce::kFok;
  return {.reason = Reason::kConflict,
          .rule = !rule.empty() ? rule
                  : whole       ? "fill_or_kill"
                                : "immediate",
          .message = message,
          .fix = fix,
          .limit = static_cast<std::int64_t>(left.reached),
          .used = 0,
          .asked = order.quantity};
}

}  // namespace tranche::engine
