// SPDX-License-Identifier: Apache-2.0
#include "engine/credit_note.hpp"

#include "base/text.hpp"
#include "engine/cost.hpp"
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

std::optional<Refusal> bill_problem(const wire::InvoiceView& bill, const CreditInvoice& command) {
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
  if (command.line > 0) {
    const wire::InvoiceLine& line = bill.lines[command.line - 1];
    if (line.amount <= Money{})
      return invalid("line",
                     "line " + std::to_string(command.line) + " is a credit itself",
                     "name a line with an amount above zero, or none");
    if (auto r =
            above("line", "line " + std::to_string(command.line), line.amount, line.credited, command.amount))
      return r;
  }
  return std::nullopt;
}

// An invoice covers all below its party, so the same charge stands on several: it is taken back once.
std::optional<Refusal> total_problem(const State& state, const CreditInvoice& command) {
  const Instant month = invoice_month(command.from, command.to);
  for (const Party* at = state.party(command.party); at != nullptr && at->id != kPlatform;
       at = state.party(at->parent)) {
    Money credited{};
    for (const auto& [key, note] : state.credit_notes)
      if (key.month == month && is_at_or_below(state, key.party, at->id))
        credited.micros += note.amount.micros;
    const wire::InvoiceView bill = invoice(state, at->id, command.from, command.to);
    if (auto r = above("total", "the total of " + bill.id, bill.total, credited, command.amount)) return r;
  }
  return std::nullopt;
}

}  // namespace

Instant invoice_month(Instant from, Instant to) {
  return month_of(from + (to - from) / 2);
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const CreditInvoice& command) {
  if (!may(state, actor, Action::kCorrectInvoices, kPlatform))
    if (auto r = check_access(state, actor, Action::kManagePlatform, command.party)) return refuse(*r);
  if (state.party(command.party) == nullptr) return refuse(not_found());
  if (auto r = note_problem(command)) return refuse(*r);
  const wire::InvoiceView bill = invoice(state, command.party, command.from, command.to);
  if (auto r = bill_problem(bill, command)) return refuse(*r);
  if (auto r = total_problem(state, command)) return refuse(*r);
  CreditNote note{.key = {command.party,
                          invoice_month(command.from, command.to),
                          static_cast<std::uint32_t>(bill.credit_notes.size() + 1)},
                  .invoice = bill.id,
                  .from = command.from,
                  .to = command.to,
                  .amount = command.amount,
                  .line = command.line,
                  .description = command.line == 0 ? "" : bill.lines[command.line - 1].description,
                  .reason = command.reason,
                  .posting = {state.ledger.next_posting},
                  .at = envelope.at,
                  .by = actor.party};
  // Whoever pays in advance has it to spend again; whoever pays by invoice owes that much less.
  const AccountId account = paying_account(state, payer_of(state, command.party));
  Posted entry{
      .id = note.posting,
      .memo = "credit note " + note.id() + ": " + note.reason,
      .reference = note.id(),
      .reverses = {},
      .legs = {{AccountId::make(kPlatform, AccountKind::kRevenue, account.currency()), {-note.amount.micros}},
               {account, note.amount}}};
  return Events{std::move(entry), InvoiceCredited{command.party, std::move(note)}};
}

void apply(State& state, const Envelope&, const InvoiceCredited& event) {
  state.credit_notes.insert_or_assign(event.note.key, event.note);
}

}  // namespace tranche::engine
