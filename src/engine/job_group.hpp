// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job of many units (the frames of a render): its units go to ordinary jobs, a chunk each, and every unit
// gets a verdict of its own. The parent takes no capacity; it ends when the last unit is settled.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "engine/job.hpp"
#include "engine/progress.hpp"
#include "wire/ask.hpp"

namespace tranche::engine {

struct UnitFailure {
  std::int64_t unit = 0;
  std::uint32_t tries = 0;
  std::int32_t exit_code = 0;
  bool given_up = false;
  JobId job{};  // The chunk in which it failed last.
};
BOOST_DESCRIBE_STRUCT(UnitFailure, (), (unit, tries, exit_code, given_up, job))

struct Chunk {
  JobId job{};
  UnitSet left{};         // Without a verdict.
  bool told = false;      // Some unit of it has a verdict.
  Instant at{};           // Of its last verdict, or when it began to run.
  JobId copy_of{};        // A second try at what a straggler is at; whoever is first counts.
  bool needless = false;  // Others have taken or settled the last of its units.
  UnitSet added{};        // While it ran, in this order.
};
BOOST_DESCRIBE_STRUCT(Chunk, (), (job, left, told, at, copy_of, needless, added))

struct JobGroup {
  JobId id{};
  PartyId owner{};
  WorkUnit unit = WorkUnit::kFrame;
  UnitRange range{};
  std::uint32_t chunk = 0;  // Units a chunk; zero: as suits.
  std::uint32_t tries = 1;  // Of each unit.
  Ask ask{};                // Of each chunk.
  UnitSet waiting{};        // In no chunk, and not settled.
  std::vector<Chunk> chunks{};
  std::vector<UnitFailure> failures{};  // By unit.
  std::vector<JobId> past{};            // Chunks that have ended: what they made is kept with them.
  std::int64_t done = 0;
  std::int64_t given_up = 0;
  std::int64_t busy_microseconds = 0;  // Of units that went well.
  Instant first_started{};
  Instant at{};                              // Of the last verdict.
  std::vector<std::int64_t> milliseconds{};  // Of footage, that each unit is a piece of; empty: none is.
  std::int64_t done_milliseconds = 0;
  // For all chunks together, those too that were forgotten since. None: counted from its chunks at the next
  // start, because what wrote it kept no sum.
  std::optional<Money> charged{};
  Money held{};

  [[nodiscard]] const Chunk* chunk_of(JobId job) const;
  [[nodiscard]] bool settled() const { return done + given_up == range.count(); }
  // What its work is counted in: seconds of footage, or its units as they are.
  [[nodiscard]] WorkUnit counted_in() const { return milliseconds.empty() ? unit : WorkUnit::kSecond; }
  [[nodiscard]] std::int64_t counted_done() const {
    return milliseconds.empty() ? done : done_milliseconds / 1000;
  }
  [[nodiscard]] std::int64_t counted_total() const;
};
BOOST_DESCRIBE_STRUCT(JobGroup,
                      (),
                      (id,
                       owner,
                       unit,
                       range,
                       chunk,
                       tries,
                       ask,
                       waiting,
                       chunks,
                       failures,
                       past,
                       done,
                       given_up,
                       busy_microseconds,
                       first_started,
                       at,
                       milliseconds,
                       done_milliseconds,
                       charged,
                       held))

struct GroupFormed {
  JobId id{};
  PartyId owner{};
  WorkUnit unit = WorkUnit::kFrame;
  UnitRange range{};
  std::uint32_t chunk = 0;
  std::uint32_t tries = 1;
  Ask ask{};
  std::vector<std::int64_t> milliseconds{};
};
BOOST_DESCRIBE_STRUCT(GroupFormed, (), (id, owner, unit, range, chunk, tries, ask, milliseconds))

struct ChunkFormed {
  JobId group{};
  JobId job{};
  PartyId owner{};
  UnitSet units{};
  JobId copy_of{};
};
BOOST_DESCRIBE_STRUCT(ChunkFormed, (), (group, job, owner, units, copy_of))

// More units for a chunk that runs: its sandbox goes on with them.
struct ChunkExtended {
  JobId group{};
  JobId job{};
  PartyId owner{};
  UnitSet units{};
  JobId from{};  // The chunk that waited with them; none: they were in no chunk.
};
BOOST_DESCRIBE_STRUCT(ChunkExtended, (), (group, job, owner, units, from))

// What the submission of such a job must say; pure.
[[nodiscard]] Ask parent_ask(const Ask& chunk_ask);

// The units of the next chunk: fresh ones together, those that failed before each alone and last.
[[nodiscard]] UnitSet next_chunk(const JobGroup& group, std::uint32_t running);
[[nodiscard]] bool has_failed(const JobGroup& group, std::int64_t unit);
// How many chunks may wait and run at once, so that whoever becomes free finds the next.
[[nodiscard]] std::size_t chunks_at_once(std::uint32_t running);

// How long a unit may take before it counts as a straggler. Nothing: none has been done, so nobody knows.
[[nodiscard]] std::optional<Duration> patience_with_a_unit(const JobGroup& group);
// A chunk is a straggler when its unit has taken so long that another try would most likely be faster, and
// has no copy yet. `look`: the next time at which one may have become it.
struct Straggler {
  const Chunk* chunk = nullptr;
  Instant look{};
};
[[nodiscard]] Straggler find_straggler(const JobGroup& group, Instant now);
// Chunks whose units were all settled by their copies, or as copies by those they copied.
[[nodiscard]] std::vector<JobId> needless_chunks(const JobGroup& group);

void extend_chunk(JobGroup& group, const ChunkExtended& event);
void take_verdict(JobGroup& group, JobId chunk, const wire::UnitVerdict& verdict, Instant at);
void end_chunk(JobGroup& group, const Job& chunk, Instant at);
[[nodiscard]] std::string failure_text(const JobGroup& group);

}  // namespace tranche::engine
