// SPDX-License-Identifier: Apache-2.0
#include "engine/contract_costs.hpp"

#include <algorithm>

#include "engine/billing.hpp"
#include "engine/contract_terms.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_portion.hpp"

namespace tranche::engine {
namespace {

// Of an interval: as long as the contract was delivered.
Duration within(const Contract& contract, Instant from, Instant to) {
  const bool down = contract.down_since != Instant{};  // From then on it is refunded.
  const Instant end = down ? std::min(contract.down_since, contract.end) : contract.end;
  return std::max(std::min(to, end) - std::max(from, contract.start), Duration{});
}

bool is_partition(const State& state, const Contract& contract) {
  return contract.book > 0 && contract.book <= state.market.instruments.size() &&
         !state.market.instruments[contract.book - 1].instrument.shape.empty();
}

// Thousandths of a device that it is for: a partition is traded in thousandths of itself.
std::int64_t device_milli(const State& state, const Contract& contract) {
  if (!is_partition(state, contract)) return contract.quantity;
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  const Device* device = piece == nullptr ? nullptr : state.device(device_under(state, *piece));
  if (device == nullptr) return contract.quantity;
  const Instrument& traded = state.market.instruments[contract.book - 1].instrument;
  return slice_of(state, {*device, kWholePortion, traded.isolation, traded.shape, piece->start}).milli;
}

// Splits what was delivered since the last settlement over the days that it fell on.
template <class Visit>
void by_day(Instant from, Instant to, std::int64_t time, Money worth, Visit visit) {
  const auto part = [&](std::int64_t whole, Instant until) {
    return until >= to
               ? whole
               : static_cast<std::int64_t>(Int128{whole} * (until - from).count() / (to - from).count());
  };
  std::int64_t time_before = 0, worth_before = 0;
  for (Instant at = from;;) {
    const Instant midnight = std::chrono::floor<std::chrono::days>(at) + std::chrono::days(1);
    const Instant end = std::min(to, midnight);
    visit(at, part(time, end) - time_before, Money{part(worth.micros, end) - worth_before});
    if (end >= to) return;
    time_before = part(time, end);
    worth_before = part(worth.micros, end);
    at = end;
  }
}

struct Delivered {
  Instant from{}, to{};
  Duration more{};
};

Delivered since_counted(const Contract& contract, Instant until, Duration lost) {
  if (contract.counted == Duration::max()) return {};
  const Instant to = std::clamp(until, contract.start, contract.end);
  return {
      std::clamp(contract.settled, contract.start, to), to, to - contract.start - lost - contract.counted};
}

}  // namespace

std::int64_t bought_milliseconds(const State& state, const Contract& contract) {
  return device_milli(state, contract) * (contract.end - contract.start).count() / 1000;
}

Charge part_of_contract(const State& state, const Meter& meter, Instant from, Instant to) {
  const Contract* contract = state.market.contracts.find(meter.plan.contract.value);
  if (contract == nullptr) return {};
  const Duration held = within(*contract, from, to);
  const Int128 whole = Int128{contract->quantity} * (contract->end - contract->start).count();
  if (held == Duration{} || whole <= 0) return {{}, meter.remainder};
  const std::int64_t milli = is_partition(state, *contract)
                                 ? contract->quantity
                                 : std::min<std::int64_t>(meter.plan.milli, contract->quantity);
  const Int128 sum = Int128{contract->value.micros} * milli * held.count() + meter.remainder;
  return {{static_cast<std::int64_t>(sum / whole)}, static_cast<std::int64_t>(sum % whole)};
}

void move_bought(State& state, const Meter& meter, const Charged& event, CostLine& job) {
  const Contract* contract = state.market.contracts.find(meter.plan.contract.value);
  if (contract == nullptr) return;
  const std::int64_t held = meter.plan.milli * within(*contract, event.from, event.to).count() / 1000;
  job.bought.micros += event.bought.micros;
  job.bought_time += held;
  CostLine& exchange =
      cost_line(state, {.party = contract->buyer, .payer = contract->buyer_pays, .at = event.from});
  exchange.bought.micros -= event.bought.micros;
  exchange.bought_time -= held;
}

void count_as_delivered(CostLine& of_exchange) {
  if (of_exchange.as_delivered) return;
  of_exchange.as_delivered = true;
  of_exchange.delivered.micros += of_exchange.amount.micros - of_exchange.credited.micros;
  of_exchange.bought_time += of_exchange.allocated;
}

void count_delivery(State& state, Contract& contract, Instant until, Duration lost, Money earned) {
  const Delivered delivered = since_counted(contract, until, lost);
  if (delivered.more <= Duration{}) return;
  contract.counted += delivered.more;
  const std::int64_t time = device_milli(state, contract) * delivered.more.count() / 1000;
  by_day(delivered.from, delivered.to, time, earned, [&](Instant day, std::int64_t part, Money worth) {
    CostLine& line = cost_line(state, {.party = contract.buyer, .payer = contract.buyer_pays, .at = day});
    count_as_delivered(line);
    line.bought_time += part;
    line.delivered.micros += worth.micros;
  });
}

void each_uncounted(const State& state, const VisitDelivered& visit) {
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    const Delivered delivered = since_counted(contract, state.now, lost_by(contract, state.now));
    if (delivered.more <= Duration{}) continue;
    const std::int64_t time = device_milli(state, contract) * delivered.more.count() / 1000;
    const Money worth = settle(state, contract, state.now, false).earned;
    by_day(delivered.from, delivered.to, time, worth, [&](Instant day, std::int64_t part, Money part_worth) {
      visit({.day = std::chrono::floor<std::chrono::days>(day),
             .party = contract.buyer,
             .payer = contract.buyer_pays},
            part,
            part_worth);
    });
  }
}

}  // namespace tranche::engine
