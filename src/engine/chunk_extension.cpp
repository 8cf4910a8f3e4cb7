// SPDX-License-Identifier: Apache-2.0
#include "engine/chunk_extension.hpp"

#include <algorithm>

namespace tranche::engine {
namespace {

// How often a node tells of progress: more rarely the longer a job runs.
constexpr Duration kToldShortest = std::chrono::seconds(1), kToldLongest = std::chrono::minutes(1);
constexpr int kToldPart = 50;
constexpr Duration kOnTheWay = std::chrono::seconds(1);
constexpr Duration kLeaseMost = std::chrono::minutes(2);  // Beside it the start of a sandbox does not show.
constexpr std::int64_t kUnitsMost = 1000;
constexpr int kLooksMost = 1000;  // At jobs that wait.

struct Worker {
  const Chunk* chunk = nullptr;
  const Job* job = nullptr;
  Duration age{};
  Duration busy{};  // For so long.
  bool open = false;
};

// How many places of chunks it would take.
std::int64_t places_for(const Ask& waiting, const Ask& chunk, std::int64_t all) {
  if (waiting.instances == 0) return 1;  // Its processors and memory may be what it waits for.
  if (waiting.isolation != Isolation::kSoft || chunk.gpu_milli() <= 0) return all;
  const auto parts = [](std::int64_t wanted, std::int64_t each) {
    return each <= 0 ? 1 : (wanted + each - 1) / each;
  };
  return std::max({std::int64_t{1},
                   parts(waiting.gpu_milli(), chunk.gpu_milli()),
                   parts(waiting.vram_bytes(), chunk.vram_bytes())});
}

// How many of its chunks have to end for those of others who could start now; `all` at most. Whoever waits
// for a device that is not there, or for a later hour, would not start for it.
std::int64_t places_wanted(const State& state, const JobGroup& group, std::int64_t all, Instant now) {
  std::int64_t wanted = 0;
  int looked = 0;
  for (const auto& [key, jobs] : state.index.capacity->waiting()) {
    if (key.kind == kNoKind) continue;
    for (const JobId id : jobs) {
      const auto parent = state.index.work->group_of.find(id);
      if (parent != state.index.work->group_of.end() && parent->second == group.id) continue;
      if (++looked > kLooksMost) return all;
      const Job& job = state.jobs.at(id);
      if (job.not_before > now) continue;
      wanted += places_for(job.ask, group.ask, all);
      if (wanted >= all) return all;
    }
  }
  return wanted;
}

bool has_copy(const JobGroup& group, const Chunk& chunk) {
  return std::any_of(group.chunks.begin(), group.chunks.end(), [&](const Chunk& other) {
    return other.copy_of == chunk.job;
  });
}

std::vector<Worker> workers_of(const State& state, const JobGroup& group, Duration each, Instant now) {
  std::vector<Worker> workers;
  for (const Chunk& chunk : group.chunks) {
    const Job& job = state.jobs.at(chunk.job);
    if (job.state != JobState::kRunning || chunk.copy_of != JobId{} || chunk.needless) continue;
    Worker worker{.chunk = &chunk, .job = &job, .age = now - job.started};
    worker.busy = std::max(Duration{}, wire::count_of(chunk.left) * each - (now - chunk.at));
    // Whoever has told nothing may be unable to; whoever has nothing left is about to end.
    worker.open = chunk.told && !chunk.left.empty() && !job.stop_requested && worker.age < kLeaseMost &&
                  !has_copy(group, chunk);
    workers.push_back(worker);
  }
  return workers;
}

std::int64_t fresh_units(const JobGroup& group, const UnitSet& units) {
  std::int64_t count = wire::count_of(units);
  for (const UnitFailure& failure : group.failures) count -= wire::contains(units, failure.unit) ? 1 : 0;
  return count;
}

// A chunk that no node has seen yet: what it waits with can go elsewhere.
bool only_waits(const State& state, const JobGroup& group, const Chunk& chunk) {
  const Job& job = state.jobs.at(chunk.job);
  return job.state == JobState::kPending && chunk.at == Instant{} && chunk.copy_of == JobId{} &&
         !chunk.needless && !job.stop_requested &&
         fresh_units(group, chunk.left) == wire::count_of(chunk.left);
}

UnitSet first_fresh(const JobGroup& group, const UnitSet& units, std::int64_t most) {
  UnitSet taken;
  std::int64_t count = 0;
  for (const UnitRange& range : units) {
    for (std::int64_t unit = range.first; unit <= range.last; ++unit) {
      if (has_failed(group, unit)) continue;
      if (count++ == most) return taken;
      wire::add_unit(taken, unit);
    }
  }
  return taken;
}

struct Supply {
  std::int64_t in_no_chunk = 0;
  std::int64_t in_waiting_chunks = 0;
  const Chunk* last_waiting = nullptr;
  [[nodiscard]] std::int64_t count() const { return in_no_chunk + in_waiting_chunks; }
};
Supply supply_of(const State& state, const JobGroup& group) {
  Supply supply{.in_no_chunk = fresh_units(group, group.waiting)};
  for (const Chunk& chunk : group.chunks) {
    if (!only_waits(state, group, chunk)) continue;
    supply.in_waiting_chunks += wire::count_of(chunk.left);
    supply.last_waiting = &chunk;
  }
  return supply;
}

// Enough until its next word is heard and answered, and no more than its part of all that is left.
Duration wanted(const Worker& worker, Duration part) {
  const Duration told = std::clamp(worker.age / kToldPart, kToldShortest, kToldLongest);
  const Duration enough = 2 * told + kOnTheWay;
  if (worker.busy >= enough) return {};
  Duration busy = std::min(enough + told, part);
  const Duration limit = worker.job->ask.time;
  if (limit > Duration{}) busy = std::min(busy, limit * 3 / 4 - worker.age);
  return busy;
}

}  // namespace

Events next_extension(const State& state, const JobGroup& group, Instant now) {
  if (group.chunk != 0 || group.done == 0) return {};
  const Supply supply = supply_of(state, group);
  if (supply.count() == 0) return {};
  const Duration each(std::max<std::int64_t>(1, group.busy_microseconds / group.done));
  std::vector<Worker> workers = workers_of(state, group, each, now);
  const auto count_of_all = static_cast<std::int64_t>(workers.size());
  std::stable_sort(
      workers.begin(), workers.end(), [](const Worker& a, const Worker& b) { return a.busy < b.busy; });
  // Those who are through first make way, and the others go on.
  const std::int64_t making_way = places_wanted(state, group, count_of_all, now);
  const auto next = std::find_if(
      workers.begin() + making_way, workers.end(), [](const Worker& worker) { return worker.open; });
  if (next == workers.end()) return {};
  Duration all = supply.count() * each;
  for (const Worker& worker : workers) all += worker.busy;
  const Duration busy = wanted(*next, all / count_of_all);
  if (busy <= Duration{}) return {};
  const std::int64_t count = std::clamp<std::int64_t>((busy - next->busy) / each, 1, kUnitsMost);
  ChunkExtended extended{.group = group.id, .job = next->chunk->job, .owner = group.owner};
  if (supply.in_no_chunk > 0) {
    extended.units = first_fresh(group, group.waiting, count);
  } else {
    extended.units = first_fresh(group, supply.last_waiting->left, count);
    extended.from = supply.last_waiting->job;
  }
  return Events{std::move(extended)};
}

}  // namespace tranche::engine
