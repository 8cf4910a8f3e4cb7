// SPDX-License-Identifier: Apache-2.0
#pragma once
// From costs to invoices: to which line a cost belongs, what the invoice of a month says, and when it is
// issued.
#include <map>
#include <vector>

#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

struct CostOf {
  PartyId party{};
  PartyId payer{};
  JobId job{};  // Or a volume; neither: of the exchange.
  VolumeId volume{};
  CostSource source = CostSource::kUse;
  Instant at{};
};
// The line of a report to which a cost belongs. What comes after its period was billed is billed with the
// next, and a day on which a tax changes has two lines.
[[nodiscard]] CostLine& cost_line(State&, const CostOf&);
// Who is billed for a line; those of before payers were kept in them follow the tree as it is now.
[[nodiscard]] PartyId billed_to(const State&, const CostKey&);

// Lines round half to even to whole cents, taxes likewise by rate; the total is their sum. Whoever pays has
// invoices; anybody else a statement of what stands on the invoices of others.
[[nodiscard]] std::map<PartyId, wire::InvoiceView> invoices_of(
    const State&, const std::map<PartyId, CalendarSpan>& periods);
[[nodiscard]] wire::InvoiceView statement_of(const State&, PartyId party, const CalendarSpan& period);
// As it was issued, or so far; with its credit notes.
[[nodiscard]] wire::InvoiceView invoice(const State&, PartyId party, Instant month);
// The period that a month's invoice covers, or will; and the month that an invoice of a period is named by.
[[nodiscard]] CalendarSpan invoice_period(const State&, PartyId party, Instant month);
[[nodiscard]] Instant invoice_month(const State&, PartyId party, const CalendarSpan& period);
[[nodiscard]] Instant running_month(const State&, PartyId party);
// When a date begins by the party's clocks; `day` is its midnight in UTC.
[[nodiscard]] Instant midnight_of(const State&, PartyId party, Instant day);
// Months with a line on the party's invoice or statement, newest first.
[[nodiscard]] std::vector<Instant> months_charged(const State&, PartyId party);
[[nodiscard]] wire::CreditNoteView view_of(const State&, const CreditNote&);
[[nodiscard]] std::int64_t round_to_cents(std::int64_t micros);

// One for each payer whose month is over.
void append_invoices_due(const State&, Instant at, Events&);

// Taxes on invoices issued, and credit notes made, from `from` until before `to`.
[[nodiscard]] wire::TaxReport tax_report(const State&, Instant from, Instant to);

}  // namespace tranche::engine
