// SPDX-License-Identifier: Apache-2.0
#include "engine/market_claims.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "base/text.hpp"
#include "engine/contract_terms.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// One connected device, certified for the first tenant; the second tenant buys, the third looks on.
struct Floor : MarketWorld {
  NodeId node_id = node("a", 1);
  DeviceId gpu = device(0);
  std::int64_t slot = now_slot() + 1;

  Floor() { clock = start_of(slot); }

  void share(std::size_t who) {
    Quota quota;
    quota.share_soft = true;
    REQUIRE(limit(tenants[who], quota).has_value());
  }
  Decision offer(std::uint32_t quantity, std::uint32_t slots) {
    return run(ListCapacity{.owner = traders[0],
                            .device = gpu,
                            .quantity = quantity,
                            .first_slot = slot,
                            .slots = slots,
                            .price = 10},
               traders[0]);
  }
  Decision buy(std::size_t who, std::uint32_t quantity, std::uint32_t slots, std::int64_t after = 0) {
    return run(bid(who, 10, slot + after, slots, quantity, TimeInForce::kIoc), traders[who]);
  }
  Decision book(std::size_t who, std::uint32_t milli, Duration in, Duration length) {
    return run(BookWindows{.ask = gpus(1, milli), .windows = {{clock + in, clock + in + length}}},
               traders[who]);
  }
  const Job& job(JobId id) { return state.jobs.at(id); }
  const Lease& lease_of(JobId id) { return state.leases.at(job(id).leases.front()); }
  std::vector<const Booking*> claims(PartyId owner) {
    std::vector<const Booking*> found;
    for (const auto& [id, booking] : state.bookings)
      if (booking.owner == owner && booking.state == BookingState::kBooked) found.push_back(&booking);
    return found;
  }
};

TEST_CASE("market and calendar: what was bought is used by those who can pay for nothing else") {
  Floor world;
  const wire::PriceRule rule{.name = "dear", .gpu_hour = units(1'000'000)};
  REQUIRE(world.run(SetPriceList{{.name = "dear", .rules = {rule}}}, world.root));
  REQUIRE(world.offer(1000, 4).has_value());
  REQUIRE(world.buy(1, 1000, 4).has_value());
  const auto refused = world.run(SubmitJob{.owner = world.traders[2], .ask = gpus(2)}, world.traders[2]);
  CHECK(refused.error().rule == "credit");
  REQUIRE(world.run(Tick{}).has_value());
  const JobId id = world.submit(world.traders[1], gpus(1));
  world.schedule();
  CHECK(world.lease_of(id).booking != ClaimId{});
  REQUIRE(world.state.meters.size() == 1);  // Metered, and nothing set aside for it.
  CHECK(world.state.meters.begin()->second.held == Money{});
}

TEST_CASE("market and calendar: half of a device that was bought takes a job for half of it") {
  Floor world;
  world.share(0);
  world.share(1);
  world.node("b", 1);  // Free for everybody: what was bought goes first all the same.
  REQUIRE(world.offer(1000, 4).has_value());
  REQUIRE(world.buy(1, 500, 4).has_value());
  REQUIRE(world.run(Tick{}).has_value());
  world.schedule();
  Ask half = gpus(1, 500);
  half.vram_each = world.state.device(world.gpu)->facts.vram.count / 2;
  REQUIRE(half.vram_each % (1 << 20) != 0);  // Not whole MiB: where shares are rounded.
  const JobId id = world.submit(world.traders[1], half);
  world.schedule();
  REQUIRE(world.job(id).state == JobState::kStarting);
  CHECK(world.lease_of(id).booking != ClaimId{});
}

TEST_CASE("market and calendar: what is booked or runs is not offered, what is offered is not booked") {
  Floor world;
  REQUIRE(world.book(2, 1000, 1h, 1h).has_value());
  const auto refused = world.offer(1000, 8);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "calendar");
  CHECK(refused.error().fix.starts_with("nearest that are free: "));
  REQUIRE(world.offer(1000, 4).has_value());
  CHECK(world.book(2, 1000, 15min, 30min).error().rule == "calendar");
  CHECK(world
            .run(PlanMaintenance{.node = world.node_id, .windows = {{world.clock, world.clock + 30min}}},
                 world.root)
            .error()
            .rule == "calendar");

  Floor busy;
  Ask long_one = gpus(1);
  long_one.time = 10h;
  busy.submit(busy.traders[2], long_one);
  busy.schedule();
  CHECK(busy.offer(1000, 4).error().rule == "calendar");
}

TEST_CASE("market and calendar: an offer taken back frees its window, and can be made again") {
  Floor world;
  REQUIRE(world.offer(1000, 4).has_value());
  CHECK_FALSE(world.book(2, 1000, 15min, 30min).has_value());
  REQUIRE(world.run(CancelOrder{1}, world.traders[0]).has_value());
  REQUIRE(world.offer(1000, 4).has_value());
  REQUIRE(world.run(CancelOrder{2}, world.traders[0]).has_value());
  CHECK(world.book(2, 1000, 15min, 30min).has_value());
}

TEST_CASE("market and calendar: what was bought is used at once, by the buyer alone, until it ends") {
  Floor world;
  REQUIRE(world.offer(1000, 8).has_value());
  const JobId stranger = world.submit(world.traders[2], gpus(1));
  const JobId own = world.submit(world.traders[1], gpus(1));
  world.schedule();
  CHECK(world.job(stranger).state == JobState::kPending);
  CHECK(world.job(own).state == JobState::kPending);
  REQUIRE(world.buy(1, 1000, 8).has_value());
  world.schedule();
  CHECK(world.job(own).state == JobState::kStarting);
  CHECK(world.job(stranger).state == JobState::kPending);
  const auto claims = world.claims(world.traders[1]);
  REQUIRE(claims.size() == 1);
  CHECK(claims[0]->kind == ClaimKind::kContract);
  CHECK(claims[0]->contract == ContractId{1});
  CHECK(world.lease_of(own).booking == claims[0]->id);
  CHECK_FALSE(world.run(CancelBooking{claims[0]->id}, world.traders[1]).has_value());

  const auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
  CHECK(copy->index.calendar->claim_of({1}) == claims[0]->id);

  world.clock += 2h;
  world.schedule();
  const LeaseId lease = world.job(own).leases.front();
  CHECK(world.state.leases.at(lease).revoked);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kWindowClosed).has_value());
  REQUIRE(world.scrub(lease).has_value());
  world.schedule();
  CHECK(world.claims(world.traders[1]).empty());
  CHECK(world.job(stranger).state == JobState::kStarting);
}

TEST_CASE("market and calendar: preemptible work uses what is offered until somebody buys it") {
  Floor world;
  REQUIRE(world.offer(1000, 8).has_value());
  Ask filler = gpus(1);
  filler.preemptible = true;
  const JobId lent = world.submit(world.traders[2], filler);
  world.schedule();
  CHECK(world.job(lent).state == JobState::kStarting);
  REQUIRE(world.buy(1, 1000, 8).has_value());
  world.schedule();
  CHECK(world.lease_of(lent).revoked);
}

TEST_CASE("market and calendar: parts of a device are for tenants who agreed to share") {
  Floor world;
  CHECK(world.offer(500, 4).error().rule == "share_soft");
  REQUIRE(world.offer(1000, 4).has_value());
  CHECK_FALSE(world.buy(1, 500, 4).has_value());
  world.share(1);
  world.share(2);
  REQUIRE(world.buy(1, 500, 4).has_value());
  REQUIRE(world.buy(2, 300, 4).has_value());
  const JobId one = world.submit(world.traders[1], gpus(1, 500));
  const JobId two = world.submit(world.traders[2], gpus(1, 300));
  const JobId more = world.submit(world.traders[2], gpus(1, 200));
  world.schedule();
  CHECK(world.job(one).state == JobState::kStarting);
  CHECK(world.job(two).state == JobState::kStarting);
  CHECK(world.job(more).state == JobState::kPending);
}

TEST_CASE("market and calendar: what is sold on leaves the first buyer's claim") {
  Floor world;
  REQUIRE(world.offer(1000, 8).has_value());
  REQUIRE(world.buy(1, 1000, 8).has_value());
  REQUIRE(world
              .run(ListCapacity{.owner = world.traders[1],
                                .bought = {1},
                                .quantity = 1000,
                                .first_slot = world.slot + 2,
                                .slots = 2,
                                .price = 10},
                   world.traders[1])
              .has_value());
  REQUIRE(world.buy(2, 1000, 2, 2).has_value());
  const auto first = world.claims(world.traders[1]);
  REQUIRE(first.size() == 1);
  REQUIRE(first[0]->windows.size() == 2);
  CHECK(first[0]->windows[0].to == world.clock + 30min);
  CHECK(first[0]->windows[1].from == world.clock + 60min);
  const auto second = world.claims(world.traders[2]);
  REQUIRE(second.size() == 1);
  CHECK(second[0]->windows[0].from == world.clock + 30min);
  CHECK_FALSE(world.book(0, 1000, 0min, 2h).has_value());
}

// What the second tenant bought goes on to the third, in part or in whole.
Decision sell_on(Floor& world, std::uint32_t quantity, std::int64_t after, std::uint32_t slots) {
  return world.run(ListCapacity{.owner = world.traders[1],
                                .bought = {1},
                                .quantity = quantity,
                                .first_slot = world.slot + after,
                                .slots = slots,
                                .price = 10},
                   world.traders[1]);
}

TEST_CASE("market and calendar: what its seller takes back of what he sold on is his to use, and to sell") {
  Floor world;
  REQUIRE(world.offer(1000, 8).has_value());
  REQUIRE(world.buy(1, 1000, 8).has_value());
  REQUIRE(sell_on(world, 1000, 0, 8).has_value());
  REQUIRE(world.buy(2, 1000, 8).has_value());
  REQUIRE(world.claims(world.traders[1]).empty());
  REQUIRE(world.run(ReclaimContract{{2}, start_of(world.slot + 4)}, world.traders[1]).has_value());
  const auto his = world.claims(world.traders[1]);
  REQUIRE(his.size() == 1);
  CHECK(his[0]->contract == ContractId{1});
  REQUIRE(his[0]->windows.size() == 1);
  CHECK(his[0]->windows[0].from == start_of(world.slot + 4));
  CHECK(his[0]->windows[0].to == start_of(world.slot + 8));
  REQUIRE(sell_on(world, 1000, 6, 2).has_value());
  REQUIRE(world.buy(2, 1000, 2, 6).has_value());
  CHECK(world.state.booking(world.state.index.calendar->claim_of({3}))->windows[0].from ==
        start_of(world.slot + 6));
  CHECK(world.claims(world.traders[1])[0]->windows[0].to == start_of(world.slot + 6));
  world.clock += 1h;
  const JobId own = world.submit(world.traders[1], gpus(1));
  world.schedule();
  CHECK(world.lease_of(own).booking == his[0]->id);
  const auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
  CHECK(copy->index.calendar->claim_of({1}) == his[0]->id);
}

TEST_CASE("market and calendar: what comes back to a seller joins what he kept") {
  Floor world;
  for (const std::size_t who : {0U, 1U, 2U}) world.share(who);
  REQUIRE(world.offer(1000, 8).has_value());
  REQUIRE(world.buy(1, 1000, 8).has_value());
  REQUIRE(sell_on(world, 600, 2, 4).has_value());
  REQUIRE(world.buy(2, 600, 4, 2).has_value());
  REQUIRE(world.claims(world.traders[1])[0]->windows.size() == 3);
  REQUIRE(world.run(ReclaimContract{{2}, start_of(world.slot + 4)}, world.traders[1]).has_value());
  const auto his = world.claims(world.traders[1]);
  REQUIRE(his.size() == 1);
  const auto& windows = his[0]->windows;
  REQUIRE(windows.size() == 3);
  CHECK(windows[1].to == start_of(world.slot + 4));
  CHECK(windows[1].places[0].slices[0].milli == 400);
  CHECK(windows[2].to == start_of(world.slot + 8));
  CHECK(windows[2].places[0].slices[0].milli == 1000);
  // All of it, before it began.
  REQUIRE(sell_on(world, 300, 6, 2).has_value());
  REQUIRE(world.buy(2, 300, 2, 6).has_value());
  REQUIRE(world.run(ReclaimContract{{3}, start_of(world.slot + 6)}, world.traders[1]).has_value());
  CHECK(world.claims(world.traders[1])[0]->windows.back().to == start_of(world.slot + 8));
  CHECK(world.claims(world.traders[1])[0]->windows.back().places[0].slices[0].milli == 1000);
}

TEST_CASE("market and calendar: what is taken back from under who bought it second hand is free at once") {
  Floor world;
  REQUIRE(world.offer(1000, 8).has_value());
  REQUIRE(world.buy(1, 1000, 8).has_value());
  REQUIRE(sell_on(world, 1000, 0, 8).has_value());
  REQUIRE(world.buy(2, 1000, 8).has_value());
  REQUIRE(world.run(ReclaimContract{{1}, start_of(world.slot + 4)}, world.traders[0]).has_value());
  const auto last = world.claims(world.traders[2]);
  REQUIRE(last.size() == 1);
  CHECK(last[0]->windows.back().to == start_of(world.slot + 4));
  CHECK(world.claims(world.traders[1]).empty());
  CHECK(world.book(0, 1000, 1h, 1h).has_value());
}

// Of a contract that stands, with all those under it.
bool stands(const State& state, const Contract& contract) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  if (contract.state != ContractState::kAgreed || piece == nullptr) return false;
  if (piece->bought == ContractId{}) return true;
  const Contract* under = state.market.contracts.find(piece->bought.value);
  return under != nullptr && under->end >= contract.end && stands(state, *under);
}

// Nobody has in the calendar what the contract that his was made of does not reach to.
void check_reach(const State& state) {
  for (const auto& [id, booking] : state.bookings) {
    const Contract* contract = state.market.contracts.find(booking.contract.value);
    if (booking.state != BookingState::kBooked || contract == nullptr) continue;
    const Piece* piece = state.market.pieces.find(contract->piece.value);
    const Contract* under = piece == nullptr ? nullptr : state.market.contracts.find(piece->bought.value);
    if (under == nullptr) continue;
    CAPTURE(contract->id.value);
    for (const BookedWindow& window : booking.windows)
      CHECK((window.state == WindowState::kClosed || window.to <= under->end));
  }
}

// Nothing is booked twice, and every buyer has in the calendar what he bought and did not sell on.
void check_claims(const State& state, Instant now) {
  std::map<std::int64_t, std::int64_t> booked, sold;
  std::map<ContractId, std::map<std::int64_t, std::int64_t>> had, wanted;
  for (const auto& [id, booking] : state.bookings)
    for (const BookedWindow& window : booking.windows)
      for (std::int64_t slot = slot_of(now) + 1; slot < slot_of(window.to); ++slot)
        if (booking.state == BookingState::kBooked && window.from <= start_of(slot)) {
          booked[slot] += window.places[0].slices[0].milli;
          had[booking.contract][slot] += window.places[0].slices[0].milli;
        }
  for (const auto& [slot, milli] : booked) CHECK(milli <= 1000);
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    const Piece* piece = state.market.pieces.find(contract.piece.value);
    for (std::int64_t slot = slot_of(now) + 1; slot < slot_of(contract.end); ++slot) {
      if (slot < contract.first_slot || is_over(contract.state) || piece == nullptr) continue;
      wanted[contract.id][slot] += contract.quantity;
      wanted[piece->bought][slot] -= contract.quantity;
    }
  }
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    for (std::int64_t slot = slot_of(now) + 1; stands(state, contract) && slot < slot_of(contract.end);
         ++slot) {
      if (slot < contract.first_slot) continue;
      CAPTURE(id);
      CAPTURE(slot - slot_of(now));
      CHECK(had[contract.id][slot] == wanted[contract.id][slot]);
    }
  }
}

TEST_CASE("market and calendar: whoever sells, sells on and takes back, every buyer has what he bought") {
  std::size_t sold_on = 0, taken_back = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto below = [&](std::uint64_t most) { return static_cast<std::uint32_t>(random.below(most)); };
    Floor world;
    for (const std::size_t who : {0U, 1U, 2U}) world.share(who);
    for (int step = 0; step < 150; ++step) {
      const std::int64_t first = world.now_slot() + below(12);
      const std::uint32_t quantity = 100 * (1 + below(10)), slots = 1 + below(8);
      const ContractId contract{world.state.market.next_contract -
                                std::min<std::uint64_t>(below(8), world.state.market.next_contract)};
      const Contract* known = world.state.market.contracts.find(contract.value);
      const std::size_t who = below(3);
      switch (below(7)) {
        case 0:
          world.clock += Duration(std::chrono::minutes(1 + below(20)));
          REQUIRE(world.run(Tick{}));
          world.schedule();
          break;
        case 1:
          world.run(ListCapacity{.owner = world.traders[0],
                                 .device = world.gpu,
                                 .quantity = 1000,
                                 .first_slot = first,
                                 .slots = 1 + below(16),
                                 .price = 10},
                    world.traders[0]);
          break;
        case 2:
        case 3:
          if (known == nullptr) break;
          world.run(ListCapacity{.owner = known->buyer,
                                 .bought = contract,
                                 .quantity = std::min(quantity, known->quantity),
                                 .first_slot = std::max(known->first_slot, world.now_slot()) + below(4),
                                 .slots = slots,
                                 .price = 8 + below(4)},
                    known->buyer);
          break;
        case 4: {
          if (known == nullptr) break;
          const Instant end = start_of(std::max(known->first_slot, world.now_slot()) + below(8));
          const Piece* piece = world.state.market.pieces.find(known->piece.value);
          const bool resold = piece != nullptr && piece->bought != ContractId{};
          if (world.run(ReclaimContract{contract, end}, known->seller)) taken_back += resold;
          break;
        }
        default: {
          const std::uint64_t before = world.state.market.next_contract;
          PlaceOrder bid = world.bid(who, 12, first, slots, quantity, TimeInForce::kIoc);
          bid.slots_min = 1;
          if (world.state.market.instruments.empty()) break;
          if (world.run(bid, world.traders[who]))
            for (std::uint64_t id = before; id < world.state.market.next_contract; ++id)
              sold_on += world.state.market.pieces.find(world.state.market.contracts.find(id)->piece.value)
                             ->bought != ContractId{};
        }
      }
      check_claims(world.state, world.clock);
      check_reach(world.state);
    }
  }
  CHECK(sold_on > 100);
  CHECK(taken_back > 20);
}

TEST_CASE("market and calendar: what its seller has no claim to is not bought") {
  Floor world;
  REQUIRE(world.offer(1000, 8).has_value());
  REQUIRE(world.buy(1, 1000, 8).has_value());
  REQUIRE(sell_on(world, 1000, 4, 4).has_value());
  const Booking& claim = *world.claims(world.traders[1])[0];
  std::vector<BookedWindow> less = claim.windows;
  less[0].to = start_of(world.slot + 6);
  const WindowsChanged lost{claim.id, less, "test", claim.owner};
  apply_record(world.state, world.state.sequence + 1, world.envelope({}), {lost});
  const Money before = world.free(2);
  CHECK_FALSE(world.buy(2, 1000, 4, 4).has_value());
  CHECK(world.free(2) == before);
  CHECK(world.state.market.contracts.ids().size() == 1);
}

TEST_CASE("market and calendar: a contract that is interrupted loses its claim, one resumed has it again") {
  Floor world;
  REQUIRE(world.offer(1000, 8).has_value());
  REQUIRE(world.buy(1, 1000, 8).has_value());
  const JobId own = world.submit(world.traders[1], gpus(1));
  world.schedule();
  REQUIRE(world.job(own).state == JobState::kStarting);
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]).has_value());
  CHECK(world.claims(world.traders[1]).empty());
  CHECK(world.lease_of(own).revoked);
  const LeaseId lease = world.job(own).leases.front();
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kWindowClosed).has_value());
  REQUIRE(world.scrub(lease).has_value());
  REQUIRE(world.run(ResumeContract{{1}}, world.traders[0]).has_value());
  REQUIRE(world.claims(world.traders[1]).size() == 1);
  CHECK(world.claims(world.traders[1])[0]->windows[0].to == world.clock + 2h);
}

TEST_CASE("market and calendar: all contracts of a device that comes back go on at once") {
  Floor world;
  for (const std::size_t who : {0U, 1U, 2U}) world.share(who);
  REQUIRE(world.offer(1000, 8).has_value());
  for (const std::size_t who : {1U, 2U, 1U}) REQUIRE(world.buy(who, 300, 8).has_value());
  REQUIRE(world.run(Tick{}).has_value());
  const auto state_of = [&](DeviceState from, DeviceState to) {
    apply_record(world.state,
                 world.state.sequence + 1,
                 world.envelope({}),
                 {DeviceStateChanged{world.gpu, from, to, "test"}});
    REQUIRE(world.run(Tick{}).has_value());
  };
  const auto in = [&](ContractState wanted) {
    std::size_t count = 0;
    for (const std::uint64_t id : world.state.market.contracts.ids())
      count += world.state.market.contracts.find(id)->state == wanted;
    return count;
  };
  world.clock += 15min;
  state_of(DeviceState::kHealthy, DeviceState::kMaintenance);
  CHECK(in(ContractState::kInterrupted) == 3);
  CHECK(world.claims(world.traders[1]).empty());
  world.clock += 15min;
  state_of(DeviceState::kMaintenance, DeviceState::kHealthy);
  CHECK(in(ContractState::kAgreed) == 3);
  CHECK(world.claims(world.traders[1]).size() == 2);
  CHECK(world.claims(world.traders[2]).size() == 1);
  const auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
}

TEST_CASE("market and calendar: what was sold on goes on beside what its seller kept of it") {
  Floor world;
  REQUIRE(world.offer(1000, 8).has_value());
  REQUIRE(world.buy(1, 1000, 8).has_value());
  REQUIRE(world
              .run(ListCapacity{.owner = world.traders[1],
                                .bought = {1},
                                .quantity = 1000,
                                .first_slot = world.slot + 4,
                                .slots = 2,
                                .price = 10},
                   world.traders[1])
              .has_value());
  REQUIRE(world.buy(2, 1000, 2, 4).has_value());
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]).has_value());
  world.clock += 15min;
  const auto resumed = world.run(ResumeContract{{1}}, world.traders[0]);
  REQUIRE_MESSAGE(resumed.has_value(), (resumed ? "" : resumed.error().message));
  const auto kept = world.claims(world.traders[1]);
  REQUIRE(kept.size() == 1);
  REQUIRE(kept[0]->windows.size() == 2);
  CHECK(kept[0]->windows[0].to == start_of(world.slot + 4));
  CHECK(kept[0]->windows[1].from == start_of(world.slot + 6));
  CHECK(world.claims(world.traders[2]).size() == 1);  // It had not begun: it never stopped.
}

}  // namespace
}  // namespace tranche::engine
