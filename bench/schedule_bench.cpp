// SPDX-License-Identifier: Apache-2.0
// The live scheduling pass: the engine's own `Schedule` command, decided and applied, on a fleet of the size
// of a large data centre, with a queue behind it; and what a slice that is given out or booked holds of
// memory.
#include <algorithm>
#include <chrono>
#include <malloc.h>

#include "bench/bench.hpp"
#include "engine/world.hpp"

namespace tranche::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Fleet : engine::World {
  PartyId tenants[4] = {create(PartyKind::kTenant, kPlatform, "a"),
                        create(PartyKind::kTenant, kPlatform, "b"),
                        create(PartyKind::kTenant, kPlatform, "c"),
                        create(PartyKind::kTenant, kPlatform, "d")};
  PartyId users[4] = {
      user(tenants[0], "u"), user(tenants[1], "u"), user(tenants[2], "u"), user(tenants[3], "u")};

  Fleet(std::uint32_t nodes, std::uint32_t devices) {
    for (const PartyId tenant : tenants) {
      engine::Quota quota;
      quota.share_soft = true;
      static_cast<void>(limit(tenant, quota));
    }
    for (std::uint32_t i = 0; i < nodes; ++i) node("n" + std::to_string(i), devices);
  }
  // Shapes of a shared fleet: eighths to wholes, and some that want several devices.
  void queue_up(std::uint64_t count) {
    static constexpr std::uint32_t kMilli[] = {125, 250, 250, 500, 500, 700, 1000, 1000};
    for (std::uint64_t i = 0; i < count; ++i) {
      engine::Ask ask = engine::gpus(i % 16 == 0 ? 2 : 1, i % 16 == 0 ? 1000 : kMilli[i % 8]);
      ask.vram_each = std::int64_t{ask.milli_each} * 60'000'000;
      ask.time = std::chrono::hours(1 + i % 7);
      ask.priority = i % 10 == 0 ? 70 : 50;
      submit(users[i % 4], ask);
    }
  }
};

// Frees one running job's devices, as an agent would report it.
void free_one(Fleet& fleet, LeaseId id) {
  static_cast<void>(fleet.report(id, engine::LeaseState::kRunning));
  static_cast<void>(fleet.report(id, engine::LeaseState::kEnded, engine::EndReason::kExited));
  static_cast<void>(fleet.scrub(id));
}

double heap_bytes() {
  const auto heap = mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd);
}

Row memory_row(const std::string& what, double bytes) {
  return {.what = what, .value = bytes, .unit = "bytes/slice", .goal = 1024, .better = Better::kLower};
}

double slices_of(const Fleet& fleet) {
  std::size_t slices = 0;
  for (const auto& [id, lease] : fleet.state.leases) slices += lease.slices.size();
  return static_cast<double>(slices);
}

// Every device of a hundred nodes, booked for a hundred nights.
Row booked_row() {
  Fleet fleet(100, 8);
  constexpr int kNights = 100;
  engine::BookWindows nights{.ask = engine::gpus(1), .zone = "UTC"};
  for (int night = 1; night <= kNights; ++night) {
    const Instant from = fleet.clock + std::chrono::hours(24 * night);
    nights.windows.push_back({from, from + std::chrono::hours(8)});
  }
  const double before = heap_bytes();
  int booked = 0;
  while (fleet.run(nights, fleet.users[0])) ++booked;
  return memory_row("memory of a device-slice that is booked, " + std::to_string(booked) + " devices, " +
                        std::to_string(kNights) + " windows each",
                    (heap_bytes() - before) / std::max(booked * kNights, 1));
}

std::vector<Row> schedule_rows() {
  std::vector<Row> rows{booked_row()};
  Fleet fleet(1'213, 5);
  fleet.queue_up(20'000);
  const double waiting = heap_bytes();
  const auto filling = Clock::now();
  const std::size_t granted = fleet.schedule();
  rows.push_back({.what = "live passes filling 1,213 nodes, decided and applied, placements",
                  .value = static_cast<double>(granted) / seconds_since(filling),
                  .unit = "/s"});
  // Leases, what is known of devices and places, and what the policy remembers.
  rows.push_back(memory_row("memory of a device-slice that is given out, beyond its job's",
                            (heap_bytes() - waiting) / slices_of(fleet)));
  fleet.queue_up(100'000 - std::min<std::uint64_t>(100'000, 20'000 - granted));
  static_cast<void>(fleet.schedule());
  std::vector<double> passes;
  for (std::uint64_t i = 1; i <= 200; ++i) {
    free_one(fleet, LeaseId{i});
    fleet.clock += std::chrono::seconds(1);
    const auto start = Clock::now();
    static_cast<void>(fleet.schedule());
    passes.push_back(seconds_since(start) * 1000.0);
  }
  std::sort(passes.begin(), passes.end());
  rows.push_back({.what = "a pass with 100,000 waiting jobs after one job ended, p50 of 200",
                  .value = passes[passes.size() / 2],
                  .unit = "ms",
                  .goal = 100,
                  .better = Better::kLower,
                  .peer = "Slurm: one backfill cycle took 59 s at depth 8,543",
                  .peer_source = PeerSource::kQuoted});
  rows.push_back({.what = "the same, longest of 200",
                  .value = passes.back(),
                  .unit = "ms",
                  .goal = 100,
                  .better = Better::kLower});
  return rows;
}

}  // namespace

Suite schedule_suite() {
  return {"schedule", "the live scheduling pass on a large fleet with a long queue", schedule_rows};
}

}  // namespace tranche::bench
