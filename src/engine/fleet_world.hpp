// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nodes with devices that are tested, fail, are mended and looked after: for tests.
#include <string>
#include <utility>

#include "engine/world.hpp"

namespace tranche::engine {

struct Fleet : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  PartyId beta = create(PartyKind::kTenant, kPlatform, "beta");
  PartyId bob = user(beta, "bob");

  NodeId found(const std::string& name, std::uint32_t devices) {  // Not accepted yet.
    TokenHash invitation{};
    invitation[0] = 9;
    TRANCHE_CHECK(
        run(AddNode{.name = name, .invitation = invitation, .expires_in = std::chrono::hours(1)}, root)
            .has_value());
    TRANCHE_CHECK(run(JoinNode{name, invitation}).has_value());
    const NodeId id = state.index.nodes_by_name.at(name);
    wire::Hello said = hello(name, devices, "H100-SXM5-80GB");
    for (wire::DeviceFacts& facts : said.devices) facts.vendor = wire::GpuVendor::kNvidia;
    TRANCHE_CHECK(run(ReportNode{id, said}).has_value());
    return id;
  }
  NodeId fit(const std::string& name, std::uint32_t devices) {
    const NodeId id = found(name, devices);
    TRANCHE_CHECK(accept(id).has_value());
    return id;
  }
  [[nodiscard]] DeviceId device(NodeId node, std::size_t index = 0) const {
    return state.nodes.at(node).devices[index];
  }
  [[nodiscard]] DeviceState of(DeviceId id) const { return state.devices.at(id).state; }
  Decision signal(DeviceId id, std::string source, std::int64_t code, std::int64_t value = 0) {
    const Device& device = state.devices.at(id);
    return run(NoteHealth{.node = device.node,
                          .signal = {.uuid = device.facts.uuid,
                                     .source = std::move(source),
                                     .code = code,
                                     .value = value,
                                     .at = clock,
                                     .text = "seen"}});
  }
  LeaseId running(PartyId user, Ask ask) {
    const JobId job = submit(user, std::move(ask));
    TRANCHE_CHECK(schedule() > 0);
    const LeaseId lease = state.jobs.at(job).leases.front();
    TRANCHE_CHECK(report(lease, LeaseState::kRunning).has_value());
    return lease;
  }
};

}  // namespace tranche::engine
