// SPDX-License-Identifier: Apache-2.0
#pragma once
// A studio with a farm of two devices, for tests: films of many frames, and what they cost.
#include <doctest/doctest.h>

#include "engine/lease_meter.hpp"
#include "engine/spend.hpp"
#include "engine/world.hpp"

namespace tranche::engine {

struct Studio : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId machine = node("gpu-01", 2);
  std::uint64_t heard = 0, records = 0;

  Money paid_in;

  explicit Studio(Money credit = units(1000)) : paid_in(credit) {
    TRANCHE_CHECK(run(TopUp{acme, credit, "", ""}, root).has_value());
  }
  void price(Money gpu_hour, std::map<std::string, Money> per_million) {
    PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = gpu_hour}}};
    list.rules.front().per_million = std::move(per_million);
    REQUIRE(run(SetPriceList{list}, root));
  }
  SubmitJob film(std::int64_t frames, std::uint32_t chunk, Money spend = {}) {
    SubmitJob command{.name = "film", .ask = gpus(1), .spec = "{}"};
    command.ask.time = std::chrono::hours(1);
    command.ask.spend = spend;
    command.unit = WorkUnit::kFrame;
    command.units = {.first = 1, .last = frames};
    command.chunk = chunk;
    return command;
  }
  wire::JobPrice price_of(const SubmitJob& command) {
    return job_price(state, ana, command.ask, Admission::kWithinQuota, clock, work_ahead(command));
  }
  Decision meter(const Lease& lease, Instant from) {
    return run(ReportMeters{.node = lease.node,
                            .records = {{.lease = lease.id,
                                         .epoch = lease.epoch,
                                         .sequence = ++records,
                                         .device = lease.slices.front().device,
                                         .from = from,
                                         .to = clock}}});
  }
  void frame_done(const Lease& lease, std::int64_t frame, Duration took = std::chrono::milliseconds(1)) {
    wire::ProgressReport said{.lease = lease.id, .epoch = lease.epoch, .at = clock};
    said.verdicts.push_back({.unit = frame, .good = true, .microseconds = took.count()});
    REQUIRE(run(NoteProgress{.node = lease.node, .sequence = ++heard, .report = std::move(said)}));
  }
  [[nodiscard]] std::vector<LeaseId> live() const {
    std::vector<LeaseId> found;
    for (const auto& [id, lease] : state.leases)
      if (lease.live()) found.push_back(id);
    return found;
  }
  [[nodiscard]] std::int64_t spent() const {
    return paid_in.micros - balance(state.ledger, credit_account(state, acme)).micros;
  }
};

}  // namespace tranche::engine
