// SPDX-License-Identifier: Apache-2.0
// What keeping a volume costs: to the micro-unit, from its creation to its removal, whoever asks and
// whenever.
#include "engine/storage_charge.hpp"

#include <doctest/doctest.h>

#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/focus.hpp"
#include "engine/snapshot.hpp"
#include "engine/spend.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr std::int64_t kGib = std::int64_t{1} << 30;

struct Store : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");

  explicit Store(Money credit = units(100), Money gib_hour = {1000}) {
    clock = Instant(std::chrono::days(20'000));  // Midnight, for days that are easy to count.
    if (gib_hour > Money{}) price(gib_hour);
    if (credit > Money{}) TRANCHE_CHECK(run(TopUp{acme, credit, "", ""}, root).has_value());
  }
  void price(Money gib_hour, Money shared = {}) {
    PriceList list{.name = "list", .rules = {{.name = "gpus", .gpu_hour = units(2)}}};
    if (shared > Money{})
      list.rules.push_back({.name = "lake", .shape = "shared", .storage_gib_hour = shared});
    list.rules.push_back({.name = "disk", .storage_gib_hour = gib_hour});
    TRANCHE_CHECK(run(SetPriceList{list}, root).has_value());
  }
  Decision create_volume(std::int64_t bytes, wire::VolumeBackend backend = wire::VolumeBackend::kNode) {
    return run(
        CreateVolume{.name = "v" + std::to_string(state.volumes.size()), .bytes = bytes, .backend = backend},
        ana);
  }
  VolumeId volume(std::int64_t bytes) {
    const auto made = create_volume(bytes);
    TRANCHE_CHECK(made.has_value());
    return std::get<VolumeCreated>(made->front()).id;
  }
  void tick(Duration later) {
    clock += later;
    TRANCHE_CHECK(run(Tick{}).has_value());
  }
  [[nodiscard]] Money credit() const { return balance(state.ledger, credit_account(state, acme)); }
  [[nodiscard]] Money debt() const {
    return balance(state.ledger, AccountId::make(acme, AccountKind::kReceivable, currency_of(state)));
  }
  [[nodiscard]] std::int64_t sum_of_all() const {
    std::int64_t sum = 0;
    for (const std::uint64_t id : state.ledger.accounts.ids())
      sum += state.ledger.accounts.find(id)->balance.micros;
    return sum;
  }
};

TEST_CASE("storage: a volume costs its size times its time, used or not, and its removal ends that") {
  Store store;
  const VolumeId id = store.volume(10 * kGib);
  store.tick(minutes(59));
  CHECK(store.credit() == units(100));  // Charged by the hour, and before the end of a day.
  store.tick(minutes(1));
  CHECK(store.credit() == Money{units(100).micros - 10'000});
  store.clock += minutes(30);
  REQUIRE(store.run(RemoveVolume{id}, store.ana));
  CHECK(store.credit() == Money{units(100).micros - 15'000});
  CHECK(store.state.volumes.at(id).charged == Money{15'000});
  store.tick(hours(5));
  CHECK(store.credit() == Money{units(100).micros - 15'000});
  CHECK(store.sum_of_all() == 0);
}

TEST_CASE("storage: the remainder is carried, so that a year of small volumes adds up exactly") {
  Store store(units(100), Money{7});
  const VolumeId id = store.volume(kGib / 3);
  for (int i = 0; i < 365; ++i) store.tick(hours(24) - minutes(i % 50));
  const std::int64_t elapsed =
      (store.state.volumes.at(id).charged_to - store.state.volumes.at(id).created).count();
  const Int128 whole = Int128{7} * (kGib / 3) * elapsed;
  const Int128 unit = Int128{kGib} * 3'600'000'000;
  CHECK(store.state.volumes.at(id).charged.micros == static_cast<std::int64_t>(whole / unit));
  CHECK(store.sum_of_all() == 0);
}

TEST_CASE("storage: a change of price holds from when it holds, and what was free before stays free") {
  Store store(units(100), Money{});
  store.volume(kGib);
  store.tick(hours(3));
  store.price(Money{1000});
  store.tick(hours(1));
  CHECK(store.credit() == Money{units(100).micros - 1000});
  store.price(Money{3000});
  store.clock += hours(2);
  store.price(Money{500});
  store.tick(hours(2));
  CHECK(store.credit() == Money{units(100).micros - 1000 - 6000 - 1000});
}

TEST_CASE("storage: each day has its own line, and reports name the volume") {
  Store store;
  const VolumeId id = store.volume(10 * kGib);
  store.tick(hours(50));
  const Instant from = store.clock - hours(50);
  const auto days = cost_report(store.state, store.acme, wire::CostBy::kDay, from, from + hours(96));
  REQUIRE(days.items.size() == 3);
  CHECK(days.total == Money{500'000});
  CHECK(days.items[0].cost == Money{240'000});
  CHECK(days.items[2].cost == Money{20'000});
  const auto jobs = cost_report(store.state, store.acme, wire::CostBy::kJob, from, from + hours(96));
  REQUIRE(jobs.items.size() == 1);
  CHECK(jobs.items[0].what == text(id));
  const auto kinds = cost_report(store.state, store.acme, wire::CostBy::kKind, from, from + hours(96));
  CHECK(kinds.items[0].what == "storage");
  const auto bill = invoice(store.state, store.acme, running_month(store.state, store.acme));
  REQUIRE(bill.lines.size() == 1);
  CHECK(bill.lines[0].description == "Storage kept in volumes");
  CHECK(bill.total == Money{500'000});
  CHECK(focus_csv(store.state, store.acme, from, from + hours(96)).find("Storage kept in a volume") !=
        std::string::npos);
}

TEST_CASE("storage: who cannot pay a day of it gets no volume; one that outlives the credit is owed") {
  Store store(Money{100'000});
  CHECK(store.create_volume(100 * kGib).error().reason == Reason::kBudget);
  store.volume(4 * kGib);  // 96,000 a day.
  store.tick(hours(24));
  CHECK(store.credit() == Money{4'000});
  CHECK(store.debt() == Money{});
  store.tick(hours(24));
  CHECK(store.credit() == Money{});
  CHECK(store.debt() == Money{-92'000});
  CHECK(store.sum_of_all() == 0);
  CHECK(store.state.volumes.begin()->second.state == VolumeState::kReady);
}

TEST_CASE("storage: without an account the tenant owes it, and its spend limit is asked first") {
  Store store(Money{});
  Quota quota;
  quota.spend = Money{50'000};
  REQUIRE(store.limit(store.acme, quota));
  CHECK(store.create_volume(10 * kGib).error().rule == "spend");
  store.volume(2 * kGib);
  store.tick(hours(10));
  CHECK(store.debt() == Money{-20'000});
  CHECK(spent(store.state, store.acme, store.clock) == Money{20'000});
}

TEST_CASE("storage: a shared volume has its own price where the list has one") {
  Store store;
  store.price(Money{1000}, Money{4000});
  Volume volume{.owner = store.acme, .bytes = 2 * kGib};
  CHECK(storage_hourly(store.state, volume, store.clock) == Money{2000});
  volume.pool = "lake";
  CHECK(storage_hourly(store.state, volume, store.clock) == Money{8000});
  volume.state = VolumeState::kGone;
  CHECK(storage_hourly(store.state, volume, store.clock) == Money{});
}

TEST_CASE("storage: what was charged is in a snapshot of the state") {
  Store store;
  store.volume(10 * kGib);
  store.tick(hours(30));
  auto again = decode_state(encode_state(store.state));
  REQUIRE(again);
  CHECK(encode_state(*again) == encode_state(store.state));
  CHECK(again->costs.size() == 2);
}

}  // namespace
}  // namespace tranche::engine
