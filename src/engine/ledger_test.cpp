// SPDX-License-Identifier: Apache-2.0
#include "engine/ledger.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/snapshot.hpp"
#include "engine/spend.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

const Currency kUsd = *Currency::of("USD");

AccountId credit(PartyId party) {
  return AccountId::make(party, AccountKind::kCredit, kUsd);
}

TEST_CASE("ledger: an account's id tells its owner, kind and currency") {
  const PartyId acme = PartyId::make(PartyKind::kTenant, 123'456);
  const AccountId id = AccountId::make(acme, AccountKind::kEscrow, kUsd);
  CHECK(id.owner() == acme);
  CHECK(id.kind() == AccountKind::kEscrow);
  CHECK(id.currency().text() == "USD");
  CHECK_FALSE(Currency::of("usd"));
}

TEST_CASE("ledger: what does not balance, mixes currencies or overdraws is refused by name") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId blue = world.create(PartyKind::kTenant, kPlatform, "blue");
  REQUIRE(world.run(TopUp{acme, units(10), "bank 1", ""}, world.root));
  const auto rule = [&](const Command& command) {
    const auto decision = world.run(command, world.root);
    return decision ? std::string("ok") : decision.error().rule;
  };
  CHECK(rule(TopUp{acme, units(10), "bank 1", ""}) == "reference");
  CHECK(rule(TopUp{acme, units(-1), "", ""}) == "amount");
  CHECK(rule(PostEntry{{{credit(acme), units(-5)}, {credit(blue), units(4)}}, "", ""}) == "balance");
  CHECK(rule(PostEntry{{{credit(acme), units(-11)}, {credit(blue), units(11)}}, "", ""}) == "overdraft");
  const AccountId euro = AccountId::make(blue, AccountKind::kCredit, *Currency::of("EUR"));
  CHECK(rule(PostEntry{{{credit(acme), units(-5)}, {euro, units(5)}}, "", ""}) == "currency");
  CHECK(rule(PostEntry{{{credit(acme), units(-5)}, {credit(blue), units(5)}}, "", ""}) == "ok");
  CHECK(balance(world.state.ledger, credit(blue)) == units(5));
  CHECK(rule(ReversePosting{{2}, "wrong account"}) == "ok");
  CHECK(rule(ReversePosting{{2}, "again"}) == "reversed");
  CHECK(balance(world.state.ledger, credit(blue)) == Money{});
  CHECK(balance(world.state.ledger, credit(acme)) == units(10));
}

TEST_CASE("ledger: a hold cannot be spent twice, and ends by itself") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  REQUIRE(world.run(TopUp{acme, units(10), "", ""}, world.root));
  const Instant soon = world.clock + std::chrono::minutes(5);
  REQUIRE(world.run(PlaceHold{acme, units(7), soon, "quote"}, world.root));
  CHECK_FALSE(world.run(PlaceHold{acme, units(4), soon, "quote"}, world.root));
  CHECK(available(world.state.ledger, credit(acme)) == units(3));
  const AccountId revenue = AccountId::make(kPlatform, AccountKind::kRevenue, kUsd);
  REQUIRE(world.run(EndHold{{1}, units(2), revenue}, world.root));
  CHECK(available(world.state.ledger, credit(acme)) == units(8));
  REQUIRE(world.run(PlaceHold{acme, units(8), soon, "quote"}, world.root));
  world.clock += std::chrono::minutes(5);
  REQUIRE(world.run(Tick{}));
  CHECK(available(world.state.ledger, credit(acme)) == units(8));
}

// The same ledger, kept by hand in wide integers.
struct Model {
  std::map<AccountId, Int128> balances{}, held{}, overdraft{};
  std::map<HoldId, std::pair<AccountId, Int128>> holds{};
  [[nodiscard]] Int128 free(AccountId id) { return balances[id] + overdraft[id] - held[id]; }
};

TEST_CASE("ledger: random operations agree with an exact model, and no micro-unit appears or vanishes") {
  const bool thorough = std::getenv("TRANCHE_LONG") != nullptr;
  const int steps = thorough ? 10'000'000 : 30'000;
  World world;
  Model model;
  Random random(7);
  std::vector<PartyId> tenants;
  for (int i = 0; i < 8; ++i)
    tenants.push_back(world.create(PartyKind::kTenant, kPlatform, "t" + std::to_string(i)));
  const AccountId clearing = AccountId::make(kPlatform, AccountKind::kClearing, kUsd);
  const AccountId revenue = AccountId::make(kPlatform, AccountKind::kRevenue, kUsd);
  int accepted = 0;
  for (int step = 0; step < steps; ++step) {
    const PartyId from = tenants[random.below(tenants.size())];
    const PartyId to = tenants[random.below(tenants.size())];
    const Money amount{static_cast<std::int64_t>(random.below(3) == 0 ? random.below(INT64_MAX / 8)
                                                                      : random.below(5'000'000))};
    bool expected = false;
    Decision decision = refuse(Refusal{});
    switch (random.below(6)) {
      case 0: {
        const Int128 most = INT64_MAX / 4;
        expected = amount > Money{} && model.balances[credit(from)] + amount.micros <= most &&
                   model.balances[clearing] - amount.micros >= -most;
        decision = world.run(TopUp{from, amount, "", ""}, world.root);
        if (!expected) break;
        model.balances[credit(from)] += amount.micros;
        model.balances[clearing] -= amount.micros;
        break;
      }
      case 1: {
        const Int128 after = model.free(credit(from)) - (from == to ? 0 : amount.micros);
        const bool overdrawn = from != to && amount > Money{} && after < 0;
        const bool large = from != to && model.balances[credit(to)] + amount.micros > INT64_MAX / 4;
        expected = !overdrawn && !large;
        decision = world.run(PostEntry{{{credit(from), {-amount.micros}}, {credit(to), amount}}, "", ""},
                             world.root);
        if (!expected) break;
        model.balances[credit(from)] -= amount.micros;
        model.balances[credit(to)] += amount.micros;
        break;
      }
      case 2: {
        expected = amount > Money{} && amount.micros <= model.free(credit(from));
        const HoldId id{world.state.ledger.next_hold};
        decision = world.run(PlaceHold{from, amount, {}, ""}, world.root);
        if (!expected) break;
        model.held[credit(from)] += amount.micros;
        model.holds[id] = {credit(from), amount.micros};
        break;
      }
      case 3:
      case 4: {
        if (model.holds.empty()) continue;
        auto one = model.holds.begin();
        std::advance(one, random.below(std::min<std::size_t>(model.holds.size(), 5)));
        const Money captured{
            static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(one->second.second) + 1))};
        expected = model.balances[revenue] + captured.micros <= INT64_MAX / 4;
        decision = world.run(EndHold{one->first, captured, revenue}, world.root);
        if (!expected) break;
        model.held[one->second.first] -= one->second.second;
        model.balances[one->second.first] -= captured.micros;
        model.balances[revenue] += captured.micros;
        model.holds.erase(one);
        break;
      }
      default: {
        const Money line{static_cast<std::int64_t>(random.below(1'000'000'000))};
        expected = model.free(credit(from)) - model.overdraft[credit(from)] + line.micros >= 0;
        decision = world.run(SetOverdraft{from, line}, world.root);
        if (expected) model.overdraft[credit(from)] = line.micros;
      }
    }
    if (decision.has_value() != expected) FAIL("step " << step << " was decided otherwise");
    accepted += expected;
    const bool same = available(world.state.ledger, credit(from)).micros == model.free(credit(from)) &&
                      balance(world.state.ledger, credit(to)).micros == model.balances[credit(to)];
    if (!same) FAIL("step " << step << " left another balance");
    if (thorough && step % 1000 == 0) world.state.ledger.postings.clear();  // Only the memory of people.
  }
  Int128 sum = 0;
  for (const std::uint64_t id : world.state.ledger.accounts.ids())
    sum += world.state.ledger.accounts.find(id)->balance.micros;
  CHECK(static_cast<std::int64_t>(sum) == 0);
  CHECK(accepted > steps / 4);
  const std::string bytes = encode_state(world.state);
  const auto again = decode_state(bytes);
  REQUIRE(again);
  CHECK(encode_state(*again) == bytes);
}

}  // namespace
}  // namespace tranche::engine
