// SPDX-License-Identifier: Apache-2.0
// What fills mean for the calendar: a claim for each buyer, cut out of that of who sold on what he had
// bought.
#include <algorithm>

#include "engine/access.hpp"
#include "engine/attempt.hpp"
#include "engine/booking_limits.hpp"
#include "engine/claim_parts.hpp"

namespace tranche::engine {
namespace {

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

}  // namespace

void append_claims(const State& state, Instant at, Events& events) {
  if (state.devices.empty()) return;
  ClaimsOfFills(state, at, events).run();
}

}  // namespace tranche::engine
