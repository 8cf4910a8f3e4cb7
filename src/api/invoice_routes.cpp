// SPDX-License-Identifier: Apache-2.0
// Invoices of a month, and the credit notes that correct them.
#include "api/api.hpp"
#include "api/invoice_pdf.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "engine/billing.hpp"
#include "wire/api_money.hpp"

namespace tranche::api {
namespace {

using engine::Action;
using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

std::string quoted(const std::string& given) {
  std::string out = "\"";
  for (const char c : given) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string invoice_csv(const wire::InvoiceView& bill) {
  std::string out = "invoice,kind,description,amount,currency,tax\n";
  const auto row = [&](const std::string& id,
                       const char* kind,
                       const std::string& description,
                       Money amount,
                       const std::string& tax = "") {
    out += id + ',' + kind + ',' + description + ',' + text(amount) + ',' + bill.currency + ',' + tax + '\n';
  };
  for (const wire::InvoiceLine& line : bill.lines)
    row(bill.id,
        "line",
        quoted(line.description),
        line.amount,
        line.tax == 0 ? "" : engine::percent_text(line.tax_ppm));
  row(bill.id, "net", "net", bill.net);
  for (const wire::InvoiceTax& tax : bill.taxes)
    row(bill.id, "tax", quoted(tax_text(tax)), tax.amount, engine::percent_text(tax.rate_ppm));
  row(bill.id, "total", "total", bill.total);
  for (const wire::CreditNoteView& note : bill.credit_notes)
    row(note.id, "credit", quoted("Credit note: " + note.reason), {-note.total.micros});
  if (bill.paid != Money{}) row(bill.id, "paid", "paid from credit", {-bill.paid.micros});
  row(bill.id, "due", "due", bill.due);
  for (const wire::InvoiceLine& line : bill.third_party)
    row(bill.id, "third_party", quoted(line.description), line.amount);
  return out;
}

std::string note_csv(const wire::CreditNoteView& note) {
  return "note,invoice,line,description,reason,amount,tax,total,currency\n" + note.id + ',' + note.invoice +
         ',' + std::to_string(note.line) + ',' + quoted(note.description) + ',' + quoted(note.reason) + ',' +
         text(Money{-note.amount.micros}) + ',' + text(Money{-note.tax.micros}) + ',' +
         text(Money{-note.total.micros}) + ',' + note.currency + '\n';
}

// Which month, and in which form. Nothing: the caller was told what is wrong with that.
struct Asked {
  std::string party{};
  Instant month{};  // Zero: the one that runs.
  std::string format{};
};
std::optional<Asked> asked(Call& call) {
  const std::string& month = call.parameters[1];
  const auto start = month == "current" ? std::optional(Instant{}) : parse_instant(month + "-01T00:00:00Z");
  std::string format(call.query_value("format"));
  if (start && (format.empty() || format == "json" || format == "csv" || format == "pdf"))
    return Asked{call.parameters[0], *start, std::move(format)};
  call.reply.send(problem(
      wire::Problem{
          "month", "must be a month, and the format json, csv or pdf", "for example 2026-11, or current"},
      call.envelope.request_id));
  return std::nullopt;
}

Result<wire::InvoiceView, wire::Refusal> bill_of(const State& state, const Actor& actor, const Asked& asked) {
  const PartyId party = engine::find_path(state, asked.party);
  if (auto refusal = engine::check_access(state, actor, Action::kViewBilling, party)) return refuse(*refusal);
  const Instant month = asked.month == Instant{} ? engine::running_month(state, party) : asked.month;
  return engine::invoice(state, party, month);
}

void show_invoice(Api& api, Call call) {
  const auto wanted = asked(call);
  if (!wanted) return;
  api.view(std::move(call), [wanted = *wanted](const State& state, const Actor& actor) -> Shown {
    const auto bill = bill_of(state, actor, wanted);
    if (!bill) return refuse(bill.error());
    if (wanted.format == "pdf") return document("application/pdf", invoice_pdf(*bill));
    return wanted.format == "csv" ? document("text/csv; charset=utf-8", invoice_csv(*bill)) : json(*bill);
  });
}

void show_credit_note(Api& api, Call call) {
  const auto wanted = asked(call);
  if (!wanted) return;
  const std::string number = call.parameters[2];
  api.view(std::move(call), [wanted = *wanted, number](const State& state, const Actor& actor) -> Shown {
    const auto bill = bill_of(state, actor, wanted);
    if (!bill) return refuse(bill.error());
    for (const wire::CreditNoteView& note : bill->credit_notes) {
      if (note.id != bill->id + "-C" + number) continue;
      if (wanted.format == "pdf") return document("application/pdf", credit_note_pdf(*bill, note));
      return wanted.format == "csv" ? document("text/csv; charset=utf-8", note_csv(note)) : json(note);
    }
    return refuse(engine::not_found());
  });
}

void list_invoices(Api& api, Call call) {
  const std::string name = call.parameters.front();
  api.view(std::move(call), [name](const State& state, const Actor& actor) -> Shown {
    const PartyId party = engine::find_path(state, name);
    if (auto refusal = engine::check_access(state, actor, Action::kViewBilling, party))
      return refuse(*refusal);
    wire::InvoiceList list;
    for (const Instant month : engine::months_charged(state, party))
      list.items.push_back(engine::invoice(state, party, month));
    return json(list);
  });
}

void credit_invoice(Api& api, Call call) {
  const auto body = parse<wire::CreditNoteBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string name = call.parameters[0];
  const auto month = parse_instant(call.parameters[1] + "-01T00:00:00Z");
  if (!month) {
    return call.reply.send(
        problem(wire::Problem{"month", "must be a month", "for example 2026-11"}, call.envelope.request_id));
  }
  api.with_party(std::move(call), name, [&api, body = *body, month = *month](Call next, PartyId party) {
    api.run(std::move(next),
            engine::CreditInvoice{party, month, body.amount, body.line, body.reason},
            [](const server::Outcome& outcome) {
              const auto& event = std::get<engine::InvoiceCredited>(outcome.events->back());
              return json(engine::view_of(*outcome.state, event.note), 201);
            });
  });
}

}  // namespace

std::vector<Route> invoice_routes() {
  return {
      {.method = "GET",
       .path = "/v1/invoices/{party}",
       .id = "list_invoices",
       .tag = "money",
       .summary = "Invoices of the months in which something was charged, newest first",
       .gives = body<wire::InvoiceList>(),
       .handle = list_invoices},
      {.method = "GET",
       .path = "/v1/invoices/{party}/{month}",
       .id = "show_invoice",
       .tag = "money",
       .summary = "Invoice of a month on the customer's calendar",
       .gives = body<wire::InvoiceView>(),
       .query = {"format"},
       .handle = show_invoice},
      {.method = "GET",
       .path = "/v1/invoices/{party}/{month}/credits/{number}",
       .id = "show_credit_note",
       .tag = "money",
       .summary = "One credit note of an invoice, as a document of its own",
       .gives = body<wire::CreditNoteView>(),
       .query = {"format"},
       .handle = show_credit_note},
      {.method = "POST",
       .path = "/v1/invoices/{party}/{month}/credits",
       .id = "credit_invoice",
       .tag = "money",
       .summary = "Correct an invoice that was issued, by a credit note",
       .takes = body<wire::CreditNoteBody>(),
       .gives = body<wire::CreditNoteView>(),
       .status = 201,
       .handle = credit_invoice},
  };
}

}  // namespace tranche::api
