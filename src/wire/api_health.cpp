// SPDX-License-Identifier: Apache-2.0
#include "wire/api_health.hpp"

#include "wire/api_reconcile.hpp"
#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::HealthBoard);
TRANCHE_WIRE_JSON(tranche::wire::RepairView);
TRANCHE_WIRE_JSON(tranche::wire::RepairList);
TRANCHE_WIRE_JSON(tranche::wire::RepairOpen);
TRANCHE_WIRE_JSON(tranche::wire::RepairChange);
TRANCHE_WIRE_JSON(tranche::wire::NodeTest);
TRANCHE_WIRE_JSON(tranche::wire::BreakerChange);
TRANCHE_WIRE_JSON(tranche::wire::ReceiptBook);
TRANCHE_WIRE_JSON(tranche::wire::Reconciliation);
