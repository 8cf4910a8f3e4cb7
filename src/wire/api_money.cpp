// SPDX-License-Identifier: Apache-2.0
#include "wire/api_money.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::AccountView);
TRANCHE_WIRE_JSON(tranche::wire::TopUpBody);
TRANCHE_WIRE_JSON(tranche::wire::OverdraftBody);
TRANCHE_WIRE_JSON(tranche::wire::CostReport);
TRANCHE_WIRE_JSON(tranche::wire::CreditNoteBody);
TRANCHE_WIRE_JSON(tranche::wire::CreditNoteView);
TRANCHE_WIRE_JSON(tranche::wire::InvoiceView);
TRANCHE_WIRE_JSON(tranche::wire::InvoiceList);
TRANCHE_WIRE_JSON(tranche::wire::FocusCheck);
