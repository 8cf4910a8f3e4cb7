// SPDX-License-Identifier: Apache-2.0
// The engine alone: submissions decided and applied, memory of a waiting job, and a start from a snapshot.
#include <chrono>
#include <malloc.h>

#include "bench/bench.hpp"
#include "engine/record.hpp"
#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Quotas on every level, so that admission has something to check.
struct Busy : engine::World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId unit = create(PartyKind::kSubscriber, acme, "research");
  PartyId ana = user(unit, "ana");

  Busy() {
    constexpr std::int64_t kPlenty = std::int64_t{1} << 50;
    for (const PartyId party : {ana, unit, acme, kPlatform}) {
      engine::Quota quota;
      quota.gpu_milli.limit = kPlenty;
      quota.vram_bytes.limit = kPlenty * 1000;
      quota.jobs.limit = kPlenty;
      static_cast<void>(limit(party, quota));
    }
  }
};

engine::SubmitJob typical_job() {
  wire::Ask ask = engine::gpus(1, 500);
  ask.model = "H100-SXM5-80GB";
  ask.time = std::chrono::hours(1);
  ask.gpus = "H100:0.5";
  return {
      .name = "train-13b",
      .ask = ask,
      .spec =
          R"({"name":"train-13b","resources":{"gpus":"H100:0.5"},"run":"python train.py --config base.yaml",)"
          R"("limits":{"time":"1h"},"labels":{"team":"nlp"}})"};
}

double submissions_per_second(engine::World& world, PartyId who, std::uint64_t count) {
  const engine::Command command = typical_job();
  const Envelope envelope = world.envelope(who);
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto decision = engine::decide(world.state, envelope, command);
    engine::apply_record(world.state, world.state.sequence + 1, envelope, *decision);
  }
  return static_cast<double>(count) / seconds_since(start);
}

std::vector<Row> engine_rows() {
  constexpr std::uint64_t kJobs = 200'000;
  constexpr std::uint64_t kEvents = 1'000'000;
  std::vector<Row> rows;
  {
    Busy world;
    const std::size_t before = mallinfo2().uordblks;
    rows.push_back({.what = "submit commands decided and applied",
                    .value = submissions_per_second(world, world.ana, kJobs),
                    .unit = "commands/s",
                    .goal = 300'000});
    const std::size_t after = mallinfo2().uordblks;
    rows.push_back({.what = "memory of a pending job",
                    .value = static_cast<double>(after - before) / kJobs,
                    .unit = "bytes",
                    .goal = 2048,
                    .better = Better::kLower});
  }
  Busy world;
  submissions_per_second(world, world.ana, kEvents);
  const std::string bytes = engine::encode_state(world.state);
  const auto start = Clock::now();
  const auto state = engine::decode_state(bytes);
  rows.push_back({.what = "state of 1,000,000 pending jobs read from a snapshot",
                  .value = state ? seconds_since(start) : -1,
                  .unit = "s",
                  .goal = 2,
                  .better = Better::kLower});
  return rows;
}

}  // namespace

Suite engine_suite() {
  return {"engine", "the engine alone: decisions, memory of a job, a start from a snapshot", engine_rows};
}

}  // namespace tranche::bench
