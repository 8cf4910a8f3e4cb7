// SPDX-License-Identifier: Apache-2.0
#include "wire/tax.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::TaxRate);
TRANCHE_WIRE_JSON(tranche::wire::TaxRateList);
TRANCHE_WIRE_JSON(tranche::wire::TaxProfile);
TRANCHE_WIRE_JSON(tranche::wire::TaxTermsView);
TRANCHE_WIRE_JSON(tranche::wire::TaxReport);
