// SPDX-License-Identifier: Apache-2.0
// The codecs of the API bodies about how things run.
#include "wire/api_telemetry.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::TelemetryList);
TRANCHE_WIRE_JSON(tranche::wire::TopView);
TRANCHE_WIRE_JSON(tranche::wire::BehaviourList);
TRANCHE_WIRE_JSON(tranche::wire::LogMatches);
