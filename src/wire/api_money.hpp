// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says of accounts, prices, costs and invoices.
#include <array>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"
#include "wire/tax.hpp"

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
  Money owed{};                      // By invoice: used, and not paid yet.
  bool by_invoice = true;            // Without credit of its own it pays afterwards.
  std::optional<Money> owe_limit{};  // The most that may be owed; absent: what spend limits allow.
};
BOOST_DESCRIBE_STRUCT(AccountView,
                      (),
                      (party,
                       currency,
                       credit,
                       held,
                       available,
                       overdraft,
                       payable,
                       spent_this_month,
                       owed,
                       by_invoice,
                       owe_limit))

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
  std::map<std::string, Money> unit_cost{};  // What remains after credits, over what was done.
  // What slices no larger than the peak of what was used would have saved, and the share of the cost.
  Money smaller_slice_saves{};
  std::int64_t smaller_slice_percent = 0;
  std::map<std::string, Money> cost_per_million{};  // Of units of which one costs less than a thousandth.
};
BOOST_DESCRIBE_STRUCT(CostRow,
                      (),
                      (what,
                       cost,
                       credited,
                       allocated_gpu_milliseconds,
                       used_gpu_milliseconds,
                       idle_percent,
                       units,
                       unit_cost,
                       smaller_slice_saves,
                       smaller_slice_percent,
                       cost_per_million))

struct CostReport {
  std::string party{};
  std::string currency{};
  Instant from{}, to{};
  std::vector<CostRow> items{};
  Money total{};     // What remains after credits.
  Money forecast{};  // At the same pace to the end of the period; zero: it is over, or has not begun.
  Money smaller_slice_saves{};
};
BOOST_DESCRIBE_STRUCT(CostReport,
                      (),
                      (party, currency, from, to, items, total, forecast, smaller_slice_saves))

struct InvoiceLine {
  std::string description{};
  Money amount{};    // Whole cents, without tax.
  Money credited{};  // By credit notes for this line.
  std::int64_t tax_ppm = 0;
  std::uint32_t tax = 0;  // Which of the taxes it is under, from 1; 0: none.
};
BOOST_DESCRIBE_STRUCT(InvoiceLine, (), (description, amount, credited, tax_ppm, tax))

struct InvoiceTax {  // One for each rate that held in the period.
  std::string country{}, region{};
  std::string name{};
  std::int64_t rate_ppm = 0;
  TaxTreatment treatment = TaxTreatment::kStandard;
  std::string note{};  // Why there is none: exempt, or accounted for by the customer.
  Money base{};
  Money amount{};  // Whole cents.
};
BOOST_DESCRIBE_STRUCT(InvoiceTax, (), (country, region, name, rate_ppm, treatment, note, base, amount))

struct InvoiceParty {  // Who it is from, or for.
  std::string legal_name{};
  std::string address{};
  std::string number{};
};
BOOST_DESCRIBE_STRUCT(InvoiceParty, (), (legal_name, address, number))

struct CreditNoteBody {
  Money amount{};
  std::uint32_t line = 0;
  std::string reason{};
};
BOOST_DESCRIBE_STRUCT(CreditNoteBody, (), (amount, line, reason))
template <>
struct Fields<CreditNoteBody> {
  static constexpr std::array<std::string_view, 2> kRequired{"amount", "reason"};
  static constexpr std::array kDocs{FieldDoc{"amount", "whole cents without tax, at most what is left"},
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
  Money tax{};    // Given back with the amount.
  Money total{};  // Both.
};
BOOST_DESCRIBE_STRUCT(CreditNoteView,
                      (),
                      (id, invoice, party, currency, amount, line, description, reason, at, by, tax, total))

struct InvoiceView {
  std::string id{};
  std::string party{};
  std::string currency{};
  std::string time_zone{};
  Instant from{}, to{};
  bool final = false;  // The period is over, and it was issued.
  std::vector<InvoiceLine> lines{};
  Money total{};     // Of the lines, and taxes.
  Money rounding{};  // What the lines are above the exact sum.
  std::vector<CreditNoteView> credit_notes{};
  Money credited{};  // By all of them, taxes included.
  Money due{};       // The total without that, and without what was paid from credit.
  Money net{};       // Of the lines.
  std::vector<InvoiceTax> taxes{};
  Money tax{};
  Money paid{};                            // From credit, when it was issued.
  std::vector<InvoiceLine> third_party{};  // Paid to sellers on the exchange: no part of the total.
  Money third_party_total{};
  std::optional<Instant> issued{};
  std::string statement_of{};  // Set: nobody is billed by this; it is on the invoices of these parties.
  InvoiceParty issuer{}, customer{};
};
BOOST_DESCRIBE_STRUCT(InvoiceView,
                      (),
                      (id,
                       party,
                       currency,
                       time_zone,
                       from,
                       to,
                       final,
                       lines,
                       total,
                       rounding,
                       credit_notes,
                       credited,
                       due,
                       net,
                       taxes,
                       tax,
                       paid,
                       third_party,
                       third_party_total,
                       issued,
                       statement_of,
                       issuer,
                       customer))

struct FocusCheck {  // Of an export, against the columns of FOCUS 1.2.
  std::uint64_t rows = 0;
  std::uint64_t invoices = 0;  // Whose rows were added up.
  std::vector<std::string> problems{};
};
BOOST_DESCRIBE_STRUCT(FocusCheck, (), (rows, invoices, problems))

struct InvoiceList {
  std::vector<InvoiceView> items{};
};
BOOST_DESCRIBE_STRUCT(InvoiceList, (), (items))

}  // namespace tranche::wire
