// SPDX-License-Identifier: Apache-2.0
#include "api/invoice_pdf.hpp"

#include <hpdf.h>
#include <memory>
#include <stdexcept>

#include "base/text.hpp"
#include "engine/tax.hpp"
#include "wire/fields.hpp"

namespace tranche::api {
namespace {

constexpr float kLeft = 56, kRight = 539, kTop = 780, kBottom = 72;  // Points, on A4.
constexpr float kLineHeight = 18;

[[noreturn]] void failed(HPDF_STATUS error, HPDF_STATUS detail, void*) {
  throw std::runtime_error("the PDF library failed: " + std::to_string(error) + ", " +
                           std::to_string(detail));
}

struct Free {
  void operator()(HPDF_Doc document) const { HPDF_Free(document); }
};

// The fonts that every reader has know Latin-1 and nothing else; what they lack is shown as a question mark.
std::string latin(std::string_view utf8) {
  std::string out;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    if (byte < 0x80) {
      out += utf8[i];
    } else if ((byte == 0xC2 || byte == 0xC3) && i + 1 < utf8.size()) {
      const auto next = static_cast<unsigned char>(utf8[++i]);
      out += static_cast<char>((byte & 3U) << 6U | (next & 0x3FU));
    } else {
      out += '?';
      while (i + 1 < utf8.size() && (static_cast<unsigned char>(utf8[i + 1]) & 0xC0U) == 0x80U) ++i;
    }
  }
  return out;
}

std::string day_of(Instant at) {
  std::string out;
  append_text(out, at);
  return out.substr(0, 10);
}

// Cents, as an invoice says them.
std::string amount_text(Money amount, const std::string& currency) {
  const std::int64_t cents = amount.micros / 10'000;
  const std::int64_t size = cents < 0 ? -cents : cents;
  std::string whole = std::to_string(size / 100);
  for (std::size_t at = whole.size(); at > 3; at -= 3) whole.insert(at - 3, ",");
  const std::string rest = std::to_string(size % 100);
  return std::string(cents < 0 ? "-" : "") + whole + "." + (rest.size() < 2 ? "0" : "") + rest + " " +
         currency;
}

class Paper {
 public:
  Paper() : document_(HPDF_New(&failed, nullptr)) {
    if (!document_) throw std::runtime_error("no PDF document could be made");
    HPDF_SetCompressionMode(document_.get(), HPDF_COMP_ALL);
    plain_ = HPDF_GetFont(document_.get(), "Helvetica", "WinAnsiEncoding");
    bold_ = HPDF_GetFont(document_.get(), "Helvetica-Bold", "WinAnsiEncoding");
    turn_page();
  }

  void left(const std::string& words, float size = 10, bool strong = false, float from = kLeft) {
    write(latin(words), from, size, strong);
  }
  void right(const std::string& words, float size = 10, bool strong = false) {
    const std::string shown = latin(words);
    use(size, strong);
    write(shown, kRight - HPDF_Page_TextWidth(page_, shown.c_str()), size, strong);
  }
  void down(float by = kLineHeight) {
    at_ -= by;
    if (at_ < kBottom) turn_page();
  }
  void rule() {
    HPDF_Page_SetLineWidth(page_, 0.5F);
    HPDF_Page_MoveTo(page_, kLeft, at_ + 12);
    HPDF_Page_LineTo(page_, kRight, at_ + 12);
    HPDF_Page_Stroke(page_);
  }
  void title(const std::string& words) {
    HPDF_SetInfoAttr(document_.get(), HPDF_INFO_TITLE, latin(words).c_str());
    HPDF_SetInfoAttr(document_.get(), HPDF_INFO_CREATOR, "Tranche");
  }
  [[nodiscard]] std::string bytes() {
    HPDF_SaveToStream(document_.get());
    std::string out(HPDF_GetStreamSize(document_.get()), '\0');
    auto size = static_cast<HPDF_UINT32>(out.size());
    HPDF_ReadFromStream(document_.get(), reinterpret_cast<HPDF_BYTE*>(out.data()), &size);
    out.resize(size);
    return out;
  }

 private:
  void turn_page() {
    page_ = HPDF_AddPage(document_.get());
    HPDF_Page_SetSize(page_, HPDF_PAGE_SIZE_A4, HPDF_PAGE_PORTRAIT);
    at_ = kTop;
  }
  void use(float size, bool strong) { HPDF_Page_SetFontAndSize(page_, strong ? bold_ : plain_, size); }
  void write(const std::string& words, float from, float size, bool strong) {
    use(size, strong);
    HPDF_Page_BeginText(page_);
    HPDF_Page_TextOut(page_, from, at_, words.c_str());
    HPDF_Page_EndText(page_);
  }

  std::unique_ptr<std::remove_pointer_t<HPDF_Doc>, Free> document_;
  HPDF_Font plain_{}, bold_{};
  HPDF_Page page_{};
  float at_ = kTop;
};

// What was taken back since; the lines above stay as they were issued.
void write_notes(Paper& paper, const wire::InvoiceView& bill) {
  if (bill.credit_notes.empty()) return;
  paper.left("Credit notes", 10, true);
  paper.down();
  for (const wire::CreditNoteView& note : bill.credit_notes) {
    paper.left(note.id + ", " + day_of(note.at) + (note.tax == Money{} ? "" : ", tax included"));
    paper.right(amount_text({-note.total.micros}, bill.currency));
    paper.down(kLineHeight - 4);
    paper.left((note.line > 0 ? "Line " + std::to_string(note.line) + ": " : "") + note.reason, 8);
    paper.down();
  }
}

void write_row(Paper& paper, const std::string& what, Money amount, const std::string& currency) {
  paper.left(what);
  paper.right(amount_text(amount, currency));
  paper.down();
}

// What comes to the lines: taxes, by rate; and why there is none.
void write_taxes(Paper& paper, const wire::InvoiceView& bill) {
  if (bill.taxes.empty()) return;
  write_row(paper, "Net", bill.net, bill.currency);
  for (const wire::InvoiceTax& tax : bill.taxes)
    write_row(
        paper, tax_text(tax) + " of " + amount_text(tax.base, bill.currency), tax.amount, bill.currency);
  paper.rule();
}

// What is left to pay, where that is not the total.
void write_due(Paper& paper, const wire::InvoiceView& bill) {
  if (bill.paid != Money{}) write_row(paper, "Paid from credit", {-bill.paid.micros}, bill.currency);
  if (bill.paid == Money{} && bill.credit_notes.empty()) return;
  paper.rule();
  paper.left("Due", 12, true);
  paper.right(amount_text(bill.due, bill.currency), 12, true);
  paper.down(28);
}

// Bought from others through the platform: for information, and no part of what it bills.
void write_third_party(Paper& paper, const wire::InvoiceView& bill) {
  if (bill.third_party.empty()) return;
  paper.left("Paid to others through the exchange (not part of this invoice)", 10, true);
  paper.down();
  for (const wire::InvoiceLine& line : bill.third_party)
    write_row(paper, line.description, line.amount, bill.currency);
  paper.down(10);
}

void write_head(Paper& paper, const std::string& what, const std::string& id) {
  paper.title(what + " " + id);
  paper.left(what, 22, true);
  paper.right(id, 11);
  paper.down(34);
}

void write_fact(Paper& paper, const std::string& name, const std::string& value, bool strong = false) {
  paper.left(name);
  paper.left(value, 10, strong, kLeft + 80);
  paper.down();
}

// Name, address and number, a line each.
void write_party(Paper& paper, const std::string& what, const wire::InvoiceParty& party, bool strong) {
  write_fact(paper, what, party.legal_name, strong);
  for (std::size_t at = 0; at < party.address.size();) {
    const std::size_t end = std::min(party.address.find('\n', at), party.address.size());
    if (end > at) write_fact(paper, "", party.address.substr(at, end - at));
    at = end + 1;
  }
  if (!party.number.empty()) write_fact(paper, "", "Tax number " + party.number);
}

std::string period_of(const wire::InvoiceView& bill) {
  return day_of(bill.from) + " to " + day_of(bill.to) + ", " + bill.time_zone + " calendar";
}

}  // namespace

std::string credit_note_pdf(const wire::InvoiceView& bill, const wire::CreditNoteView& note) {
  Paper paper;
  write_head(paper, "Credit note", note.id);
  write_party(paper, "From", bill.issuer, false);
  write_party(paper, "Customer", bill.customer, true);
  if (bill.customer.legal_name != bill.party) write_fact(paper, "Account", bill.party);
  write_fact(paper, "Corrects", "invoice " + bill.id);
  write_fact(paper, "Period", period_of(bill));
  write_fact(paper, "Issued", day_of(note.at));
  paper.down(34 - kLineHeight);
  paper.left("Description", 10, true);
  paper.right("Amount", 10, true);
  paper.down();
  paper.rule();
  paper.left(note.line > 0 ? "Line " + std::to_string(note.line) + ": " + note.description
                           : "The invoice as a whole");
  paper.right(amount_text({-note.amount.micros}, bill.currency));
  paper.down(kLineHeight - 4);
  paper.left(note.reason, 8);
  paper.down();
  if (note.tax != Money{}) write_row(paper, "Tax on it", {-note.tax.micros}, bill.currency);
  paper.rule();
  paper.left("Credited", 12, true);
  paper.right(amount_text(note.total, bill.currency), 12, true);
  paper.down(28);
  paper.left("The invoice stays as it was issued; of its " + amount_text(bill.total, bill.currency) + ", " +
                 amount_text(bill.due, bill.currency) + " is due after all credit notes.",
             8);
  return paper.bytes();
}

std::string tax_text(const wire::InvoiceTax& tax) {
  if (!tax.note.empty()) return tax.note;
  return tax.name + ' ' + engine::percent_text(tax.rate_ppm);
}

std::string invoice_pdf(const wire::InvoiceView& bill) {
  Paper paper;
  const char* what = !bill.statement_of.empty() ? "Statement" : bill.final ? "Invoice" : "Invoice so far";
  write_head(paper, what, bill.id);
  write_party(paper, "From", bill.issuer, false);
  write_party(paper, "Customer", bill.customer, true);
  if (bill.customer.legal_name != bill.party) write_fact(paper, "Account", bill.party);
  if (!bill.statement_of.empty()) write_fact(paper, "Billed to", bill.statement_of);
  write_fact(paper, "Period", period_of(bill));
  if (bill.issued) write_fact(paper, "Issued", day_of(*bill.issued));
  paper.down(34 - kLineHeight);
  paper.left("Description", 10, true);
  paper.right("Amount", 10, true);
  paper.down();
  paper.rule();
  for (const wire::InvoiceLine& line : bill.lines) {
    paper.left(line.description);
    paper.right(amount_text(line.amount, bill.currency));
    paper.down();
  }
  if (bill.lines.empty()) {
    paper.left("Nothing was charged in this period.");
    paper.down();
  }
  paper.rule();
  write_taxes(paper, bill);
  paper.left(bill.final ? "Total" : "Total so far", 12, true);
  paper.right(amount_text(bill.total, bill.currency), 12, true);
  paper.down(28);
  write_notes(paper, bill);
  write_due(paper, bill);
  write_third_party(paper, bill);
  paper.left("Every line is rounded to the cent; the exact sum differs by " + text(bill.rounding) + " " +
                 bill.currency + ". Bounds of the period in UTC: see the JSON form.",
             8);
  return paper.bytes();
}

}  // namespace tranche::api
