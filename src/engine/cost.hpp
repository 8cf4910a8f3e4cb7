// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reports over what was charged: costs by a dimension, and invoices of a period.
#include "engine/state.hpp"
#include "wire/api_money.hpp"

namespace tranche::engine {

// Costs at and below a party, of the days from `from` until before `to`; a credit note counts on the day it
// was made.
[[nodiscard]] wire::CostReport cost_report(
    const State&, PartyId party, wire::CostBy by, Instant from, Instant to, const std::string& tag = {});

// Months with a line on the party's invoice, newest first.
[[nodiscard]] std::vector<Instant> months_charged(const State&, PartyId party);
[[nodiscard]] wire::CreditNoteView view_of(const State&, const CreditNote&);
// Lines round half to even to whole cents; the total is their sum, and what that is above the exact sum is
// shown beside it. Credit notes stand beside it too, and change none of this.
[[nodiscard]] wire::InvoiceView invoice(const State&, PartyId party, Instant from, Instant to);
[[nodiscard]] std::int64_t round_to_cents(std::int64_t micros);

}  // namespace tranche::engine
