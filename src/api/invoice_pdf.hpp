// SPDX-License-Identifier: Apache-2.0
#pragma once
// An invoice for people: A4, one page for small customers.
#include <string>

#include "wire/api_money.hpp"

namespace tranche::api {

// Throws std::runtime_error when no document could be made.
[[nodiscard]] std::string invoice_pdf(const wire::InvoiceView& bill);

}  // namespace tranche::api
