// SPDX-License-Identifier: Apache-2.0
#pragma once
// To whom it belongs what was bought on the exchange. It is paid once, by its buyer; as it is delivered, each
// job that runs in it has the part that it held, and what nobody held stays with the exchange.
#include <functional>

#include "engine/metering.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// What is bought by it, in thousandths of a device times milliseconds.
[[nodiscard]] std::int64_t bought_milliseconds(const State&, const Contract&);
// What an interval of a lease in a contract is worth: its part of the price, by what it held and how long.
[[nodiscard]] Charge part_of_contract(const State&, const Meter&, Instant from, Instant to);
// From the exchange's line of the buyer to the job's.
void move_bought(State&, const Meter&, const Charged&, CostLine& job);

// Into its buyer's costs: what was delivered since it was counted last, and is earned by that. `lost` is
// what was not, in all.
void count_delivery(State&, Contract&, Instant until, Duration lost, Money earned);
// Purchases of the line count as they are delivered from now on; those of before, which counted when they
// were made, go on to be worth what they were.
void count_as_delivered(CostLine& of_exchange);
// What will be counted with the next settlement, by day: thousandths times milliseconds, and its worth.
using VisitDelivered = std::function<void(const CostKey&, std::int64_t, Money)>;
void each_uncounted(const State&, const VisitDelivered&);

}  // namespace tranche::engine
