// SPDX-License-Identifier: Apache-2.0
#pragma once
// Invoices and credit notes for people: A4, one page for small customers.
#include <string>

#include "wire/api_money.hpp"

namespace tranche::api {

// Throws std::runtime_error when no document could be made.
[[nodiscard]] std::string invoice_pdf(const wire::InvoiceView& bill);
// "VAT 21 %", or why there is none.
[[nodiscard]] std::string tax_text(const wire::InvoiceTax& tax);
// One of its credit notes, as a document of its own.
[[nodiscard]] std::string credit_note_pdf(const wire::InvoiceView& bill, const wire::CreditNoteView& note);

}  // namespace tranche::api
