// SPDX-License-Identifier: Apache-2.0
#include "wire/test_progress.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::TestProgress);
TRANCHE_WIRE_JSON(tranche::wire::TestsUnderWay);
TRANCHE_WIRE_JSON(tranche::wire::NodeTestView);
