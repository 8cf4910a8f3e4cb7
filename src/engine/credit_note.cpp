// SPDX-License-Identifier: Apache-2.0
#include "engine/credit_note.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/billing.hpp"
#include "engine/decide.hpp"
#include "engine/lease_meter.hpp"
#include "engine/refusals.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kReasonMost = 500;
constexpr std::int64_t kCent = 10'000;

// What one note must not be above: of the whole invoice, or of one line of it.
std::optional<Refusal> above(
    const std::string& rule, const std::string& what, Money billed, Money credited, Money asked) {
  const std::int64_t left = billed.micros - credited.micros;
  if (asked.micros <= left) return std::nullopt;
  return Refusal{
      .reason = Reason::kConflict,
      .rule = rule,
      .message = what + " is " + text(billed) + ", of which " + text(credited) + " was credited already",
      .fix = left > 0 ? "credit at most " + text(Money{left}) : "nothing is left to be credited",
      .limit = billed.micros,
      .used = credited.micros,
      .asked = asked.micros};
}

std::optional<Refusal> note_problem(const CreditInvoice& command) {
  if (command.amount <= Money{} || command.amount.micros % kCent != 0)
    return invalid("amount", "a credit note is of whole cents, above zero", "give for example 12.50");
  if (command.reason.empty() || command.reason.size() > kReasonMost)
    return invalid("reason",
                   "a credit note says in 1 to 500 characters why it was made",
                   "give for example: --reason \"charged twice\"");
  return std::nullopt;
}

std::optional<Refusal> bill_problem(const wire::InvoiceView& bill,
                                    const CreditInvoice& command,
                                    Instant now) {
  if (!bill.statement_of.empty())
    return Refusal{
        .reason = Reason::kConflict,
        .rule = "payer",
        .message = bill.party + " is not billed itself; it stands on the invoice of " + bill.statement_of,
        .fix = "credit that one; tranche invoice list " + bill.statement_of + " shows it"};
  if (!bill.final && bill.lines.empty() && bill.to <= now)
    return Refusal{.reason = Reason::kConflict,
                   .rule = "issued",
                   .message = "there is no invoice " + bill.id + ": nothing was charged in that month",
                   .fix = "tranche invoice list shows the months that were charged"};
  if (!bill.final)
    return Refusal{.reason = Reason::kConflict,
                   .rule = "issued",
                   .message = bill.id + " is issued on " + text(bill.to) + "; until then its month runs",
                   .fix = "credit it after that; meanwhile tranche account top-up gives credit"};
  if (bill.lines.empty())
    return Refusal{.reason = Reason::kConflict,
                   .rule = "total",
                   .message = "nothing was charged on " + bill.id,
                   .fix = "tranche invoice list shows the months that were charged"};
  if (command.line > bill.lines.size())
    return invalid(
        "line",
        "there is no line " + std::to_string(command.line) + " on " + bill.id,
        "give a line from 1 to " + std::to_string(bill.lines.size()) + ", or none for all of the invoice");
  if (command.line == 0 && bill.taxes.size() > 1)
    return invalid("line",
                   bill.id + " has lines under different taxes",
                   "name the line that is credited: --line 1 to " + std::to_string(bill.lines.size()));
  if (command.line == 0) return std::nullopt;
  const wire::InvoiceLine& line = bill.lines[command.line - 1];
  if (line.amount <= Money{})
    return invalid("line",
                   "line " + std::to_string(command.line) + " is a credit itself",
                   "name a line with an amount above zero, or none");
  return above("line", "line " + std::to_string(command.line), line.amount, line.credited, command.amount);
}

// What notes took back of the invoice so far, or of what is under one of its taxes.
struct Credited {
  Money amount{}, tax{};
};
Credited credited_of(const State& state, const wire::InvoiceView& bill, std::optional<std::uint32_t> row) {
  Credited sum;
  for (const auto& [key, note] : state.credit_notes) {
    if (note.invoice != bill.id || (row && note.tax_row != *row)) continue;
    sum.amount.micros += note.amount.micros;
    sum.tax.micros += note.tax.micros;
  }
  return sum;
}

std::uint32_t tax_row_of(const wire::InvoiceView& bill, std::uint32_t line) {
  if (line > 0) return bill.lines[line - 1].tax;
  return bill.taxes.empty() ? 0 : 1;
}

// All notes under a tax give back what was taken under it, to the cent.
Money tax_back(const State& state, const wire::InvoiceView& bill, std::uint32_t row, Money amount) {
  if (row == 0) return {};
  const wire::InvoiceTax& tax = bill.taxes[row - 1];
  const Credited before = credited_of(state, bill, row);
  const Money left{tax.amount.micros - before.tax.micros};
  if (before.amount.micros + amount.micros == tax.base.micros) return left;
  return std::clamp(tax_of(amount, tax.rate_ppm), Money{}, std::max(left, Money{}));
}

// Whoever pays in advance has it to spend again; whoever pays by invoice owes that much less.
Posted entry_of(const State& state, const CreditNote& note) {
  const AccountId account = paying_account(state, payer_of(state, note.key.party));
  const auto platform = [&](AccountKind kind) {
    return AccountId::make(kPlatform, kind, account.currency());
  };
  Posted entry{.id = note.posting,
               .memo = "credit note " + note.id() + ": " + note.reason,
               .reference = note.id(),
               .reverses = {},
               .legs = {{platform(AccountKind::kRevenue), {-note.amount.micros}},
                        {account, {note.amount.micros + note.tax.micros}}}};
  if (note.tax != Money{}) entry.legs.push_back({platform(AccountKind::kTaxes), {-note.tax.micros}});
  return entry;
}

std::optional<Refusal> total_problem(const State& state,
                                     const wire::InvoiceView& bill,
                                     std::uint32_t row,
                                     Money amount) {
  if (row > 0) {
    const wire::InvoiceTax& tax = bill.taxes[row - 1];
    const Money before = credited_of(state, bill, row).amount;
    if (auto r = above("tax", "what is under " + tax.name + " on " + bill.id, tax.base, before, amount))
      return r;
  }
  return above("total", "the total of " + bill.id, bill.net, credited_of(state, bill, {}).amount, amount);
}

}  // namespace

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const CreditInvoice& command) {
  if (!may(state, actor, Action::kCorrectInvoices, kPlatform))
    if (auto r = check_access(state, actor, Action::kManagePlatform, command.party)) return refuse(*r);
  if (state.party(command.party) == nullptr) return refuse(not_found());
  if (auto r = note_problem(command)) return refuse(*r);
  const wire::InvoiceView bill = invoice(state, command.party, command.month);
  if (auto r = bill_problem(bill, command, envelope.at)) return refuse(*r);
  const std::uint32_t row = tax_row_of(bill, command.line);
  if (auto r = total_problem(state, bill, row, command.amount)) return refuse(*r);
  CreditNote note{
      .key = {command.party, command.month, static_cast<std::uint32_t>(bill.credit_notes.size() + 1)},
      .invoice = bill.id,
      .from = bill.from,
      .to = bill.to,
      .amount = command.amount,
      .line = command.line,
      .description = command.line == 0 ? "" : bill.lines[command.line - 1].description,
      .reason = command.reason,
      .posting = {state.ledger.next_posting},
      .at = envelope.at,
      .by = actor.party,
      .tax = tax_back(state, bill, row, command.amount),
      .tax_row = row};
  return Events{entry_of(state, note), InvoiceCredited{command.party, std::move(note)}};
}

void apply(State& state, const Envelope&, const InvoiceCredited& event) {
  state.credit_notes.insert_or_assign(event.note.key, event.note);
}

}  // namespace tranche::engine
