// SPDX-License-Identifier: Apache-2.0
#pragma once
// Credit notes: how an invoice that was issued is corrected. The invoice stays as it is; a numbered note
// takes back a part of it, and the ledger gets a reversing entry.
#include <boost/describe/class.hpp>
#include <compare>
#include <cstdint>
#include <string>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "engine/ledger.hpp"

namespace tranche::engine {

struct State;

struct CreditNoteKey {
  PartyId party{};           // Whose invoice it is.
  Instant month{};           // Of the invoice: its first instant in UTC.
  std::uint32_t number = 0;  // Of the note: 1, 2, …
  auto operator<=>(const CreditNoteKey&) const = default;
};
BOOST_DESCRIBE_STRUCT(CreditNoteKey, (), (party, month, number))

struct CreditNote {
  CreditNoteKey key{};
  std::string invoice{};  // Its id.
  Instant from{}, to{};   // The period that the invoice covers.
  Money amount{};
  std::uint32_t line = 0;     // Of the invoice, from 1; zero: all of it.
  std::string description{};  // Of that line.
  std::string reason{};
  PostingId posting{};
  Instant at{};
  PartyId by{};
  Money tax{};                // Given back with the amount.
  std::uint32_t tax_row = 0;  // Of the invoice, from 1; zero: there is no tax on it.
  [[nodiscard]] std::string id() const { return invoice + "-C" + std::to_string(key.number); }
};
BOOST_DESCRIBE_STRUCT(
    CreditNote,
    (),
    (key, invoice, from, to, amount, line, description, reason, posting, at, by, tax, tax_row))

struct CreditInvoice {
  PartyId party{};
  Instant month{};  // Of the invoice.
  Money amount{};
  std::uint32_t line = 0;
  std::string reason{};
};
struct InvoiceCredited {
  PartyId party{};
  CreditNote note{};
};
BOOST_DESCRIBE_STRUCT(InvoiceCredited, (), (party, note))

}  // namespace tranche::engine
