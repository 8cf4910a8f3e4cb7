// SPDX-License-Identifier: Apache-2.0
#include "engine/world.hpp"

namespace tranche::engine {

World::World() {
  TokenHash hash{};
  hash[0] = 1;
  TRANCHE_CHECK(run(Found{.operator_name = "root", .token_hash = hash}).has_value());
  root = state.child(kPlatform, "root");
  tokens[root] = {1};
}

Envelope World::envelope(PartyId actor) const {
  const auto token = tokens.find(actor);
  return {.at = clock,
          .seed = state.sequence,
          .actor = actor,
          .token = token == tokens.end() ? TokenId{} : token->second};
}

Decision World::run(const Envelope& stamped, const Command& command) {
  Decision decision = decide(state, stamped, command);
  if (decision) apply_record(state, state.sequence + 1, stamped, *decision);
  return decision;
}

PartyId World::create(PartyKind kind, PartyId parent, const std::string& name, std::vector<Role> roles) {
  const auto made =
      run(CreateParty{.kind = kind, .parent = parent, .name = name, .roles = std::move(roles)}, root);
  TRANCHE_CHECK(made.has_value());
  return state.child(parent, name);
}

PartyId World::user(PartyId parent, const std::string& name, std::vector<Role> roles) {
  const PartyId id = create(PartyKind::kUser, parent, name, std::move(roles));
  TokenHash hash{};
  for (std::size_t i = 0; i < sizeof id.value; ++i) hash[i] = static_cast<std::uint8_t>(id.value >> (8 * i));
  hash[31] = 7;
  const TokenId token{state.next_token};
  TRANCHE_CHECK(run(IssueToken{.party = id, .hash = hash}, root).has_value());
  tokens[id] = token;
  return id;
}

NodeId World::node(const std::string& name, std::uint32_t devices, const std::string& model) {
  return joined(hello(name, devices, model));
}

NodeId World::partitionable(const std::string& name, std::uint32_t devices, const std::string& model) {
  wire::Hello said = hello(name, devices, model);
  for (wire::DeviceFacts& device : said.devices) {
    device.vram = wire::find_gpu_model(model)->vram;
    for (const wire::PartitionProfile& one : wire::find_geometry(model)->profiles)
      device.profiles.push_back({std::string(one.name),
                                 one.compute_slices,
                                 one.memory_slices,
                                 one.starts,
                                 one.count_max,
                                 one.memory});
  }
  return joined(said);
}

NodeId World::joined(const wire::Hello& said) {
  const std::string& name = said.node;
  TokenHash invitation{};
  invitation[0] = 9;
  TRANCHE_CHECK(
      run(AddNode{.name = name, .invitation = invitation, .expires_in = std::chrono::hours(1)}, root)
          .has_value());
  TRANCHE_CHECK(run(JoinNode{name, invitation}).has_value());
  const NodeId id = state.index.nodes_by_name.at(name);
  TRANCHE_CHECK(run(ReportNode{id, said}).has_value());
  accept(id);
  return id;
}

Decision World::accept(NodeId id, wire::Verdict verdict) {
  wire::Receipts receipts;
  for (const DeviceId device : state.nodes.at(id).devices) {
    const DeviceRecord& record = state.devices.at(device).record;
    if (record.order == 0) continue;
    receipts.outcomes.push_back({record.order, device, record.task, true, ""});
    if (record.task == DeviceTask::kReset) continue;
    if (record.task == DeviceTask::kWipe) {
      receipts.scrubs.push_back({.device = device,
                                 .lease = record.left_by,
                                 .at = clock,
                                 .zeroed = gigabytes(1),
                                 .verified = gigabytes(1)});
      continue;
    }
    receipts.acceptances.push_back({.device = device,
                                    .level = record.level,
                                    .verdict = verdict,
                                    .at = clock,
                                    .table_version = "floors-1",
                                    .tests = {{.name = "memory", .verdict = verdict}}});
    receipts.scrubs.push_back(
        {.device = device, .at = clock, .zeroed = gigabytes(1), .verified = gigabytes(1)});
  }
  if (receipts.outcomes.empty()) return Events{};
  return run(KeepReceipts{.node = id, .receipts = receipts});
}

wire::Hello World::hello(const std::string& name, std::uint32_t devices, const std::string& model) {
  wire::Hello hello{.node = name,
                    .boot_id = "boot-1",
                    .cpus = 64,
                    .memory = gigabytes(512),
                    .simulated = name.starts_with("sim-")};
  for (std::uint32_t i = 0; i < devices; ++i) {
    wire::DeviceFacts facts{.uuid = name + "-gpu-" + std::to_string(i),
                            .model = model,
                            .vram = gigabytes(80),
                            .soft_capable = true,
                            .simulated = hello.simulated};
    hello.devices.push_back(facts);
  }
  return hello;
}

std::size_t World::schedule() {
  std::size_t granted = 0;
  while (schedule_due(state, clock)) {
    const auto decision = run(Schedule{});
    for (const Event& event : *decision) {
      granted += std::holds_alternative<LeaseGranted>(event);
      // Kept for a tenant in vain: its node wipes it now.
      if (const auto* ordered = std::get_if<DeviceOrdered>(&event))
        accept(state.devices.at(ordered->device).node);
    }
    if (decision->empty()) break;
  }
  return granted;
}

Decision World::report(LeaseId id, LeaseState to, EndReason reason, std::int32_t code) {
  const Lease& lease = state.leases.at(id);
  return run(ReportLease{
      .node = lease.node,
      .report = {
          .lease = id, .epoch = lease.epoch, .state = to, .at = clock, .reason = reason, .exit_code = code}});
}

Decision World::scrub(LeaseId id) {
  const Lease& lease = state.leases.at(id);
  wire::Receipts receipts;
  for (const Slice& slice : lease.slices)
    receipts.scrubs.push_back(
        {.device = slice.device, .lease = id, .zeroed = gigabytes(1), .verified = gigabytes(1)});
  return run(KeepReceipts{.node = lease.node, .receipts = receipts});
}

JobId World::submit(PartyId user, Ask ask) {
  const JobId id{state.next_job};
  TRANCHE_CHECK(run(SubmitJob{.ask = std::move(ask), .spec = "{}"}, user).has_value());
  return id;
}

Decision World::limit(PartyId party, Quota quota) {
  return run(SetQuota{.party = party, .quota = std::move(quota)}, root);
}

}  // namespace tranche::engine
