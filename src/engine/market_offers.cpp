// SPDX-License-Identifier: Apache-2.0
// Offers on the calendar: where one is on its device, whom it may meet there, and what of it nobody bought.
#include <algorithm>

#include "base/text.hpp"
#include "engine/access.hpp"
#include "engine/booking_limits.hpp"
#include "engine/claim_parts.hpp"

namespace tranche::engine {
namespace {

constexpr std::uint32_t kWhole = kWholePortion;

bool is_sharing(const State& state, PartyId party) {
  return trust_group(state, tenant_of(state, party)) == kSharingGroup;
}

Refusal sharing_refusal() {
  return {.reason = Reason::kPolicy,
          .rule = "share_soft",
          .message = "a part of a device meets strangers; your tenant has not agreed to share devices",
          .fix = "offer the whole device, or ask for: tranche quota set TENANT --share yes"};
}

// Why a device cannot be offered in such portions, whatever its calendar says.
std::optional<Refusal> portion_problem(const State& state, const Device& device, const Offer& offer) {
  const auto invalid = [](const char* rule, std::string message, std::string fix) {
    return Refusal{
        .reason = Reason::kInvalid, .rule = rule, .message = std::move(message), .fix = std::move(fix)};
  };
  if (!offer.shape.empty()) {
    if (offer.quantity != kWhole || offer.isolation != Isolation::kHard)
      return invalid("shape", "a partition is offered whole, one at a time", "leave share and isolation out");
    if (slice_of(state, {device, kWhole, offer.isolation, offer.shape}).milli > 0) return std::nullopt;
    std::string known;
    for (const wire::ProfileFacts& one : device.facts.profiles)
      known += (known.empty() ? "" : ", ") + one.name;
    return invalid("shape",
                   text(device.id) + " has no partition " + offer.shape,
                   known.empty() ? "it cannot be partitioned: leave the shape out" : "it has " + known);
  }
  if (offer.quantity >= kWhole) return std::nullopt;
  if (offer.isolation != Isolation::kSoft)
    return invalid("isolation", "a part of a device can only be soft", "offer the whole device");
  return is_sharing(state, offer.owner) ? std::nullopt : std::optional(sharing_refusal());
}

// What of these is not bought yet: pieces of fractions and claims add up, slot by slot.
std::vector<CalendarClaim> unsold_fractions(const State& state,
                                            const Device& device,
                                            const std::vector<const Piece*>& pieces,
                                            const std::vector<CalendarClaim>& sold) {
  std::map<std::int64_t, std::int64_t> steps;  // Thousandths more or less from a slot on.
  for (const Piece* piece : pieces) {
    std::int64_t before = 0;
    for (std::uint32_t i = 0; i <= piece->slots; ++i) {
      const std::int64_t now = i == piece->slots ? 0 : piece->promised[i];
      if (now != before) steps[piece->first_slot + i] += now - before;
      before = now;
    }
  }
  for (const CalendarClaim& claim : sold) {
    if (claim.use.mode == UseMode::kPartition) continue;
    steps[slot_of(claim.from)] -= claim.use.milli;
    steps[slot_of(claim.to)] += claim.use.milli;
  }
  std::vector<CalendarClaim> listed;
  std::int64_t unsold = 0;
  for (auto at = steps.begin(); at != steps.end(); ++at) {
    unsold += at->second;
    const auto next = std::next(at);
    if (unsold <= 0 || next == steps.end()) continue;
    const Portion portion{device, static_cast<std::uint32_t>(std::min<std::int64_t>(unsold, kWhole))};
    listed.push_back(
        {.from = start_of(at->first),
         .to = start_of(next->first),
         .use = use_of(device, ask_of(state, portion), kSharingGroup, slice_of(state, portion))});
  }
  return listed;
}

}  // namespace

const std::vector<CalendarClaim>& listed_on(const State& state, DeviceId id) {
  static const std::vector<CalendarClaim> kNone;
  Calendar& calendar = *state.index.calendar;
  const auto pieces = state.market.pieces_of.find(id);
  const Device* device = state.device(id);
  if (pieces == state.market.pieces_of.end() || device == nullptr) return kNone;
  if (const auto* known = calendar.listed(id)) return *known;
  std::vector<CalendarClaim> sold;
  for (const CalendarClaim& claim : calendar.claims_on(id))
    if (state.bookings.at(claim.claim).kind == ClaimKind::kContract) sold.push_back(claim);
  std::vector<CalendarClaim> listed;
  std::vector<const Piece*> fractions;
  for (const PieceId number : pieces->second) {
    const Piece* piece = state.market.pieces.find(number.value);
    if (piece == nullptr) continue;
    if (instrument_of(state, piece->book).shape.empty()) {
      fractions.push_back(piece);
    } else {
      const auto unsold = unsold_partitions(state, *device, *piece, sold);
      listed.insert(listed.end(), unsold.begin(), unsold.end());
    }
  }
  const auto unsold = unsold_fractions(state, *device, fractions, sold);
  listed.insert(listed.end(), unsold.begin(), unsold.end());
  return calendar.keep_listed(id, std::move(listed));
}

void listing_changed(State& state, PieceId id) {
  if (state.devices.empty()) return;
  const Piece* piece = state.market.pieces.find(id.value);
  if (piece == nullptr || piece->device == DeviceId{}) return;
  state.index.calendar->listing_changed(piece->device);
  state.index.capacity->changed();
}

DeviceId device_under(const State& state, const Piece& piece) {
  if (state.devices.empty()) return {};
  const Piece* under = piece_under(state, piece);
  return under != nullptr && state.devices.contains(under->device) ? under->device : DeviceId{};
}

bool may_meet(const State& state, const Piece& piece, const MarketOrder& ask, const MarketOrder& bid) {
  if (device_under(state, piece) == DeviceId{}) return true;
  if (instrument_of(state, ask.book).isolation == Isolation::kSoft && is_sharing(state, bid.party))
    return true;
  const auto is_whole = [](const MarketOrder& order) {
    const auto by_slot = order.open_by_slot;
    return order.open % kWhole == 0 &&
           std::all_of(by_slot.begin(), by_slot.end(), [](auto open) { return open % kWhole == 0; });
  };
  return is_whole(ask) && is_whole(bid);
}

Result<Slice, Refusal> place_on_calendar(const State& state, Instant now, const Offer& offer) {
  const Device* device = state.device(offer.device);
  if (device == nullptr) return Slice{.device = offer.device};
  if (auto problem = portion_problem(state, *device, offer)) return refuse(*problem);
  const wire::Ask ask = ask_of(state, {*device, offer.quantity, offer.isolation, offer.shape});
  const WantedEnvironment none;
  const WindowAsk wanted{
      ask,
      kSharingGroup,
      none,
      {std::max(start_of(offer.first_slot), now), start_of(offer.first_slot + offer.slots)},
      {},
      device->id,
      false,
      offer.start};
  if (const auto places = find_places(state, now, wanted)) return places->front().slices.front();
  std::string list;
  for (const TimeSpan& span : nearest_windows(state, now, wanted))
    list += (list.empty() ? "" : ", ") + text(span.from) + '/' + text(span.to);
  return refuse(
      Refusal{.reason = Reason::kConflict,
              .rule = "calendar",
              .message = text(device->id) + " is booked or in use, or offered already, during that window",
              .fix = list.empty() ? "choose another window or device" : "nearest that are free: " + list});
}

std::optional<Refusal> resale_sharing_problem(const State& state,
                                              const Contract& contract,
                                              std::uint32_t quantity) {
  if (claim_of(state, contract.id) == nullptr) return std::nullopt;
  const bool whole = quantity == contract.quantity || quantity % kWhole == 0;
  if (whole || is_sharing(state, contract.buyer)) return std::nullopt;
  return sharing_refusal();
}

bool is_own_unsold(
    const State& state, const Job& job, DeviceId device, const CalendarClaim& offer, Instant at) {
  if (offer.from > at || offer.to <= at) return false;
  const auto pieces = state.market.pieces_of.find(device);
  if (pieces == state.market.pieces_of.end()) return false;
  const PartyId tenant = tenant_of(state, job.owner);
  return std::all_of(pieces->second.begin(), pieces->second.end(), [&](PieceId id) {
    const Piece* piece = state.market.pieces.find(id.value);
    const bool now = piece != nullptr && start_of(piece->first_slot) < offer.to &&
                     start_of(piece->first_slot + piece->slots) > offer.from;
    return !now || tenant_of(state, piece->owner) == tenant;
  });
}

void append_taken_back(
    const State& state, Instant at, const Job& job, const std::vector<Slice>& slices, Events& events) {
  if (job.ask.preemptible) return;  // It leaves when somebody buys.
  for (const Slice& slice : slices) {
    const auto pieces = state.market.pieces_of.find(slice.device);
    if (pieces == state.market.pieces_of.end()) continue;
    for (const PieceId id : pieces->second) {
      const Piece* piece = state.market.pieces.find(id.value);
      if (piece == nullptr) continue;
      state.market.books.each_at(piece->book, slot_of(at), Side::kSell, [&](const MarketOrder& ask) {
        if (ask.piece == id.value)
          events.emplace_back(OrderClosed{ask.id, ask.party, CloseReason::kTakenBack, ask.book});
        return true;
      });
    }
  }
}

}  // namespace tranche::engine
