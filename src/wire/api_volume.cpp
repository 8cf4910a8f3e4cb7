// SPDX-License-Identifier: Apache-2.0
// The codecs of the API bodies about storage.
#include "wire/api_volume.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::VolumeCreate);
TRANCHE_WIRE_JSON(tranche::wire::VolumeSnapshot);
TRANCHE_WIRE_JSON(tranche::wire::VolumeView);
TRANCHE_WIRE_JSON(tranche::wire::VolumeList);
TRANCHE_WIRE_JSON(tranche::wire::WorkdirView);
