// SPDX-License-Identifier: Apache-2.0
// Invoices of a month, and the credit notes that correct them.
#include "api/api.hpp"
#include "api/invoice_pdf.hpp"
#include "api/problem.hpp"
#include "api/zones.hpp"
#include "base/text.hpp"
#include "engine/cost.hpp"
#include "engine/spend.hpp"
#include "wire/api_money.hpp"

namespace tranche::api {
namespace {

using engine::Action;
using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

struct Period {
  Instant from{}, to{};
};

// A billing period is a month on the customer's calendar.
Period month_in_zone(Instant month, const std::string& zone) {
  Period span{month, engine::month_of(month + std::chrono::days(32))};
  const auto offsets = zone_offsets(zone);
  if (!offsets) return span;
  const auto utc_of = [&](Instant local) {
    Duration offset{};
    for (const wire::ZoneOffset& change : *offsets) {
      if (change.from <= local) offset = std::chrono::seconds(change.seconds);
    }
    return local - offset;
  };
  return {utc_of(span.from), utc_of(span.to)};
}

std::string quoted(const std::string& given) {
  std::string out = "\"";
  for (const char c : given) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string invoice_csv(const wire::InvoiceView& bill) {
  std::string out = "invoice,description,amount,currency\n";
  const auto row = [&](const std::string& id, const std::string& description, Money amount) {
    out += id + ',' + description + ',' + text(amount) + ',' + bill.currency + '\n';
  };
  for (const wire::InvoiceLine& line : bill.lines) row(bill.id, quoted(line.description), line.amount);
  row(bill.id, "total", bill.total);
  if (bill.credit_notes.empty()) return out;
  for (const wire::CreditNoteView& note : bill.credit_notes)
    row(note.id, quoted("Credit note: " + note.reason), {-note.amount.micros});
  row(bill.id, "due", bill.due);
  return out;
}

std::string note_csv(const wire::CreditNoteView& note) {
  return "note,invoice,line,description,reason,amount,currency\n" + note.id + ',' + note.invoice + ',' +
         std::to_string(note.line) + ',' + quoted(note.description) + ',' + quoted(note.reason) + ',' +
         text(Money{-note.amount.micros}) + ',' + note.currency + '\n';
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
  const Instant first = asked.month == Instant{} ? engine::month_of(state.now) : asked.month;
  const Period period = month_in_zone(first, state.party(party)->time_zone);
  return engine::invoice(state, party, period.from, period.to);
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
    for (const Instant month : engine::months_charged(state, party)) {
      const Period period = month_in_zone(month, state.party(party)->time_zone);
      list.items.push_back(engine::invoice(state, party, period.from, period.to));
    }
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
  // Where a month begins depends on the customer's zone, so it is worked out where the state is at hand.
  api.loop().read(
      [&api, call = std::move(call), body = *body, name, month = *month](const State& state) mutable {
        const PartyId party = engine::find_path(state, name);
        const engine::Party* customer = state.party(party);
        const Period period = month_in_zone(month, customer == nullptr ? "" : customer->time_zone);
        api.run(std::move(call),
                engine::CreditInvoice{party, period.from, period.to, body.amount, body.line, body.reason},
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
