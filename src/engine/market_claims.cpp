// SPDX-License-Identifier: Apache-2.0
#include "engine/market_claims.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/access.hpp"
#include "engine/attempt.hpp"
#include "engine/booking_limits.hpp"

namespace tranche::engine {
namespace {

constexpr std::uint32_t kWhole = policy::kDeviceMilli;

Slice slice_of(const Device& device, std::uint32_t quantity) {
  return {.device = device.id,
          .milli = static_cast<std::uint16_t>(quantity),
          .vram = quantity >= kWhole ? device.facts.vram.count : device.facts.vram.count / kWhole * quantity};
}

wire::Ask ask_of(const Device& device, std::uint32_t quantity, Isolation isolation) {
  const Slice slice = slice_of(device, quantity);
  std::string share = std::to_string(kWhole + quantity).substr(1);
  while (!share.empty() && share.back() == '0') share.pop_back();
  return {.isolation = isolation,
          .instances = 1,
          .milli_each = slice.milli,
          .vram_each = slice.vram,
          .model = device.facts.model,
          .gpus = device.facts.model + (quantity >= kWhole ? "" : ":0." + share),
          .simulated = device.facts.simulated};
}

const Booking* claim_of(const State& state, ContractId contract) {
  const Booking* claim = state.booking(state.index.calendar->claim_of(contract));
  return claim == nullptr || claim->state != BookingState::kBooked ? nullptr : claim;
}

Isolation isolation_of(const State& state, std::uint64_t book) {
  return book == 0 || book > state.market.instruments.size()
             ? Isolation::kSoft
             : state.market.instruments[book - 1].instrument.isolation;
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

// Follows the fills of one decision, none of which the state knows yet.
class ClaimsOfFills {
 public:
  ClaimsOfFills(const State& state, Instant at, Events& events) : state_(state), at_(at), events_(events) {
    for (const Event& event : events) {
      if (const auto* listed = std::get_if<CapacityListed>(&event)) fresh_ = listed->piece;
      if (const auto* placed = std::get_if<OrderPlaced>(&event)) placed_ = placed->order;
      if (const auto* opened = std::get_if<BookOpened>(&event)) opened_ = opened->instrument.isolation;
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
    const Isolation isolation =
        piece->book > state_.market.instruments.size() ? opened_ : isolation_of(state_, piece->book);
    const TimeSpan span{std::max(start_of(fill.first_slot), at_), start_of(fill.first_slot + fill.slots)};
    if (piece->bought != ContractId{} && !carve(piece->bought, span, fill.quantity)) return;
    WindowsBooked booked{.id = {state_.next_claim + claims_++},
                         .kind = ClaimKind::kContract,
                         .owner = fill.party,
                         .tenant = tenant_of(state_, fill.party),
                         .name = "bought on the market",
                         .ask = ask_of(*device, fill.quantity, isolation),
                         .zone = "UTC",
                         .contract = fill.contract};
    booked.trust_group = trust_group(state_, booked.tenant);
    booked.windows.push_back(
        {.from = span.from, .to = span.to, .places = {{device->node, {slice_of(*device, fill.quantity)}}}});
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
    if (without > 0) slice = slice_of(state_.devices.at(slice.device), slice.milli - without);
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
  Isolation opened_ = Isolation::kSoft;
  std::vector<OrderFilled> fills_;
  std::map<ClaimId, std::vector<BookedWindow>> left_;
  Events made_;
  std::uint64_t claims_ = 0;
};

}  // namespace

const std::vector<CalendarClaim>& listed_on(const State& state, DeviceId id) {
  static const std::vector<CalendarClaim> kNone;
  Calendar& calendar = *state.index.calendar;
  const auto pieces = state.market.pieces_of.find(id);
  const Device* device = state.device(id);
  if (pieces == state.market.pieces_of.end() || device == nullptr) return kNone;
  if (const auto* known = calendar.listed(id)) return *known;
  std::map<std::int64_t, std::int64_t> steps;  // Thousandths more or less from a slot on.
  for (const PieceId number : pieces->second) {
    const Piece* piece = state.market.pieces.find(number.value);
    if (piece == nullptr) continue;
    std::int64_t before = 0;
    for (std::uint32_t i = 0; i <= piece->slots; ++i) {
      const std::int64_t now = i == piece->slots ? 0 : piece->promised[i];
      if (now != before) steps[piece->first_slot + i] += now - before;
      before = now;
    }
  }
  for (const CalendarClaim& claim : calendar.claims_on(id)) {
    if (state.bookings.at(claim.claim).kind != ClaimKind::kContract) continue;
    steps[slot_of(claim.from)] -= claim.use.milli;
    steps[slot_of(claim.to)] += claim.use.milli;
  }
  std::vector<CalendarClaim> listed;
  std::int64_t unsold = 0;
  for (auto at = steps.begin(); at != steps.end(); ++at) {
    unsold += at->second;
    const auto next = std::next(at);
    if (unsold <= 0 || next == steps.end()) continue;
    const auto quantity = static_cast<std::uint32_t>(std::min<std::int64_t>(unsold, kWhole));
    const wire::Ask ask = ask_of(*device, quantity, Isolation::kSoft);
    listed.push_back({.from = start_of(at->first),
                      .to = start_of(next->first),
                      .use = use_of(*device, ask, kSharingGroup, slice_of(*device, quantity))});
  }
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
  if (piece.bought == ContractId{}) return state.devices.contains(piece.device) ? piece.device : DeviceId{};
  const Contract* contract = state.market.contracts.find(piece.bought.value);
  const Piece* before = contract == nullptr ? nullptr : state.market.pieces.find(contract->piece.value);
  return before == nullptr ? DeviceId{} : device_under(state, *before);
}

bool may_meet(const State& state, const Piece& piece, const MarketOrder& ask, const MarketOrder& bid) {
  if (device_under(state, piece) == DeviceId{}) return true;
  if (isolation_of(state, ask.book) == Isolation::kSoft && is_sharing(state, bid.party)) return true;
  const auto is_whole = [](const MarketOrder& order) {
    const auto by_slot = order.open_by_slot;
    return order.open % kWhole == 0 &&
           std::all_of(by_slot.begin(), by_slot.end(), [](auto open) { return open % kWhole == 0; });
  };
  return is_whole(ask) && is_whole(bid);
}

std::optional<Refusal> calendar_problem(const State& state, Instant now, const Offer& offer) {
  const Device* device = state.device(offer.device);
  if (device == nullptr) return std::nullopt;
  if (!offer.shape.empty()) {
    return Refusal{.reason = Reason::kInvalid,
                   .rule = "shape",
                   .message = "partitions of connected devices are not traded; fractions and whole ones are",
                   .fix = "leave the shape out"};
  }
  if (offer.quantity < kWhole && offer.isolation != Isolation::kSoft) {
    return Refusal{.reason = Reason::kInvalid,
                   .rule = "isolation",
                   .message = "a part of a device can only be soft",
                   .fix = "offer the whole device"};
  }
  if (offer.quantity < kWhole && !is_sharing(state, offer.owner)) return sharing_refusal();
  const wire::Ask ask = ask_of(*device, offer.quantity, offer.isolation);
  const WantedEnvironment none;
  const WindowAsk wanted{
      ask,
      kSharingGroup,
      none,
      {std::max(start_of(offer.first_slot), now), start_of(offer.first_slot + offer.slots)},
      {},
      device->id};
  if (find_places(state, now, wanted)) return std::nullopt;
  std::string list;
  for (const TimeSpan& span : nearest_windows(state, now, wanted))
    list += (list.empty() ? "" : ", ") + text(span.from) + '/' + text(span.to);
  return Refusal{.reason = Reason::kConflict,
                 .rule = "calendar",
                 .message = text(device->id) + " is booked or in use during that window",
                 .fix = list.empty() ? "choose another window or device" : "nearest that are free: " + list};
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

std::optional<Refusal> append_claim_again(const State& state,
                                          Instant at,
                                          const Contract& contract,
                                          Events& events) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  const Device* device = piece == nullptr ? nullptr : state.device(device_under(state, *piece));
  const TimeSpan span{std::max(contract.start, at), contract.end};
  if (device == nullptr || span.from >= span.to || claim_of(state, contract.id) != nullptr)
    return std::nullopt;
  WindowsBooked booked{.id = {state.next_claim},
                       .kind = ClaimKind::kContract,
                       .owner = contract.buyer,
                       .tenant = tenant_of(state, contract.buyer),
                       .name = "bought on the market",
                       .ask = ask_of(*device, contract.quantity, isolation_of(state, contract.book)),
                       .zone = "UTC",
                       .contract = contract.id};
  booked.trust_group = trust_group(state, booked.tenant);
  const WantedEnvironment none;
  const WindowAsk wanted{booked.ask, booked.trust_group, none, span, {}, device->id, true};
  auto places = find_places(state, at, wanted);
  if (!places) {
    return Refusal{.reason = Reason::kConflict,
                   .rule = "calendar",
                   .message = text(device->id) + " is not free for the rest of the contract",
                   .fix = "free it first, or let the contract run out"};
  }
  booked.windows.push_back({.from = span.from, .to = span.to, .places = std::move(*places)});
  events.emplace_back(std::move(booked));
  return std::nullopt;
}

}  // namespace tranche::engine
