// SPDX-License-Identifier: Apache-2.0
#include "engine/market_claims.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/access.hpp"
#include "engine/attempt.hpp"
#include "engine/booking_limits.hpp"
#include "engine/market_portion.hpp"

namespace tranche::engine {
namespace {

constexpr std::uint32_t kWhole = kWholePortion;

const Booking* claim_of(const State& state, ContractId contract) {
  const Booking* claim = state.booking(state.index.calendar->claim_of(contract));
  return claim == nullptr || claim->state != BookingState::kBooked ? nullptr : claim;
}

const Instrument& instrument_of(const State& state, std::uint64_t book) {
  static const Instrument kFraction;
  return book == 0 || book > state.market.instruments.size() ? kFraction
                                                             : state.market.instruments[book - 1].instrument;
}

// The piece of the device itself, also where it was bought before; null: its device is not known here.
const Piece* piece_under(const State& state, const Piece& piece) {
  if (piece.bought == ContractId{}) return &piece;
  const Contract* contract = state.market.contracts.find(piece.bought.value);
  const Piece* before = contract == nullptr ? nullptr : state.market.pieces.find(contract->piece.value);
  return before == nullptr ? nullptr : piece_under(state, *before);
}

bool is_sharing(const State& state, PartyId party) {
  return trust_group(state, tenant_of(state, party)) == kSharingGroup;
}

Refusal sharing_refusal() {
  return {.reason = Reason::kPolicy,
          .rule = "share_soft",
          .message = "a part of a device meets strangers; your tenant has not agreed to share devices",
          .fix = "offer the whole device, or ask for: tranche quota set TENANT --share yes"};
}

// What a buyer has of a contract, without its window.
WindowsBooked claim_for(
    const State& state, ClaimId id, PartyId buyer, ContractId contract, const Portion& portion) {
  const PartyId tenant = tenant_of(state, buyer);
  return {.id = id,
          .kind = ClaimKind::kContract,
          .owner = buyer,
          .tenant = tenant,
          .name = "bought on the market",
          .ask = ask_of(state, portion),
          .trust_group = trust_group(state, tenant),
          .zone = "UTC",
          .contract = contract};
}

// Follows the fills of one decision, none of which the state knows yet.
class ClaimsOfFills {
 public:
  ClaimsOfFills(const State& state, Instant at, Events& events) : state_(state), at_(at), events_(events) {
    for (const Event& event : events) {
      if (const auto* listed = std::get_if<CapacityListed>(&event)) fresh_ = listed->piece;
      if (const auto* placed = std::get_if<OrderPlaced>(&event)) placed_ = placed->order;
      if (const auto* opened = std::get_if<BookOpened>(&event)) opened_ = opened->instrument;
      if (const auto* filled = std::get_if<OrderFilled>(&event)) fills_.push_back(*filled);
    }
  }

  void run() {
    for (const OrderFilled& fill : fills_) claim(fill);
    for (auto& [id, windows] : left_) shrink(state_.bookings.at(id), std::move(windows));
    append(events_, std::move(made_));
  }

 private:
  const Piece* piece_sold(const OrderFilled& fill) const {
    const MarketOrder* ask =
        placed_ && placed_->id == fill.sell ? &*placed_ : state_.market.books.order(fill.sell);
    if (ask == nullptr) return nullptr;
    return fresh_ && fresh_->id.value == ask->piece ? &*fresh_ : state_.market.pieces.find(ask->piece);
  }

  void claim(const OrderFilled& fill) {
    const Piece* piece = piece_sold(fill);
    const Device* device = piece == nullptr ? nullptr : state_.device(device_under(state_, *piece));
    if (device == nullptr) return;
    const bool fresh = piece->book > state_.market.instruments.size();
    const Instrument& traded = fresh ? opened_ : instrument_of(state_, piece->book);
    const Portion portion{
        *device, fill.quantity, traded.isolation, traded.shape, piece_under(state_, *piece)->start};
    const TimeSpan span{std::max(start_of(fill.first_slot), at_), start_of(fill.first_slot + fill.slots)};
    if (piece->bought != ContractId{} && !carve(piece->bought, span, fill.quantity)) return;
    WindowsBooked booked =
        claim_for(state_, {state_.next_claim + claims_++}, fill.party, fill.contract, portion);
    booked.windows.push_back(
        {.from = span.from, .to = span.to, .places = {{device->node, {slice_of(state_, portion)}}}});
    made_.emplace_back(std::move(booked));
  }

  // Takes a rectangle out of what was bought before; false when that has no claim.
  bool carve(ContractId contract, const TimeSpan& span, std::uint32_t quantity) {
    const Booking* claim = claim_of(state_, contract);
    if (claim == nullptr) return false;
    auto& windows = left_.try_emplace(claim->id, claim->windows).first->second;
    std::vector<BookedWindow> after;
    for (const BookedWindow& window : windows) {
      const Instant from = std::max(window.from, span.from);
      const Instant to = std::min(window.to, span.to);
      if (window.state == WindowState::kClosed || from >= to) {
        after.push_back(window);
        continue;
      }
      add_part(after, window, window.from, from, 0);
      add_part(after, window, from, to, quantity);
      add_part(after, window, to, window.to, 0);
    }
    windows = std::move(after);
    return true;
  }

  void add_part(std::vector<BookedWindow>& parts,
                const BookedWindow& of,
                Instant from,
                Instant to,
                std::uint32_t without) const {
    if (from >= to || to <= at_) return;
    BookedWindow part = of;
    part.from = from;
    part.to = to;
    part.state = of.state == WindowState::kOpen && from <= at_ ? WindowState::kOpen : WindowState::kPlanned;
    Slice& slice = part.places.front().slices.front();
    if (slice.milli <= without) return;
    if (without > 0) slice = slice_of(state_, {state_.devices.at(slice.device), slice.milli - without});
    parts.push_back(std::move(part));
  }

  void shrink(const Booking& claim, std::vector<BookedWindow> windows) {
    const bool any = std::any_of(windows.begin(), windows.end(), [](const BookedWindow& window) {
      return window.state != WindowState::kClosed;
    });
    // Whoever runs there may be in the part that is gone: it starts again in what is left.
    for (const LeaseId id : leases_in(state_, claim)) {
      const Lease& lease = state_.leases.at(id);
      if (lease.live() && !lease.revoked)
        events_.push_back(
            revocation(state_, lease, EndReason::kWindowClosed, "a part of it was sold on", JobId{}));
    }
    if (any) {
      events_.emplace_back(WindowsChanged{claim.id, std::move(windows), "sold on", claim.owner});
    } else {
      events_.emplace_back(BookingCancelled{claim.id, claim.owner});
    }
  }

  const State& state_;
  Instant at_;
  Events& events_;
  std::optional<Piece> fresh_;
  std::optional<MarketOrder> placed_;
  Instrument opened_;
  std::vector<OrderFilled> fills_;
  std::map<ClaimId, std::vector<BookedWindow>> left_;
  Events made_;
  std::uint64_t claims_ = 0;
};

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

struct KeptPart {
  TimeSpan span{};
  std::uint32_t quantity = 0;
};

std::multimap<ContractId, ContractId> sold_on(const State& state) {
  std::multimap<ContractId, ContractId> made_of;
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    const Piece* piece = state.market.pieces.find(contract.piece.value);
    const bool over =
        contract.state == ContractState::kCompleted || contract.state == ContractState::kDefaulted;
    if (!over && piece != nullptr && piece->bought != ContractId{})
      made_of.emplace(piece->bought, contract.id);
  }
  return made_of;
}

// What of a contract its buyer did not sell on, by time.
std::vector<KeptPart> kept_parts(const State& state,
                                 const Contract& contract,
                                 const TimeSpan& span,
                                 ClaimsMade& made) {
  if (!made.sold_on) made.sold_on = sold_on(state);
  std::map<Instant, std::int64_t> steps{{span.from, contract.quantity}, {span.to, 0}};
  const auto [first, last] = made.sold_on->equal_range(contract.id);
  for (auto one = first; one != last; ++one) {
    const Contract& other = *state.market.contracts.find(one->second.value);
    const Instant from = std::max(other.start, span.from);
    const Instant to = std::min(other.end, span.to);
    if (from >= to) continue;
    steps[from] -= other.quantity;
    steps[to] += other.quantity;
  }
  std::vector<KeptPart> parts;
  std::int64_t kept = 0;
  for (auto at = steps.begin(); at != steps.end(); ++at) {
    kept += at->second;
    const auto next = std::next(at);
    if (next != steps.end() && kept > 0)
      parts.push_back({{at->first, next->first}, static_cast<std::uint32_t>(kept)});
  }
  return parts;
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

void append_claims(const State& state, Instant at, Events& events) {
  if (state.devices.empty()) return;
  ClaimsOfFills(state, at, events).run();
}

void append_claim_end(const State& state, ContractId contract, Events& events) {
  const Booking* claim = claim_of(state, contract);
  if (claim == nullptr) return;
  for (const LeaseId id : leases_in(state, *claim)) {
    const Lease& lease = state.leases.at(id);
    if (lease.live() && !lease.revoked)
      events.push_back(
          revocation(state, lease, EndReason::kWindowClosed, "its contract was interrupted", JobId{}));
  }
  events.emplace_back(BookingCancelled{claim->id, claim->owner});
}

void append_claim_cut(const State& state, ContractId contract, Instant end, Events& events) {
  const Booking* claim = claim_of(state, contract);
  if (claim == nullptr) return;
  std::vector<BookedWindow> windows;
  for (BookedWindow window : claim->windows) {
    if (window.from >= end) continue;
    window.to = std::min(window.to, end);
    windows.push_back(std::move(window));
  }
  events.emplace_back(
      WindowsChanged{claim->id, std::move(windows), "taken back by its seller, with notice", claim->owner});
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

std::optional<Refusal> append_claim_again(
    const State& state, Instant at, const Contract& contract, ClaimsMade& made, Events& events) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  const Device* device = piece == nullptr ? nullptr : state.device(device_under(state, *piece));
  const TimeSpan span{std::max(contract.start, at), contract.end};
  if (device == nullptr || span.from >= span.to || claim_of(state, contract.id) != nullptr)
    return std::nullopt;
  const Instrument& traded = instrument_of(state, contract.book);
  const std::uint8_t start = piece_under(state, *piece)->start;
  const auto portion = [&](std::uint32_t quantity) {
    return Portion{*device, quantity, traded.isolation, traded.shape, start};
  };
  WindowsBooked booked = claim_for(
      state, {state.next_claim + made.count}, contract.buyer, contract.id, portion(contract.quantity));
  const WantedEnvironment none;
  std::vector<CalendarClaim> claims = made.on[device->id];
  for (const KeptPart& part : kept_parts(state, contract, span, made)) {
    const wire::Ask ask = ask_of(state, portion(part.quantity));
    const WindowAsk wanted{ask, booked.trust_group, none, part.span, {}, device->id, true, start, &claims};
    auto places = find_places(state, at, wanted);
    if (!places) {
      return Refusal{.reason = Reason::kConflict,
                     .rule = "calendar",
                     .message = text(device->id) + " is not free for the rest of the contract",
                     .fix = "free it first, or let the contract run out"};
    }
    claims.push_back({.from = part.span.from,
                      .to = part.span.to,
                      .use = use_of(*device, ask, booked.trust_group, places->front().slices.front())});
    booked.windows.push_back({.from = part.span.from, .to = part.span.to, .places = std::move(*places)});
  }
  if (booked.windows.empty()) return std::nullopt;  // All of it was sold on.
  ++made.count;
  made.on[device->id] = std::move(claims);
  events.emplace_back(std::move(booked));
  return std::nullopt;
}

}  // namespace tranche::engine
