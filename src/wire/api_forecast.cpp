// SPDX-License-Identifier: Apache-2.0
#include "wire/api_forecast.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::DemandView);
TRANCHE_WIRE_JSON(tranche::wire::ForecastAccuracy);
TRANCHE_WIRE_JSON(tranche::wire::LayoutView);
