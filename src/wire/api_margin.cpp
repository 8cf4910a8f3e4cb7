// SPDX-License-Identifier: Apache-2.0
#include "wire/api_margin.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::CapacityCost);
TRANCHE_WIRE_JSON(tranche::wire::CapacityCostList);
TRANCHE_WIRE_JSON(tranche::wire::MarginReport);
