// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole platform in a few lines: the engine with a clock that the caller turns. For tests, benchmarks and
// what-ifs.
#include <map>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "engine/engine.hpp"
#include "engine/schedule.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/partition_geometry.hpp"

namespace tranche::engine {

struct World {
  State state{};
  Instant clock{std::chrono::hours(24 * 365 * 50)};
  std::map<PartyId, TokenId> tokens{};
  PartyId root{};  // The operator.

  World();

  Envelope envelope(PartyId actor) const;

  // Decides, and folds in what was decided; a refusal leaves the state as it was.
  Decision run(const Command& command, PartyId actor = {}) { return run(envelope(actor), command); }
  Decision run(const Envelope& stamped, const Command& command);

  PartyId create(PartyKind kind, PartyId parent, const std::string& name, std::vector<Role> roles = {});

  // A user with a token, so that it can act.
  PartyId user(PartyId parent, const std::string& name, std::vector<Role> roles = {Role::kMember});

  // A machine that has joined, with devices of one model.
  NodeId node(const std::string& name, std::uint32_t devices, const std::string& model = "H100-SXM5-80GB");
  // One whose devices can be cut, by the geometry of the catalogue.
  NodeId partitionable(const std::string& name,
                       std::uint32_t devices,
                       const std::string& model = "H100-SXM5-80GB");
  NodeId joined(const wire::Hello& said);
  // The node answers what it was asked to do with its devices: tests pass, memory is wiped, resets work.
  Decision accept(NodeId id, wire::Verdict verdict = wire::Verdict::kPass);
  static wire::Hello hello(const std::string& name, std::uint32_t devices, const std::string& model);

  // Passes until nothing more can be decided; how many leases were granted.
  std::size_t schedule();
  // The agent speaks.
  Decision report(LeaseId id, LeaseState to, EndReason reason = EndReason::kNone, std::int32_t code = 0);
  Decision scrub(LeaseId id);
  JobId submit(PartyId user, Ask ask);

  Decision limit(PartyId party, Quota quota);
};

inline Ask gpus(std::uint32_t instances, std::uint32_t milli = 1000) {
  return {.instances = instances, .milli_each = milli, .vram_each = 1'000'000'000};
}

inline QuotaShare at_most(std::int64_t limit) {
  return {.guaranteed = {}, .limit = limit};
}

}  // namespace tranche::engine
