// SPDX-License-Identifier: Apache-2.0
#include "engine/trade_rules.hpp"

#include <doctest/doctest.h>

#include "engine/market_world.hpp"

namespace tranche::engine {
namespace {

// Two sellers with a device each, in two regions; the third tenant buys.
struct Regions : MarketWorld {
  std::int64_t slot = now_slot() + 1;
  std::vector<DeviceId> devices{};

  Regions() {
    for (const auto& [owner, region] : {std::pair{0, "eu"}, std::pair{1, "us"}}) {
      const DeviceId id{next_device++};
      TRANCHE_CHECK(
          run(CertifyCapacity{{id, {1}, tenants[static_cast<std::size_t>(owner)], "H100", region, true}},
              root)
              .has_value());
      devices.push_back(id);
      TRANCHE_CHECK(list(static_cast<std::size_t>(owner), id, 10, slot, 8).has_value());
    }
  }
  void bind(PartyId party, const Rule& rule) {
    REQUIRE(run(SetRules{.party = party, .rules = {.rules = {rule}}}, root).has_value());
  }
  Decision buy(const std::string& region, WorkloadKind kind = WorkloadKind::kBatch) {
    PlaceOrder order = bid(2, 10, slot, 1, 1000, TimeInForce::kIoc);
    order.book = 0;
    order.instrument = {.model = "H100", .region = region};
    order.workload = kind;
    return run(order, traders[2]);
  }
};

TEST_CASE("trade rules: capacity is bought only in regions that the tree allows, for the work it speaks of") {
  Regions world;
  world.bind(
      world.tenants[2],
      {.name = "eu only", .when = {.kinds = {WorkloadKind::kFinetune}}, .then = {.buy_regions = {{"eu"}}}});
  CHECK(world.buy("us").has_value());
  CHECK(world.buy("eu", WorkloadKind::kFinetune).has_value());
  const auto refused = world.buy("us", WorkloadKind::kFinetune);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "eu only");
  CHECK(refused.error().fix == "name one of them: --region eu");
  CHECK_FALSE(world.buy("", WorkloadKind::kFinetune).has_value());  // Nobody knows where that would be.
}

TEST_CASE("trade rules: whom the buyer may not trade with is passed over, and whom the seller may not") {
  Regions world;
  world.bind(world.tenants[2], {.name = "partners", .when = {}, .then = {.trade_with = {{"tenant0"}}}});
  CHECK(world.buy("eu").has_value());
  CHECK(world.buy("us").error().rule == "audience");

  Regions other;
  other.bind(other.tenants[1], {.name = "partners", .when = {}, .then = {.trade_with = {{"tenant0"}}}});
  CHECK(other.buy("eu").has_value());
  CHECK(other.buy("us").error().rule == "audience");  // Although it was listed before the rule was made.
}

TEST_CASE("trade rules: a list that allows nothing is refused where it is written") {
  MarketWorld world;
  const auto refused =
      world.run(SetRules{.party = world.tenants[0],
                         .rules = {.rules = {{.name = "none",
                                              .when = {},
                                              .then = {.trade_with = {std::vector<std::string>{}}}}}}},
                world.root);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("may_buy") != std::string::npos);
}

}  // namespace
}  // namespace tranche::engine
