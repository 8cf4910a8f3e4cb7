// SPDX-License-Identifier: Apache-2.0
#include "wire/api_level.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::LevelSpec);
TRANCHE_WIRE_JSON(tranche::wire::LevelView);
TRANCHE_WIRE_JSON(tranche::wire::LevelList);
