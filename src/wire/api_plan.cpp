// SPDX-License-Identifier: Apache-2.0
#include "wire/api_plan.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::PricePlan);
