// SPDX-License-Identifier: Apache-2.0
#pragma once
// A small exchange for tests and benchmarks: tenants with credit, devices, and an order in one line.
#include "engine/spend.hpp"
#include "engine/world.hpp"

namespace tranche::engine {

struct MarketWorld : World {
  std::vector<PartyId> tenants{};
  std::vector<PartyId> traders{};  // One a tenant: may buy and sell.
  std::uint64_t next_device = 1;

  explicit MarketWorld(std::size_t count = 3, Money each = units(1'000'000)) {
    for (std::size_t i = 0; i < count; ++i) {
      const PartyId tenant = create(PartyKind::kTenant, kPlatform, "tenant" + std::to_string(i));
      tenants.push_back(tenant);
      traders.push_back(user(tenant, "trader", {Role::kTenantAdmin}));
      TRANCHE_CHECK(run(TopUp{tenant, each, "", ""}, root).has_value());
    }
  }

  DeviceId device(std::size_t owner, const std::string& model = "H100-SXM5-80GB", bool accepted = true) {
    const DeviceId id{next_device++};
    TRANCHE_CHECK(run(CertifyCapacity{{id, {1}, tenants[owner], model, "", accepted}}, root).has_value());
    return id;
  }

  [[nodiscard]] std::int64_t now_slot() const { return slot_of(clock); }

  Decision list(std::size_t owner,
                DeviceId id,
                std::int64_t price,
                std::int64_t first,
                std::uint32_t slots,
                Audience audience = {}) {
    return run(ListCapacity{.owner = traders[owner],
                            .instrument = {},
                            .device = id,
                            .quantity = 1000,
                            .first_slot = first,
                            .slots = slots,
                            .price = price,
                            .audience = std::move(audience)},
               traders[owner]);
  }

  PlaceOrder bid(std::size_t who,
                 std::int64_t price,
                 std::int64_t first,
                 std::uint32_t slots,
                 std::uint32_t quantity,
                 TimeInForce until = TimeInForce::kGtc) const {
    return {.party = traders[who],
            .book = 1,
            .time_in_force = until,
            .price = price,
            .first_slot = first,
            .slots = slots,
            .quantity = quantity};
  }

  [[nodiscard]] AccountId account(PartyId owner, AccountKind kind = AccountKind::kCredit) const {
    return AccountId::make(owner, kind, currency_of(state));
  }
  [[nodiscard]] Money credit(std::size_t who) const { return balance(state.ledger, account(tenants[who])); }
  [[nodiscard]] Money free(std::size_t who) const { return available(state.ledger, account(tenants[who])); }
};

}  // namespace tranche::engine
