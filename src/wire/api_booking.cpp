// SPDX-License-Identifier: Apache-2.0
// The codecs of the API bodies about bookings.
#include "wire/api_booking.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::BookingAsk);
TRANCHE_WIRE_JSON(tranche::wire::MaintenanceAsk);
TRANCHE_WIRE_JSON(tranche::wire::BookingView);
TRANCHE_WIRE_JSON(tranche::wire::BookingList);
