// SPDX-License-Identifier: Apache-2.0
#include "engine/recurring_listing.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/decide.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kWindowsMost = 1000;
constexpr std::size_t kMissesKept = 10;

std::optional<Refusal> windows_problem(const std::vector<TimeSpan>& windows) {
  if (windows.empty() || windows.size() > kWindowsMost)
    return invalid("every", "it is offered 1 to 1000 times", "end it sooner: --until");
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const TimeSpan& window = windows[i];
    if (start_of(slot_of(window.from)) != window.from || start_of(slot_of(window.to)) != window.to)
      return invalid("window",
                     "capacity is traded in slots of 15 minutes",
                     "begin at a quarter of an hour, and offer whole quarters");
    if (window.from >= window.to) return invalid("for", "a window has a length", "for example --for 8h");
    if (i > 0 && window.from < windows[i - 1].to)
      return invalid("every",
                     "the windows overlap: the next begins before one ends",
                     "give a shorter --for, or repeat less often");
  }
  return std::nullopt;
}

// The listing of one window, or of what is left of it.
ListCapacity listing_of(const ListCapacity& offer, const TimeSpan& window, Instant now) {
  ListCapacity listing = offer;
  listing.first_slot = std::max(slot_of(window.from), slot_of(now));
  listing.slots =
      static_cast<std::uint32_t>(std::max<std::int64_t>(slot_of(window.to) - listing.first_slot, 0));
  return listing;
}

// Times change what the calendar allows, and how far ahead is traded; nothing else does.
bool may_pass_later(const Refusal& refusal) {
  return refusal.reason == Reason::kConflict || refusal.rule == "horizon";
}

bool is_disabled(const State& state, PartyId party) {
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent))
    if (at->disabled) return true;
  return false;
}

// An organisation has no roles of its own: whoever manages its capacity by now speaks for it.
Actor speaker_for(const State& state, PartyId owner) {
  const PartyKind kind = owner.kind();
  if (kind == PartyKind::kUser || kind == PartyKind::kService) return {owner};
  for (const Party* at = state.party(owner); at != nullptr; at = state.party(at->parent))
    for (const Grant& grant : at->grants)
      if (role_allows(grant.role, Action::kManageCapacity) && !is_disabled(state, grant.holder))
        return {grant.holder};
  return {owner};
}

void forget_next(State& state, ListingId id) {
  std::erase_if(state.index.work->listings, [id](const auto& entry) { return entry.second == id; });
}

void await_next(WorkIndex& index, const RecurringListing& listing) {
  if (!listing.windows.empty())
    index.listings.emplace(listing.windows.front().from - listing.ahead, listing.id);
}

}  // namespace

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const SetRecurringListing& command) {
  if (auto r = check_access(state, actor, Action::kManageCapacity, command.owner)) return refuse(*r);
  if (command.offer.bought != ContractId{})
    return refuse(invalid("contract",
                          "what was bought is sold on once; only devices are offered again and again",
                          "leave --every out"));
  if (auto r = windows_problem(command.windows)) return refuse(*r);
  if (command.ahead < Duration{} || command.ahead > state.market.rules.horizon)
    return refuse(invalid("ahead",
                          "it is listed at most as far ahead as is traded",
                          "give at most " + text(state.market.rules.horizon)));
  RecurringListingSet set{.id = {state.next_listing},
                          .owner = command.owner,
                          .offer = command.offer,
                          .every = command.every,
                          .zone = command.zone,
                          .ahead = command.ahead,
                          .windows = command.windows};
  set.offer.owner = command.owner;
  // What would be refused each time is refused now.
  const auto first =
      decide(state, envelope, actor, listing_of(set.offer, command.windows.front(), envelope.at));
  if (!first && !may_pass_later(first.error())) return refuse(first.error());
  return Events{std::move(set)};
}

void apply(State& state, const Envelope&, const RecurringListingSet& event) {
  state.next_listing = event.id.value + 1;
  const auto at = state.recurring_listings.insert_or_assign(event.id,
                                                            RecurringListing{.id = event.id,
                                                                             .owner = event.owner,
                                                                             .offer = event.offer,
                                                                             .every = event.every,
                                                                             .zone = event.zone,
                                                                             .ahead = event.ahead,
                                                                             .windows = event.windows});
  await_next(*state.index.work, at.first->second);
}

Events list_again(const State& state, const Envelope& envelope, const RecurringListing& listing) {
  const TimeSpan window = listing.windows.front();
  RecurringListingRan ran{.id = listing.id, .owner = listing.owner, .window = window};
  if (window.to <= envelope.at) {
    ran.why = "its window had passed before it could be listed";
    return Events{std::move(ran)};
  }
  if (is_disabled(state, listing.owner)) {
    ran.why = path_of(state, listing.owner) + " is disabled";
    return Events{std::move(ran)};
  }
  // In the name of its owner, by what he may do now.
  auto made = decide(
      state, envelope, speaker_for(state, listing.owner), listing_of(listing.offer, window, envelope.at));
  if (!made) {
    ran.why = made.error().message;
    if (!made.error().fix.empty()) ran.why += "; " + made.error().fix;
    return Events{std::move(ran)};
  }
  ran.order = state.market.next_order;
  made->push_back(std::move(ran));
  return std::move(*made);
}

void apply(State& state, const Envelope&, const RecurringListingRan& event) {
  const auto found = state.recurring_listings.find(event.id);
  if (found == state.recurring_listings.end()) return;
  RecurringListing& listing = found->second;
  forget_next(state, event.id);
  std::erase_if(listing.windows, [&](const TimeSpan& one) { return one.from <= event.window.from; });
  std::erase_if(listing.orders, [&](std::uint64_t id) { return state.market.books.order(id) == nullptr; });
  if (event.order == 0) {
    ++listing.missed;
    if (listing.misses.size() == kMissesKept) listing.misses.erase(listing.misses.begin());
    listing.misses.push_back({event.window, event.why});
  } else {
    ++listing.listed;
    listing.orders.push_back(event.order);
  }
  await_next(*state.index.work, listing);
}

Decision decide(const State& state,
                const Envelope&,
                const Actor& actor,
                const RemoveRecurringListing& command) {
  const auto found = state.recurring_listings.find(command.id);
  if (found == state.recurring_listings.end() ||
      !may(state, actor, Action::kManageCapacity, found->second.owner))
    return refuse(not_found());
  Events events{RecurringListingRemoved{command.id, found->second.owner}};
  for (const std::uint64_t id : found->second.orders)
    if (const MarketOrder* order = state.market.books.order(id))
      events.emplace_back(OrderClosed{id, order->party, CloseReason::kCancelled, order->book});
  return events;
}

void apply(State& state, const Envelope&, const RecurringListingRemoved& event) {
  forget_next(state, event.id);
  state.recurring_listings.erase(event.id);
}

void rebuild_listing_index(State& state) {
  for (const auto& [id, listing] : state.recurring_listings) await_next(*state.index.work, listing);
}

}  // namespace tranche::engine
