// SPDX-License-Identifier: Apache-2.0
// Which book an order belongs in. A bid that names no region, or a family of devices, may go to several: it
// goes where it gets most, for least.
#include <algorithm>

#include "engine/market_fill.hpp"
#include "engine/price.hpp"
#include "engine/spend.hpp"
#include "engine/trade_rules.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kAnyPrice = INT32_MAX;

bool is_meant(const Instrument& traded, const Instrument& asked) {
  return is_model(traded.model, asked.model) && traded.shape == asked.shape &&
         traded.isolation == asked.isolation && traded.interruptible == asked.interruptible &&
         (asked.region.empty() || traded.region == asked.region);
}

struct Terms {
  std::int64_t area = 0;
  std::int64_t cost = 0;
  [[nodiscard]] bool better_than(const Terms& other) const {
    return area != other.area ? area > other.area : cost < other.cost;
  }
};

Terms terms_in(const State& state, const PlaceOrder& order, std::uint64_t book) {
  MarketOrder bid{.id = state.market.next_order,
                  .book = book,
                  .party = order.party,
                  .tenant = tenant_of(state, order.party),
                  .time_in_force = TimeInForce::kIoc,
                  .restricted = has_trade_rules(state, order.party),
                  .workload = static_cast<std::uint8_t>(order.workload),
                  .price = order.price == 0 ? kAnyPrice : order.price,
                  .first_slot = order.first_slot,
                  .slots = order.slots,
                  .quantity = order.quantity,
                  .open = order.quantity,
                  .quantity_min = order.quantity_min,
                  .slots_min = order.slots_min != 0 ? order.slots_min : order.slots};
  const Admitting context{state, nullptr};
  Terms offered;
  for (const policy::Fill& fill : state.market.books.match(bid, admission_of(context)).fills) {
    const std::int64_t area = std::int64_t{fill.quantity} * fill.slots;
    offered.area += area;
    offered.cost += fill.price * area;
  }
  return offered;
}

}  // namespace

Instrument canonical(Instrument instrument) {
  if (const wire::GpuModel* known = wire::find_gpu_model(instrument.model)) instrument.model = known->name;
  return instrument;
}

std::uint64_t book_for(const State& state, const PlaceOrder& order) {
  const Market& market = state.market;
  const auto exact = market.by_instrument.find(order.instrument);
  const bool known = exact != market.by_instrument.end();
  if (order.side == Side::kSell || (known && !order.instrument.region.empty()))
    return known ? exact->second : 0;
  std::vector<std::uint64_t> books;
  for (const BookState& book : market.instruments) {
    if (!is_meant(book.instrument, order.instrument)) continue;
    if (region_problem(state, order.party, order.workload, book.instrument.region)) continue;
    books.push_back(book.id);
  }
  if (books.size() < 2 || order.slots == 0)
    return books.size() == 1 ? books.front() : known ? exact->second : 0;
  std::uint64_t best = 0;
  Terms most;
  for (const std::uint64_t book : books) {
    const Terms offered = terms_in(state, order, book);
    if (offered.area == 0 || (best != 0 && !offered.better_than(most))) continue;
    best = book;
    most = offered;
  }
  if (best != 0) return best;
  return known ? exact->second : books.front();
}

}  // namespace tranche::engine
