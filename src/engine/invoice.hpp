// SPDX-License-Identifier: Apache-2.0
#pragma once
// Invoices: what a payer is billed for a month on its own calendar. Issued once, when the month is over, and
// never changed after that; taxes and the rounding of its lines are posted with it.
#include <boost/describe/class.hpp>
#include <compare>
#include <map>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "engine/ledger.hpp"
#include "engine/local_calendar.hpp"
#include "wire/api_money.hpp"
#include "wire/boxed.hpp"

namespace tranche::engine {

struct State;

struct InvoiceKey {
  PartyId party{};
  Instant month{};  // Its first instant in UTC, whatever the zone.
  auto operator<=>(const InvoiceKey&) const = default;
};
BOOST_DESCRIBE_STRUCT(InvoiceKey, (), (party, month))

struct Invoice {
  InvoiceKey key{};
  wire::InvoiceView document{};  // As it was issued: without the credit notes that came later.
};
BOOST_DESCRIBE_STRUCT(Invoice, (), (key, document))

struct Billing {  // Where a payer stands.
  PartyId payer{};
  Instant issued_to{};   // End of the last period that was billed; what comes later for it is billed next.
  Instant open_since{};  // The first cost that is on no invoice yet; zero: there is none.
  CalendarSpan month{};  // In which the last cost was, by the payer's clocks.
};
BOOST_DESCRIBE_STRUCT(Billing, (), (payer, issued_to, open_since, month))

struct InvoiceIssued {
  PartyId party{};
  wire::Boxed<Invoice> invoice{};  // Always there; boxed, because every event has room for the largest.
  std::vector<Leg> legs{};
};
BOOST_DESCRIBE_STRUCT(InvoiceIssued, (), (party, invoice, legs))

}  // namespace tranche::engine
