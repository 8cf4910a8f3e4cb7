// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says of accounts, prices, costs and invoices.
#include <array>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"
#include "wire/price.hpp"

namespace tranche::wire {

struct AccountView {
  std::string party{};
  std::string currency{};
  Money credit{};     // Balance.
  Money held{};       // Of it: set aside.
  Money available{};  // What could be spent now, an overdraft included.
  Money overdraft{};
  Money payable{};  // Earned, and not paid out yet.
  Money spent_this_month{};
  Money owed{};            // By invoice: used, and not paid yet.
  bool by_invoice = true;  // Without credit of its own it pays afterwards.
};
BOOST_DESCRIBE_STRUCT(
    AccountView,
    (),
    (party, currency, credit, held, available, overdraft, payable, spent_this_month, owed, by_invoice))

struct TopUpBody {
  Money amount{};
  std::string reference{};  // Of the payment; the same one counts once.
  std::string memo{};
};
BOOST_DESCRIBE_STRUCT(TopUpBody, (), (amount, reference, memo))

struct OverdraftBody {
  Money overdraft{};
};
BOOST_DESCRIBE_STRUCT(OverdraftBody, (), (overdraft))

enum class CostBy : std::uint8_t { kTenant, kSubscriber, kUser, kJob, kModel, kKind, kDay, kTag, kUnit };
BOOST_DESCRIBE_ENUM(CostBy, kTenant, kSubscriber, kUser, kJob, kModel, kKind, kDay, kTag, kUnit)

struct CostRow {
  std::string what{};
  Money cost{};
  Money credited{};
  std::int64_t allocated_gpu_milliseconds = 0;
  std::int64_t used_gpu_milliseconds = 0;
  std::int64_t idle_percent = 0;  // Paid, and not busy.
  std::map<std::string, std::int64_t> units{};
};
BOOST_DESCRIBE_STRUCT(
    CostRow,
    (),
    (what, cost, credited, allocated_gpu_milliseconds, used_gpu_milliseconds, idle_percent, units))

struct CostReport {
  std::string party{};
  std::string currency{};
  Instant from{}, to{};
  std::vector<CostRow> items{};
  Money total{};     // What remains after credits.
  Money forecast{};  // At the same pace to the end of the month; zero: the period is over.
};
BOOST_DESCRIBE_STRUCT(CostReport, (), (party, currency, from, to, items, total, forecast))

struct InvoiceLine {
  std::string description{};
  Money amount{};    // Whole cents.
  Money credited{};  // By credit notes for this line.
};
BOOST_DESCRIBE_STRUCT(InvoiceLine, (), (description, amount, credited))

struct CreditNoteBody {
  Money amount{};
  std::uint32_t line = 0;
  std::string reason{};
};
BOOST_DESCRIBE_STRUCT(CreditNoteBody, (), (amount, line, reason))
template <>
struct Fields<CreditNoteBody> {
  static constexpr std::array<std::string_view, 2> kRequired{"amount", "reason"};
  static constexpr std::array kDocs{FieldDoc{"amount", "whole cents, at most what is left of the invoice"},
                                    FieldDoc{"line", "of the invoice, from 1; 0: all of it"},
                                    FieldDoc{"reason", "why, as it stands on the note"}};
};

struct CreditNoteView {  // Corrects an invoice that was issued, which itself stays as it is.
  std::string id{};      // Of the invoice, and -C1, -C2, …
  std::string invoice{};
  std::string party{};
  std::string currency{};
  Money amount{};
  std::uint32_t line = 0;     // Zero: of all of the invoice.
  std::string description{};  // Of that line.
  std::string reason{};
  Instant at{};
  std::string by{};
};
BOOST_DESCRIBE_STRUCT(CreditNoteView,
                      (),
                      (id, invoice, party, currency, amount, line, description, reason, at, by))

struct InvoiceView {
  std::string id{};
  std::string party{};
  std::string currency{};
  std::string time_zone{};
  Instant from{}, to{};
  bool final = false;  // The period is over.
  std::vector<InvoiceLine> lines{};
  Money total{};     // Of the lines.
  Money rounding{};  // What the lines are above the exact sum.
  std::vector<CreditNoteView> credit_notes{};
  Money credited{};  // By all of them.
  Money due{};       // The total without that.
};
BOOST_DESCRIBE_STRUCT(
    InvoiceView,
    (),
    (id, party, currency, time_zone, from, to, final, lines, total, rounding, credit_notes, credited, due))

struct InvoiceList {
  std::vector<InvoiceView> items{};
};
BOOST_DESCRIBE_STRUCT(InvoiceList, (), (items))

}  // namespace tranche::wire
