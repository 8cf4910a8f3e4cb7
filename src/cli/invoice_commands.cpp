// SPDX-License-Identifier: Apache-2.0
// invoice: what is owed for a month, as a table or a document, and what was taken back of it.
#include <cstdio>
#include <fstream>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/price_plan.hpp"
#include "cli/terminal.hpp"
#include "wire/api_money.hpp"

namespace tranche::cli {
namespace {

struct InvoiceOptions {
  std::string party{}, month = "current", file{};
  std::uint32_t note = 0;  // One of its credit notes instead.
};

std::string invoice_path(Session& session, const InvoiceOptions& options) {
  const std::string party = session.party_or_default(options.party, "the party");
  const std::string invoice = "/v1/invoices/" + path_segment(party) + "/" + path_segment(options.month);
  return options.note == 0 ? invoice : invoice + "/credits/" + std::to_string(options.note);
}

void add_invoice_words(const Command& command, InvoiceOptions& options) {
  command.add_option("party", options.party, "Id or path; else --subscriber");
  command.add_option("month", options.month, "Such as 2026-11; else the one that runs");
}

Table invoice_table(const wire::InvoiceView& bill) {
  Table table({{"LINE", Align::kRight}, {"DESCRIPTION"}, {"AMOUNT", Align::kRight}, {"CURRENCY"}});
  const auto row = [&](const std::string& what, Money amount) {
    table.add({"", what, text(amount), bill.currency});
  };
  for (std::size_t i = 0; i < bill.lines.size(); ++i)
    table.add({std::to_string(i + 1), bill.lines[i].description, text(bill.lines[i].amount), bill.currency});
  if (!bill.taxes.empty()) row("Net", bill.net);
  for (const wire::InvoiceTax& tax : bill.taxes)
    row(tax.note.empty() ? tax.name + " " + percent_text(tax.rate_ppm) : tax.note, tax.amount);
  row(bill.final ? "Total" : "Total so far", bill.total);
  for (const wire::CreditNoteView& note : bill.credit_notes) {
    const std::string of = note.line > 0 ? " (line " + std::to_string(note.line) + ")" : "";
    row(note.id + of + ": " + note.reason, {-note.total.micros});
  }
  if (bill.paid != Money{}) row("Paid from credit", {-bill.paid.micros});
  row("Due", bill.due);
  for (const wire::InvoiceLine& line : bill.third_party) row(line.description, line.amount);
  return table;
}

void add_invoice_show(const Command& group, Program& program) {
  const auto options = std::make_shared<InvoiceOptions>();
  const Command& show = add_command(
      group, {"show", "The invoice of a month, and its credit notes", "tranche invoice show acme 2026-11"});
  add_invoice_words(show, *options);
  show.callback([options, &program] {
    Session& session = program.session();
    const auto answer = session.get<wire::InvoiceView>(invoice_path(session, *options));
    session.print(answer.body, {.table = [&] { return invoice_table(answer.value); }});
    if (!answer.value.statement_of.empty())
      session.say("a statement: it stands on the invoice of " + answer.value.statement_of);
  });
}

void add_invoice_list(const Command& group, Program& program) {
  const auto options = std::make_shared<InvoiceOptions>();
  const Command& list = add_command(group, {"list", "Months that were charged", "tranche invoice list acme"});
  list.add_option("party", options->party, "Id or path; else --subscriber");
  list.callback([options, &program] {
    Session& session = program.session();
    const std::string party = session.party_or_default(options->party, "the party");
    const auto answer = session.get<wire::InvoiceList>("/v1/invoices/" + path_segment(party));
    session.print(answer.body, {.table = [&] {
                    Table table({{"INVOICE"},
                                 {"PARTY"},
                                 {"TOTAL", Align::kRight},
                                 {"CREDITED", Align::kRight},
                                 {"DUE", Align::kRight},
                                 {"CURRENCY"},
                                 {"STATE"}});
                    for (const wire::InvoiceView& bill : answer.value.items)
                      table.add({bill.id,
                                 bill.party,
                                 text(bill.total),
                                 text(bill.credited),
                                 text(bill.due),
                                 bill.currency,
                                 !bill.statement_of.empty() ? "statement"
                                 : bill.final               ? "final"
                                                            : "month runs"});
                    return table;
                  }});
  });
}

// As a document: to a file, or to stdout where that is no terminal.
void add_invoice_document(const Command& group,
                          Program& program,
                          const std::string& format,
                          const char* about) {
  const auto options = std::make_shared<InvoiceOptions>();
  const std::string example = "tranche invoice " + format + " acme 2026-11 -f acme-2026-11." + format +
                              "\ntranche invoice " + format + " acme 2026-11 --note 1 -f acme-2026-11-C1." +
                              format;
  const Command& command = add_command(group, {format, about, example});
  add_invoice_words(command, *options);
  command.add_option("--note", options->note, "Its credit note of this number instead").type_name("NUMBER");
  command.add_option("-f,--file", options->file, "Write it here; else to stdout").type_name("FILE");
  command.callback([options, format, &program] {
    Session& session = program.session();
    const std::string body =
        session.call({.path = invoice_path(session, *options) + "?format=" + format}).body;
    if (options->file.empty() && format == "pdf" && stdout_is_terminal())
      throw usage_failure("a PDF is nothing for a terminal", "give a file: -f invoice.pdf");
    if (options->file.empty()) {
      std::fwrite(body.data(), 1, body.size(), stdout);
      return;
    }
    std::ofstream file(options->file, std::ios::binary);
    if (!(file << body).flush()) throw Failure(kOther, {"cannot write " + options->file});
    session.say("wrote " + options->file);
  });
}

struct CreditOptions {
  std::string invoice{}, amount{}, reason{};
  std::uint32_t line = 0;
};

// "ten_000002-2026-10" or "acme-2026-10": the party, and its month.
std::string credits_path(const std::string& invoice) {
  constexpr std::size_t kMonth = 8;  // "-2026-10"
  if (invoice.size() <= kMonth || invoice[invoice.size() - kMonth] != '-')
    throw usage_failure("an invoice is an id such as ten_000002-2026-10, not '" + invoice + "'",
                        "tranche invoice list shows them");
  return "/v1/invoices/" + path_segment(invoice.substr(0, invoice.size() - kMonth)) + "/" +
         path_segment(invoice.substr(invoice.size() - kMonth + 1)) + "/credits";
}

void add_invoice_credit(const Command& group, Program& program) {
  const auto options = std::make_shared<CreditOptions>();
  const Command& credit = add_command(
      group,
      {"credit",
       "Take back a part of an invoice that was issued, by a credit note",
       "tranche invoice credit ten_000002-2026-10 --amount 12.50 --reason \"charged twice\"\n"
       "tranche invoice credit acme-2026-10 --line 1 --amount 3 --reason \"slower than promised\""});
  credit.add_option("invoice", options->invoice, "Its id").required();
  credit.add_option("--amount", options->amount, "How much, in whole cents").required().type_name("AMOUNT");
  credit.add_option("--reason", options->reason, "Why; stands on the note").required().type_name("TEXT");
  credit.add_option("--line", options->line, "Of the invoice; else all of it").type_name("NUMBER");
  credit.callback([options, &program] {
    const auto amount = parse_money(options->amount);
    if (!amount) throw usage_failure("--amount takes an amount such as 12.50, not '" + options->amount + "'");
    const wire::CreditNoteBody body{*amount, options->line, options->reason};
    Session& session = program.session();
    const auto answer = session.ask<wire::CreditNoteView>(
        {.method = "POST", .path = credits_path(options->invoice), .body = wire::to_json(body)});
    session.print(
        answer.body,
        {.table =
             [&] {
               const wire::CreditNoteView& note = answer.value;
               Table table({{"NOTE"}, {"PARTY"}, {"AMOUNT", Align::kRight}, {"CURRENCY"}, {"REASON"}});
               table.add({note.id, note.party, text(note.amount), note.currency, note.reason});
               return table;
             },
         .names = [&] { return answer.value.id + "\n"; }});
  });
}

}  // namespace

void add_invoice_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"invoice", "What is owed for a month", "tranche invoice show acme 2026-11"});
  add_invoice_list(group, program);
  add_invoice_show(group, program);
  add_invoice_document(group, program, "pdf", "The invoice as a PDF document");
  add_invoice_document(group, program, "csv", "The invoice as a table for other programs");
  add_invoice_credit(group, program);
}

}  // namespace tranche::cli
