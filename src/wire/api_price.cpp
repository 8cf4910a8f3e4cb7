// SPDX-License-Identifier: Apache-2.0
#include "wire/api_price.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::PriceListBody);
TRANCHE_WIRE_JSON(tranche::wire::PriceListBook);
