// SPDX-License-Identifier: Apache-2.0
#include "wire/api_ledger.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::LedgerAccounts);
TRANCHE_WIRE_JSON(tranche::wire::PostingBody);
TRANCHE_WIRE_JSON(tranche::wire::PostingView);
TRANCHE_WIRE_JSON(tranche::wire::PostingList);
TRANCHE_WIRE_JSON(tranche::wire::ReverseBody);
TRANCHE_WIRE_JSON(tranche::wire::HoldBody);
TRANCHE_WIRE_JSON(tranche::wire::HoldView);
TRANCHE_WIRE_JSON(tranche::wire::HoldList);
TRANCHE_WIRE_JSON(tranche::wire::EndHoldBody);
TRANCHE_WIRE_JSON(tranche::wire::OweLimitBody);
