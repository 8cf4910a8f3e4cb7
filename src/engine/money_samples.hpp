// SPDX-License-Identifier: Apache-2.0
#pragma once
// One of each event of money and market, for the golden file. A field added later keeps its default here.
#include "engine/event.hpp"

namespace tranche::engine {

inline Events money_samples() {
  const PartyId ana = PartyId::make(PartyKind::kUser, 5);
  const PartyId acme = PartyId::make(PartyKind::kTenant, 2);
  const Currency usd = *Currency::of("USD");
  const AccountId credit = AccountId::make(acme, AccountKind::kCredit, usd);
  const AccountId clearing = AccountId::make(kPlatform, AccountKind::kClearing, usd);
  const Instant at = start_of(2'000'000);
  const Instrument h100{
      .model = "H100-SXM5-80GB", .region = "eu", .isolation = wire::Isolation::kHard, .interruptible = true};
  const MarketOrder order{.id = 7,
                          .book = 1,
                          .party = ana,
                          .tenant = acme,
                          .payer = acme,
                          .side = Side::kSell,
                          .time_in_force = TimeInForce::kGtd,
                          .restricted = true,
                          .workload = 1,
                          .price = 525,
                          .first_slot = 2'000'000,
                          .slots = 4,
                          .quantity = 500,
                          .open = 500,
                          .quantity_min = 100,
                          .slots_min = 2,
                          .expires = at,
                          .held = units(1),
                          .piece = 3,
                          .floor = 400,
                          .price_first = 525,
                          .decays_from = at,
                          .open_by_slot = {500, 400, 500, 500}};
  const Piece piece{.id = {3},
                    .owner = ana,
                    .book = 1,
                    .node = {1},
                    .device = {2},
                    .bought = {},
                    .first_slot = 2'000'000,
                    .slots = 2,
                    .quantity = 1000,
                    .audience = {{acme}, {wire::WorkloadKind::kInference}},
                    .promised = {0, 500}};
  const PriceRule rule{.name = "night",
                       .model = "H100-SXM5-80GB",
                       .shape = "1g.10gb",
                       .region = "eu",
                       .isolation = wire::Isolation::kSoft,
                       .party = acme,
                       .on_demand = true,
                       .minute_from = 1320,
                       .minute_to = 360,
                       .gpu_hour = units(2),
                       .basis = ChargeBasis::kMixed,
                       .used_percent = 40,
                       .per_million = {{"tokens", units(1)}}};
  const MeterPlan plan{.lease = {4},
                       .job = {9},
                       .party = ana,
                       .model = "H100-SXM5-80GB",
                       .region = "eu",
                       .isolation = wire::Isolation::kHard,
                       .workload = wire::WorkloadKind::kRender,
                       .priority = 70,
                       .on_demand = true,
                       .milli = 500};
  return {Posted{{5}, "paid in", "bank 1", {4}, {{credit, units(3)}, {clearing, units(-3)}}},
          OverdraftSet{acme, credit, {}, units(100)},
          HoldPlaced{{6}, credit, units(2), at, "quote"},
          HoldEnded{{6}, credit, units(2), units(1), clearing},
          BudgetAlerted{acme, at, 80, units(80), units(100)},
          MarketRulesSet{{}, {.fee_bps = 100, .collar_percent = 50}},
          CapacityCertified{acme, {{2}, {1}, acme, "H100-SXM5-80GB", "eu", true}},
          BookOpened{1, h100},
          CapacityListed{ana, piece},
          OrderPlaced{ana, order},
          OrderFilled{{8}, ana, acme, 9, 7, 525, 2'000'000, 4, 500, units(2), units(3), units(1)},
          OrderClosed{7, ana, CloseReason::kSelfTrade},
          OrderRepriced{7, ana, 450, units(1)},
          ContractInterrupted{{8}, acme},
          ContractResumed{{8}, acme, std::chrono::minutes(3)},
          ContractSettled{{8},
                          acme,
                          ContractState::kDefaulted,
                          units(1),
                          {20'000},
                          units(1),
                          {100'000},
                          std::chrono::minutes(3)},
          ContractPaidOut{{8}, acme, {980'000}},
          PriceListSet{{"2026", at, {rule}}},
          MeterOpened{ana, plan, acme, units(1)},
          Charged{.party = ana,
                  .lease = {4},
                  .job = {9},
                  .device = {2},
                  .epoch = 1,
                  .sequence = 2,
                  .from = at,
                  .to = at + std::chrono::minutes(1),
                  .allocated = 30'000'000'000,
                  .used = 12'000'000'000,
                  .vram_byte_seconds = 5,
                  .units = {{"tokens", 900}},
                  .rule = "night",
                  .amount = {16'666},
                  .remainder = 240,
                  .unit_remainders = {{"tokens", 7}},
                  .held = units(1),
                  .exhausted = true},
          MeterClosed{ana, {4}, units(1), {500}}};
}

}  // namespace tranche::engine
