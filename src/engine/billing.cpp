// SPDX-License-Identifier: Apache-2.0
#include "engine/billing.hpp"

#include <algorithm>
#include <set>

#include "engine/decide.hpp"
#include "engine/lease_meter.hpp"
#include "engine/local_calendar.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

using wire::Period;

constexpr std::size_t kInvoicesMost = 256;  // Of one tick: what is left waits for the next.

// What the payer's account does not cover is owed: an invoice is not refused.
std::vector<Leg> posting_of(const State& state, PartyId payer, const wire::InvoiceView& bill) {
  const std::int64_t amount = bill.rounding.micros + bill.tax.micros;
  if (bill.rounding == Money{} && bill.tax == Money{}) return {};
  const AccountId account = paying_account(state, payer);
  const Currency currency = account.currency();
  std::int64_t covered = amount;
  if (is_bounded(account.kind()) && amount > 0)
    covered = std::clamp<std::int64_t>(available(state.ledger, account).micros, 0, amount);
  std::vector<Leg> legs{{account, {-covered}}};
  if (covered != amount)
    legs.push_back({AccountId::make(payer, AccountKind::kReceivable, currency), {covered - amount}});
  if (bill.rounding != Money{})
    legs.push_back({AccountId::make(kPlatform, AccountKind::kRounding, currency), bill.rounding});
  if (bill.tax != Money{})
    legs.push_back({AccountId::make(kPlatform, AccountKind::kTaxes, currency), bill.tax});
  return legs;
}

// Of somebody who pays in advance all but what the last posting left to be owed is paid.
Money paid_of(const State& state, PartyId payer, Money total, const std::vector<Leg>& legs) {
  if (!is_bounded(paying_account(state, payer).kind())) return {};
  for (const Leg& leg : legs)
    if (leg.account.kind() == AccountKind::kReceivable) total.micros += leg.amount.micros;
  return total;
}

// The first cost of the payer at or after an instant; zero: there is none.
Instant first_cost(const State& state, PartyId payer, Instant from) {
  for (auto at = state.costs.lower_bound(CostKey{.day = from}); at != state.costs.end(); ++at)
    if (billed_to(state, at->first) == payer) return at->first.day;
  return {};
}

InvoiceIssued issued(const State& state, PartyId payer, wire::InvoiceView bill, Instant at) {
  bill.final = true;
  bill.issued = at;
  std::vector<Leg> legs = posting_of(state, payer, bill);
  bill.paid = paid_of(state, payer, bill.total, legs);
  bill.due.micros = bill.total.micros - bill.paid.micros;
  const InvoiceKey key{payer, invoice_month(state, payer, {bill.from, bill.to})};
  return {payer, Invoice{key, std::move(bill)}, std::move(legs)};
}

// What is billed next. A payer whose zone changed has a month that is shorter or longer, and none twice.
CalendarSpan open_period(const State& state, const Billing& billing) {
  CalendarSpan period = span_around(state, billing.payer, Period::kMonth, billing.open_since);
  if (state.invoices.contains({billing.payer, month_named(period)}))
    period = span_around(state, billing.payer, Period::kMonth, period.to);
  return {std::max(std::min(period.from, billing.open_since), billing.issued_to), period.to};
}

void add_notes(const State& state, const InvoiceKey& key, wire::InvoiceView& bill) {
  const auto end = state.credit_notes.upper_bound(CreditNoteKey{key.party, key.month, UINT32_MAX});
  for (auto at = state.credit_notes.lower_bound(CreditNoteKey{key.party, key.month, 0}); at != end; ++at) {
    const CreditNote& note = at->second;
    bill.credit_notes.push_back(view_of(state, note));
    bill.credited.micros += note.amount.micros + note.tax.micros;
    if (note.line > 0 && note.line <= bill.lines.size())
      bill.lines[note.line - 1].credited.micros += note.amount.micros;
  }
  // What was paid already went back to the account with the note.
  const std::int64_t open = bill.total.micros - bill.paid.micros;
  bill.due.micros = open > 0 ? std::max<std::int64_t>(open - bill.credited.micros, 0) : open;
}

}  // namespace

PartyId billed_to(const State& state, const CostKey& key) {
  return key.payer != PartyId{} ? key.payer : payer_of(state, key.party);
}

CostLine& cost_line(State& state, const CostOf& of) {
  Billing& billing = state.billing[of.payer];
  billing.payer = of.payer;
  if (of.at < billing.month.from || of.at >= billing.month.to)
    billing.month = span_around(state, of.payer, Period::kMonth, of.at);
  Instant day = std::max<Instant>(
      {std::chrono::floor<std::chrono::days>(of.at), billing.issued_to, billing.month.from});
  const auto& changes = state.taxes.changes;
  const auto after = std::upper_bound(changes.begin(), changes.end(), of.at);
  if (after != changes.begin()) day = std::max(day, *std::prev(after));
  if (billing.open_since == Instant{} || day < billing.open_since) billing.open_since = day;
  const CostKey key{day, of.party, of.job, of.volume, of.payer, of.source};
  CostLine& line = state.costs[key];
  line.key = key;
  return line;
}

CalendarSpan invoice_period(const State& state, PartyId party, Instant month) {
  if (const auto found = state.invoices.find({party, month}); found != state.invoices.end())
    return {found->second.document.from, found->second.document.to};
  const auto billing = state.billing.find(party);
  if (billing != state.billing.end() && billing->second.open_since != Instant{}) {
    const CalendarSpan open = open_period(state, billing->second);
    if (invoice_month(state, party, open) == month) return open;
  }
  return month_by_name(state, party, month);
}

Instant running_month(const State& state, PartyId party) {
  return month_named(span_around(state, party, Period::kMonth, state.now));
}

wire::InvoiceView invoice(const State& state, PartyId party, Instant month) {
  const InvoiceKey key{party, month};
  const auto found = state.invoices.find(key);
  const CalendarSpan period = invoice_period(state, party, month);
  wire::InvoiceView bill = found != state.invoices.end()     ? found->second.document
                           : payer_of(state, party) == party ? invoices_of(state, {{party, period}}).at(party)
                                                             : statement_of(state, party, period);
  add_notes(state, key, bill);
  return bill;
}

std::vector<Instant> months_charged(const State& state, PartyId party) {
  std::set<Instant, std::greater<>> months;
  for (auto at = state.invoices.lower_bound({party, {}});
       at != state.invoices.end() && at->first.party == party;
       ++at)
    months.insert(at->first.month);
  const bool pays = payer_of(state, party) == party;
  Instant from{};
  if (const auto billing = state.billing.find(party); pays && billing != state.billing.end())
    from = billing->second.issued_to;
  for (auto at = state.costs.lower_bound(CostKey{.day = from}); at != state.costs.end(); ++at) {
    const CostKey& key = at->first;
    if (pays ? billed_to(state, key) == party : is_at_or_below(state, key.party, party))
      months.insert(month_named(span_around(state, party, Period::kMonth, key.day)));
  }
  return {months.begin(), months.end()};
}

wire::CreditNoteView view_of(const State& state, const CreditNote& note) {
  return {.id = note.id(),
          .invoice = note.invoice,
          .party = path_of(state, note.key.party),
          .currency = state.settings.currency,
          .amount = note.amount,
          .line = note.line,
          .description = note.description,
          .reason = note.reason,
          .at = note.at,
          .by = path_of(state, note.by),
          .tax = note.tax,
          .total = {note.amount.micros + note.tax.micros}};
}

void append_invoices_due(const State& state, Instant at, Events& events) {
  std::map<PartyId, CalendarSpan> due;
  for (const auto& [payer, billing] : state.billing) {
    if (billing.open_since == Instant{} || due.size() == kInvoicesMost) continue;
    const CalendarSpan period = open_period(state, billing);
    if (period.to <= at) due.emplace(payer, period);
  }
  if (due.empty()) return;
  for (auto& [payer, bill] : invoices_of(state, due))
    events.emplace_back(issued(state, payer, std::move(bill), at));
}

void apply(State& state, const Envelope&, const InvoiceIssued& event) {
  const wire::InvoiceView& bill = event.invoice->document;
  if (!event.legs.empty()) post(state.ledger, event.legs);
  Billing& billing = state.billing[event.party];
  billing.payer = event.party;
  billing.issued_to = bill.to;
  billing.open_since = first_cost(state, event.party, bill.to);
  // A month in which everything was free makes no invoice.
  if (!bill.lines.empty() || !bill.third_party.empty())
    state.invoices.insert_or_assign(event.invoice->key, *event.invoice);
  state.index.capacity->changed();  // A tax may have taken what somebody waits for, or given it back.
}

}  // namespace tranche::engine
