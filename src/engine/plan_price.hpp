// SPDX-License-Identifier: Apache-2.0
#pragma once
// What bookings, services and volumes would cost, before there are any.
#include <vector>

#include "engine/state.hpp"
#include "wire/api_job.hpp"

namespace tranche::engine {

// A booking itself is free: what its windows cost when work of such a shape runs in all of them.
[[nodiscard]] wire::JobPrice booking_price(const State&,
                                           PartyId owner,
                                           const Ask&,
                                           const std::vector<TimeSpan>& windows);
// An hour of as many replicas as it may have, of its dearest version.
[[nodiscard]] wire::JobPrice service_price(const State&, PartyId owner, const SetService&, Instant at);
// A volume costs until it is removed: its most is that of thirty days.
[[nodiscard]] wire::JobPrice volume_price(const State&, const Volume&, Instant at);

}  // namespace tranche::engine
