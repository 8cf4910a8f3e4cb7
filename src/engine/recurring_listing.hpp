// SPDX-License-Identifier: Apache-2.0
#pragma once
// Capacity that is offered again and again, at times that were worked out from a calendar when it was set.
// Each occurrence is an ordinary listing, made some time ahead; one that the calendar does not allow is
// missed.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/booking.hpp"
#include "engine/market.hpp"

namespace tranche::engine {

struct MissedListing {
  TimeSpan window{};
  std::string why{};
};
BOOST_DESCRIBE_STRUCT(MissedListing, (), (window, why))

struct RecurringListing {
  ListingId id{};
  PartyId owner{};
  ListCapacity offer{};  // Without its window.
  std::string every{};   // As a person wrote it.
  std::string zone{};
  Duration ahead{};                     // How long before its window each is listed.
  std::vector<TimeSpan> windows{};      // Still to be listed, in order.
  std::vector<std::uint64_t> orders{};  // Asks it made; some may be gone.
  std::uint64_t listed = 0;
  std::uint64_t missed = 0;
  std::vector<MissedListing> misses{};  // The last ten.
};
BOOST_DESCRIBE_STRUCT(RecurringListing,
                      (),
                      (id, owner, offer, every, zone, ahead, windows, orders, listed, missed, misses))

struct SetRecurringListing {
  PartyId owner{};
  ListCapacity offer{};
  std::string every{};
  std::string zone{};
  Duration ahead{};
  std::vector<TimeSpan> windows{};
};
struct RecurringListingSet {
  ListingId id{};
  PartyId owner{};
  ListCapacity offer{};
  std::string every{};
  std::string zone{};
  Duration ahead{};
  std::vector<TimeSpan> windows{};
};
BOOST_DESCRIBE_STRUCT(RecurringListingSet, (), (id, owner, offer, every, zone, ahead, windows))

struct RecurringListingRan {  // The time to list one came. All windows until that one are over with.
  ListingId id{};
  PartyId owner{};
  TimeSpan window{};
  std::uint64_t order = 0;  // Zero: it was missed.
  std::string why{};
};
BOOST_DESCRIBE_STRUCT(RecurringListingRan, (), (id, owner, window, order, why))

struct RemoveRecurringListing {
  ListingId id{};
};
struct RecurringListingRemoved {
  ListingId id{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(RecurringListingRemoved, (), (id, owner))

}  // namespace tranche::engine
