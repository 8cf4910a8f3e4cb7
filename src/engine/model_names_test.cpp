// SPDX-License-Identifier: Apache-2.0
#include "engine/model_names.hpp"

#include <doctest/doctest.h>

#include "engine/market_world.hpp"

namespace tranche::engine {
namespace {

Decision price(World& world, const std::string& model) {
  return world.run(
      SetPriceList{{.name = "list", .rules = {{.name = "one", .model = model, .gpu_hour = units(1)}}}},
      world.root);
}

TEST_CASE("model names: a price or a cost of a model that nobody knows is refused, with the nearest") {
  World world;
  world.node("a", 1, "cpu-znver3");
  CHECK(price(world, "H100").has_value());  // Known, and not connected yet.
  CHECK(price(world, "A100-80GB").has_value());
  CHECK(price(world, "cpu-znver3").has_value());
  const auto wrong = price(world, "H10O");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "rule 1 ('one'): there is no device model 'H10O'; did you mean 'H100'?");
  CHECK(price(world, "cpu-znver").error().message.find("cpu-znver3") != std::string::npos);
  const auto cost = world.run(
      SetCapacityCost{{.node = "", .model = "H10O", .valid_from = {}, .purchase = {1}}}, world.root);
  REQUIRE_FALSE(cost);
  CHECK(cost.error().rule == "model");
}

TEST_CASE("model names: a device is certified as what it is, and a peer's not under a misspelt name") {
  MarketWorld world(1);
  const NodeId h100 = world.node("a", 1);
  const NodeId odd = world.node("b", 1, "cpu-znver3");
  const auto certify = [&](DeviceId id, const std::string& model) {
    return world.run(CertifyCapacity{{id, {}, world.tenants[0], model, "", true}}, world.root);
  };
  const DeviceId real = world.state.nodes.at(h100).devices.front();
  const DeviceId cpu = world.state.nodes.at(odd).devices.front();
  CHECK(certify(real, "H100").has_value());
  CHECK(certify(real, "A100").error().message.find("is of model H100-SXM5-80GB, not A100") !=
        std::string::npos);
  CHECK(certify(cpu, "H100").error().rule == "model");
  CHECK(certify(cpu, "pocl").has_value());
  CHECK(certify({900}, "H10O").error().fix == "did you mean 'H100'?");
  CHECK(certify({900}, "Peerless-9000").has_value());
}

}  // namespace
}  // namespace tranche::engine
