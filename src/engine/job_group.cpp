// SPDX-License-Identifier: Apache-2.0
#include "engine/job_group.hpp"

#include <algorithm>
#include <numeric>

namespace tranche::engine {
namespace {

constexpr std::int64_t kChunkMost = 1000;
constexpr std::uint32_t kSpread = 4;  // Chunks for each that runs, so that the last end together.
constexpr std::uint32_t kAtLeastAtOnce = 4;
constexpr std::uint32_t kAtMostAtOnce = 256;
constexpr std::int64_t kWorthALease = 2'000'000;  // Microseconds of work against a sandbox's start.
constexpr std::size_t kFailuresNamed = 5;
constexpr Duration kStragglesAtLeast = std::chrono::seconds(5);
constexpr int kStragglesTimes = 3;  // Times as long as a unit takes on average.

std::vector<UnitFailure>::iterator failure_of(JobGroup& group, std::int64_t unit) {
  return std::lower_bound(
      group.failures.begin(), group.failures.end(), unit, [](const UnitFailure& one, std::int64_t number) {
        return one.unit < number;
      });
}

Chunk* find_chunk(JobGroup& group, JobId job) {
  const auto found = std::find_if(
      group.chunks.begin(), group.chunks.end(), [&](const Chunk& one) { return one.job == job; });
  return found == group.chunks.end() ? nullptr : &*found;
}

// One more try that went wrong; the last one allowed settles the unit.
void charge(JobGroup& group, std::int64_t unit, JobId chunk, std::int32_t exit_code, std::uint32_t tries) {
  auto at = failure_of(group, unit);
  if (at == group.failures.end() || at->unit != unit)
    at = group.failures.insert(at, UnitFailure{.unit = unit});
  at->tries += tries;
  at->exit_code = exit_code;
  at->job = chunk;
  if (at->tries < group.tries) return wire::add_unit(group.waiting, unit);
  at->given_up = true;
  ++group.given_up;
}

bool held_by_another(const JobGroup& group, JobId job, std::int64_t unit) {
  return std::any_of(group.chunks.begin(), group.chunks.end(), [&](const Chunk& one) {
    return one.job != job && wire::contains(one.left, unit);
  });
}

// A unit that went well: whoever else was at it need not go on.
void settle(JobGroup& group, std::int64_t unit) {
  ++group.done;
  const auto piece = static_cast<std::size_t>(unit - group.range.first);
  if (piece < group.milliseconds.size()) group.done_milliseconds += group.milliseconds[piece];
  for (Chunk& chunk : group.chunks)
    if (wire::remove_unit(chunk.left, unit) && chunk.left.empty()) chunk.needless = true;
}

std::int64_t chunk_size(const JobGroup& group, std::uint32_t running) {
  if (group.chunk != 0) return group.chunk;
  const std::int64_t waiting = wire::count_of(group.waiting);
  const std::int64_t spread = std::int64_t{kSpread} * std::max(running, kAtLeastAtOnce);
  std::int64_t size = (waiting + spread - 1) / spread;
  if (group.done > 0) {  // Short units go together, as far as everybody who runs still gets some.
    const std::int64_t each = std::max<std::int64_t>(1, group.busy_microseconds / group.done);
    size = std::max(size, std::min(kWorthALease / each, waiting / (2 * std::max(running, 1U))));
  }
  return std::clamp<std::int64_t>(size, 1, kChunkMost);
}

// The command runs unit by unit, so the first without a verdict was at work when the chunk ended.
std::int64_t unit_at_work(const Chunk& chunk) {
  const auto first_left = [&](const UnitSet& units, bool count_added) -> std::int64_t {
    for (const UnitRange& range : units)
      for (std::int64_t unit = range.first; unit <= range.last; ++unit)
        if (wire::contains(chunk.left, unit) && (count_added || !wire::contains(chunk.added, unit)))
          return unit;
    return INT64_MIN;
  };
  const std::int64_t unit = first_left(chunk.left, false);
  return unit == INT64_MIN ? first_left(chunk.added, true) : unit;
}

// The loop over the units ends with zero or one; what was added too late for it was never begun.
bool ended_by_itself(const Chunk& chunk, JobState how, std::int32_t exit_code) {
  return !chunk.added.empty() && chunk.told &&
         (how == JobState::kSucceeded || (how == JobState::kFailed && exit_code == 1));
}

}  // namespace

bool has_failed(const JobGroup& group, std::int64_t unit) {
  return std::binary_search(
      group.failures.begin(),
      group.failures.end(),
      UnitFailure{.unit = unit},
      [](const UnitFailure& one, const UnitFailure& other) { return one.unit < other.unit; });
}

const Chunk* JobGroup::chunk_of(JobId job) const {
  const auto found =
      std::find_if(chunks.begin(), chunks.end(), [&](const Chunk& one) { return one.job == job; });
  return found == chunks.end() ? nullptr : &*found;
}

std::int64_t JobGroup::counted_total() const {
  if (milliseconds.empty()) return range.count();
  const std::int64_t sum = std::accumulate(milliseconds.begin(), milliseconds.end(), std::int64_t{0});
  return (sum + 999) / 1000;
}

Ask parent_ask(const Ask& chunk_ask) {
  Ask ask = chunk_ask;
  ask.instances = 0;
  ask.storage_bytes = 0;
  ask.spend = {};
  ask.retries = 0;
  return ask;
}

UnitSet next_chunk(const JobGroup& group, std::uint32_t running) {
  UnitSet units;
  const std::int64_t most = chunk_size(group, running);
  for (const UnitRange& range : group.waiting) {
    for (std::int64_t unit = range.first; unit <= range.last; ++unit) {
      if (has_failed(group, unit)) continue;
      wire::add_unit(units, unit);
      if (wire::count_of(units) == most) return units;
    }
  }
  if (units.empty() && !group.waiting.empty()) wire::add_unit(units, group.waiting.front().first);
  return units;
}

std::size_t chunks_at_once(std::uint32_t running) {
  return std::clamp(2 * running + 2, kAtLeastAtOnce, kAtMostAtOnce);
}

std::optional<Duration> patience_with_a_unit(const JobGroup& group) {
  if (group.done == 0) return std::nullopt;
  const Duration usual(group.busy_microseconds / group.done);
  return std::max(kStragglesAtLeast, kStragglesTimes * usual);
}

Straggler find_straggler(const JobGroup& group, Instant now) {
  Straggler found;
  const auto patience = patience_with_a_unit(group);
  if (!patience || !group.waiting.empty()) return found;
  for (const Chunk& chunk : group.chunks) {
    const bool has_copy = std::any_of(group.chunks.begin(), group.chunks.end(), [&](const Chunk& other) {
      return other.copy_of == chunk.job;
    });
    if (chunk.at == Instant{} || chunk.copy_of != JobId{} || has_copy || chunk.left.empty()) continue;
    if (chunk.at + *patience <= now) {
      if (found.chunk == nullptr || chunk.at < found.chunk->at) found.chunk = &chunk;
    } else if (found.look == Instant{} || chunk.at + *patience < found.look) {
      found.look = chunk.at + *patience;
    }
  }
  return found;
}

std::vector<JobId> needless_chunks(const JobGroup& group) {
  std::vector<JobId> jobs;
  for (const Chunk& chunk : group.chunks)
    if (chunk.needless) jobs.push_back(chunk.job);
  return jobs;
}

void take_verdict(JobGroup& group, JobId job, const wire::UnitVerdict& verdict, Instant at) {
  Chunk* chunk = find_chunk(group, job);
  if (chunk == nullptr || !wire::remove_unit(chunk->left, verdict.unit)) return;
  chunk->told = true;
  chunk->at = at;
  group.at = at;
  if (!verdict.good) {
    if (!held_by_another(group, job, verdict.unit)) charge(group, verdict.unit, job, verdict.exit_code, 1);
    return;
  }
  settle(group, verdict.unit);
  group.busy_microseconds += std::max<std::int64_t>(0, verdict.microseconds);
}

void extend_chunk(JobGroup& group, const ChunkExtended& event) {
  Chunk* chunk = find_chunk(group, event.job);
  Chunk* source = find_chunk(group, event.from);
  if (chunk == nullptr) return;
  for (const UnitRange& range : event.units) {
    const bool follows = !chunk->added.empty() && chunk->added.back().last + 1 == range.first;
    if (follows) {
      chunk->added.back().last = range.last;
    } else {
      chunk->added.push_back(range);
    }
    for (std::int64_t unit = range.first; unit <= range.last; ++unit) {
      wire::remove_unit(source == nullptr ? group.waiting : source->left, unit);
      wire::add_unit(chunk->left, unit);
    }
  }
  if (source != nullptr && source->left.empty()) source->needless = true;
}

// What of a chunk has no verdict when its job ends. When there was no verdict at all, it never got to work.
void end_chunk(JobGroup& group, const Job& ended, Instant at) {
  const JobId job = ended.id;
  const auto found = std::find_if(
      group.chunks.begin(), group.chunks.end(), [&](const Chunk& one) { return one.job == job; });
  if (found == group.chunks.end()) return;
  const Chunk chunk = std::move(*found);
  group.chunks.erase(found);
  group.past.push_back(job);
  group.at = at;
  Chunk* copied = find_chunk(group, chunk.copy_of);
  if (copied != nullptr && !copied->left.empty()) copied->at = at;  // Before another try at it begins.
  const bool by_itself = ended_by_itself(chunk, ended.state, ended.exit_code);
  const std::int64_t at_work = unit_at_work(chunk);
  for (const UnitRange& range : chunk.left) {
    for (std::int64_t unit = range.first; unit <= range.last; ++unit) {
      if (by_itself && wire::contains(chunk.added, unit)) {
        if (!held_by_another(group, job, unit)) wire::add_unit(group.waiting, unit);
      } else if (ended.state == JobState::kSucceeded) {
        settle(group, unit);  // The loop ends well only when every unit did.
      } else if (held_by_another(group, job, unit)) {
        continue;
      } else if (ended.reason == EndReason::kPaused) {
        wire::add_unit(group.waiting, unit);  // Somebody put the job aside.
      } else if (ended.state == JobState::kStopped) {
        charge(group, unit, job, ended.exit_code, group.tries);
      } else if (ended.reason == EndReason::kSpendLimit) {
        wire::add_unit(group.waiting, unit);  // Money was missing, and nothing was wrong with the unit.
      } else if (unit == at_work || !chunk.told) {
        charge(group, unit, job, ended.exit_code, 1);
      } else {
        wire::add_unit(group.waiting, unit);
      }
    }
  }
}

std::string failure_text(const JobGroup& group) {
  const std::string name(wire::name_of(group.unit));
  std::string out = std::to_string(group.given_up) + " of " + std::to_string(group.range.count()) + " " +
                    name + "s failed: ";
  std::size_t named = 0;
  for (const UnitFailure& one : group.failures) {
    if (!one.given_up) continue;
    if (named == kFailuresNamed) return out + ", …";
    if (named++ > 0) out += ", ";
    out += name + " " + std::to_string(one.unit) + " (exit " + std::to_string(one.exit_code) + ", " +
           std::to_string(one.tries) + (one.tries == 1 ? " try)" : " tries)");
  }
  return out;
}

}  // namespace tranche::engine
