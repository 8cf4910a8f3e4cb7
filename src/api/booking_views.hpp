// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bookings as the API shows them, and as calendars read them.
#include <string>
#include <vector>

#include "engine/state.hpp"
#include "wire/api_booking.hpp"

namespace tranche::api {

[[nodiscard]] wire::BookingView booking_view(const engine::State&, const engine::Booking&);
// iCalendar (RFC 5545): one event a window, in UTC.
[[nodiscard]] std::string calendar_text(const std::vector<wire::BookingView>&);

}  // namespace tranche::api
