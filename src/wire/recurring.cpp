// SPDX-License-Identifier: Apache-2.0
#include "wire/recurring.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::RecurringSpec);
TRANCHE_WIRE_JSON(tranche::wire::RecurringView);
TRANCHE_WIRE_JSON(tranche::wire::RecurringList);
