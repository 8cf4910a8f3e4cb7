// SPDX-License-Identifier: Apache-2.0
// Anything that moves money, in any order and on any clock, against an independent model in exact fractions.
// In a long run it is ten million operations.
#include "engine/money_model.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/random.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

// Tenants that use, list, buy, quote, cancel, fail and take back, while the clock jumps.
class Bazaar {
 public:
  explicit Bazaar(std::uint64_t seed) : random_(seed), world_(kTenants, units(300)), model_(world_) {
    for (std::size_t i = 0; i < kTenants; ++i) {
      model_.paid_in(world_.tenants[i], Exact(units(300).micros));
      devices_.push_back(world_.device(i));
      top_up(i);
      do_as_operator(
          SetTaxProfile{world_.tenants[i], {.country = "ES", .rate_ppm = 40'000 * std::int64_t(i)}});
    }
    set_price();
  }

  void step() {
    const std::size_t who = random_.below(kTenants);
    switch (random_.below(18)) {
      case 0:
        return pass();
      case 1:
        return top_up(who);
      case 2:
        return random_.below(20) == 0 ? set_price() : meter(who);
      case 3:
      case 4:
        return meter(who);
      case 5:
      case 6:
      case 7:
        return list(who);
      case 8:
        return run(CancelOrder{1 + random_.below(world_.state.market.next_order)}, world_.traders[who]);
      case 9:
        return end_somehow();
      case 10:
        return quote(who);
      case 11:
        return run(TakeQuote{{1 + random_.below(world_.state.market.next_quote)}}, world_.traders[who]);
      case 12:
        return resell(who);
      case 13:
        return give_back(who);
      default:
        return buy(who);
    }
  }
  void check() const { model_.check(); }
  void restart() {
    const std::string bytes = encode_state(world_.state);
    auto again = decode_state(bytes);
    REQUIRE(again);
    REQUIRE(encode_state(*again) == bytes);
    world_.state = std::move(*again);
  }
  [[nodiscard]] const Model& model() const { return model_; }

 private:
  static constexpr std::size_t kTenants = 5;

  void run(const Command& command, PartyId actor) {
    const auto decision = world_.run(command, actor);
    if (decision) model_.see(*decision, world_.clock);
  }
  void do_as_operator(const Command& command) { run(command, world_.root); }
  std::uint32_t up_to(std::uint64_t most) { return static_cast<std::uint32_t>(1 + random_.below(most)); }

  void top_up(std::size_t who) {
    const Money amount{static_cast<std::int64_t>(1 + random_.below(400'000'000))};
    // What is owed is paid first: the model is told what went where.
    const AccountId owing = world_.account(world_.tenants[who], AccountKind::kReceivable);
    const std::int64_t owed = -balance(world_.state.ledger, owing).micros;
    if (owed > 0) return;
    REQUIRE(world_.run(TopUp{world_.tenants[who], amount, "", ""}, world_.root));
    model_.paid_in(world_.tenants[who], Exact(amount.micros));
  }
  void set_price() {
    const auto micros = static_cast<std::int64_t>(random_.below(9'000'000));
    const Instant from = world_.clock + std::chrono::seconds(random_.below(7200));
    do_as_operator(
        SetPriceList{{.name = "p", .valid_from = from, .rules = {{.name = "all", .gpu_hour = {micros}}}}});
    if (std::any_of(world_.state.prices.begin(), world_.state.prices.end(), [&](const PriceList& list) {
          return list.valid_from == from;
        }))
      model_.rate(from, micros);
  }
  // Records that overlap, repeat, reach into the future or run backwards.
  void meter(std::size_t who) {
    if (live_.empty() || random_.below(8) == 0) {
      const LeaseId lease{++leases_};
      const auto opened = world_.run(OpenMeter{{.lease = lease,
                                                .job = {leases_},
                                                .party = world_.traders[who],
                                                .model = random_.below(2) == 0 ? "H100" : "A100",
                                                .milli = up_to(4000)}});
      if (!opened) return;
      model_.see(*opened, world_.clock);
      live_.push_back({lease, 0});
      return;
    }
    auto& [lease, sequence] = live_[random_.below(live_.size())];
    const Meter& meter = world_.state.meters.at(lease);
    if (random_.below(12) == 0 || meter.exhausted) {
      run(CloseMeter{lease, {}}, {});
      std::erase_if(live_, [id = lease](const auto& one) { return one.first == id; });
      return;
    }
    sequence += random_.below(3);
    const auto off = [&](std::uint64_t most) {
      return Duration(static_cast<std::int64_t>(random_.below(most)) - static_cast<std::int64_t>(most / 2));
    };
    run(RecordUsage{{.lease = lease,
                     .epoch = 1,
                     .sequence = sequence,
                     .from = meter.metered_to + off(600'000'000),
                     .to = world_.clock + off(600'000'000),
                     .device_nanoseconds = static_cast<std::int64_t>(random_.below(1'000'000'000'000))}},
        {});
  }
  void pass() {
    const std::uint64_t kind = random_.below(400);
    world_.clock += kind < 4    ? Duration(std::chrono::hours(24 * 20))
                    : kind < 20 ? Duration(std::chrono::hours(random_.below(30)))
                                : Duration(static_cast<std::int64_t>(random_.below(1'800'000'000)));
    for (int i = 0; i < 3; ++i) run(Tick{}, {});
  }
  void list(std::size_t who) {
    const auto price = static_cast<std::int64_t>(300 + random_.below(300));
    if (random_.below(16) == 0) {  // What one does not own.
      const DeviceId other = devices_[(who + 1 + random_.below(kTenants - 1)) % kTenants];
      REQUIRE_FALSE(world_.list(who, other, price, world_.now_slot() + 1, 2));
    }
    run(ListCapacity{.owner = world_.traders[who],
                     .instrument = {.interruptible = random_.below(3) == 0},
                     .device = devices_[who],
                     .quantity = up_to(500),
                     .first_slot = world_.now_slot() + static_cast<std::int64_t>(random_.below(8)),
                     .slots = random_.below(30) == 0 ? 96 * 4 : up_to(12),
                     .price = price,
                     .floor = random_.below(2) == 0 ? price / 2 : 0},
        world_.traders[who]);
  }
  // A part of what was bought, by its buyer; whoever else tries it is refused.
  void resell(std::size_t who) {
    const Contract* contract = any_contract();
    if (contract == nullptr) return;
    if (random_.below(8) != 0) who = buyer_of(*contract);
    const std::int64_t first =
        std::max(contract->first_slot, world_.now_slot()) + static_cast<std::int64_t>(random_.below(2));
    const ListCapacity command{.owner = world_.traders[who],
                               .bought = contract->id,
                               .quantity = up_to(contract->quantity),
                               .first_slot = first,
                               .slots = up_to(3),
                               .price = static_cast<std::int64_t>(250 + random_.below(200))};
    const bool is_its_own = contract->buyer == world_.traders[who];
    const auto decision = world_.run(command, world_.traders[who]);
    if (decision && !is_its_own) FAIL("sold on what another bought");
    if (decision) model_.see(*decision, world_.clock);
  }
  void give_back(std::size_t who) {
    const Contract* contract = any_contract();
    if (contract == nullptr) return;
    if (random_.below(8) != 0) who = buyer_of(*contract);
    if (random_.below(4) == 0) run(ReleaseContract{contract->id}, world_.traders[who]);
  }
  [[nodiscard]] std::size_t buyer_of(const Contract& contract) const {
    const auto& traders = world_.traders;
    return static_cast<std::size_t>(std::find(traders.begin(), traders.end(), contract.buyer) -
                                    traders.begin());
  }
  // One of the last: most of the others are over.
  const Contract* any_contract() {
    const std::vector<std::uint64_t> ids = world_.state.market.contracts.ids();
    const std::size_t last = std::min<std::size_t>(ids.size(), 12);
    return ids.empty() ? nullptr
                       : world_.state.market.contracts.find(ids[ids.size() - 1 - random_.below(last)]);
  }
  void buy(std::size_t who) {
    if (world_.state.market.instruments.empty()) return;
    PlaceOrder order = world_.bid(who,
                                  static_cast<std::int64_t>(300 + random_.below(300)),
                                  world_.now_slot() + static_cast<std::int64_t>(random_.below(8)),
                                  random_.below(30) == 0 ? 96 * 3 : up_to(6),
                                  up_to(800),
                                  static_cast<TimeInForce>(random_.below(4)));
    order.book = 1 + random_.below(world_.state.market.instruments.size());
    order.slots_min = random_.below(2) == 0 ? 0 : 1;
    order.expires = world_.clock + std::chrono::minutes(1 + random_.below(90));
    run(order, world_.traders[who]);
  }
  void quote(std::size_t who) {
    if (world_.state.market.instruments.empty()) return;
    if (random_.below(4) == 0)
      return run(DropQuote{{1 + random_.below(world_.state.market.next_quote)}}, world_.traders[who]);
    run(KeepQuote{.party = world_.traders[who],
                  .book = 1 + random_.below(world_.state.market.instruments.size()),
                  .first_slot = world_.now_slot() + static_cast<std::int64_t>(random_.below(6)),
                  .slots = up_to(5),
                  .quantity = up_to(700),
                  .slots_min = random_.below(2) == 0 ? 0U : 1U},
        world_.traders[who]);
  }
  void end_somehow() {
    const ContractId id{1 + random_.below(world_.state.market.next_contract)};
    switch (random_.below(3)) {
      case 0:
        return do_as_operator(InterruptContract{id});
      case 1:
        return do_as_operator(ResumeContract{id});
      default:
        return do_as_operator(ReclaimContract{
            id, random_.below(2) == 0 ? Instant{} : world_.clock + Duration(std::chrono::hours(1))});
    }
  }

  Random random_;
  MarketWorld world_;
  Model model_;
  std::vector<DeviceId> devices_;
  std::uint64_t leases_ = 0;
  std::vector<std::pair<LeaseId, std::uint64_t>> live_;
};

TEST_CASE("money: random operations on any clock move exactly what an independent model in fractions says") {
  const bool thorough = std::getenv("TRANCHE_LONG") != nullptr;
  const std::uint64_t seeds = thorough ? 500 : 3;
  const int steps = thorough ? 20'000 : 4'000;
  std::uint64_t charges = 0, settlements = 0, invoices = 0, fills = 0, quotes = 0, resales = 0, releases = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Bazaar bazaar(seed);
    for (int step = 1; step <= steps; ++step) {
      CAPTURE(step);
      bazaar.step();
      if (step % 16 == 0) bazaar.check();
      if (step % 1000 == 0) bazaar.restart();
    }
    bazaar.check();
    charges += bazaar.model().charges;
    settlements += bazaar.model().settlements;
    invoices += bazaar.model().invoices;
    fills += bazaar.model().fills;
    quotes += bazaar.model().quotes;
    resales += bazaar.model().resales;
    releases += bazaar.model().releases;
  }
  CHECK(charges > seeds * 100);
  CHECK(settlements > seeds * 100);
  CHECK(invoices > seeds * 5);
  CHECK(fills > seeds * 100);
  CHECK(quotes > seeds * 20);
  CHECK(resales > seeds * 5);
  CHECK(releases > seeds * 5);
}

}  // namespace
}  // namespace tranche::engine
