// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_engine.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"

using namespace tranche::sim;  // NOLINT(google-build-using-namespace): a test reads better so.

namespace {

constexpr Seconds kHandOver = 30 + 1;  // Grace and wipe.

ReplayRun replayed(const ReplayTrace& trace) {
  return replay(trace, {.mode = ReplayMode::kEngine});
}

}  // namespace

TEST_CASE("replay engine: what was lent comes back within grace and wipe, and its work goes on") {
  ReplayTrace trace;
  trace.pools = {{"owner", 1}, {"borrower", 1}};
  trace.jobs = {{0, 7200, 8, 1}, {0, 7200, 8, 1}, {3000, 1000, 8, 0}};
  const ReplayRun run = replayed(trace);
  const JobOutcome& owner = run.outcomes[2];
  CHECK(owner.entitled_at_submit);
  CHECK(owner.first_start == 3000 + kHandOver);
  CHECK(owner.end == owner.first_start + 1000);
  CHECK(run.preemptions == 1);
  const bool first = run.outcomes[0].preemptions == 1;
  const JobOutcome& stopped = run.outcomes[first ? 0 : 1];
  const JobOutcome& spared = run.outcomes[first ? 1 : 0];
  CHECK(spared.end == 7200);
  CHECK(spared.wait == 0);
  // It ran through its grace to 3,030, keeps the 3,000 of its checkpoint, and goes on when the owner left.
  CHECK(stopped.wait == owner.end + 1 - 3030);
  CHECK(stopped.end == owner.end + 1 + 60 + 4200);
  CHECK(run.lost_gpu_seconds == 8 * (30 + 60));
}

TEST_CASE("replay engine: a gang gets its guarantee back as soon as a single job") {
  ReplayTrace trace;
  trace.pools = {{"owner", 2}, {"borrower", 1}};
  trace.jobs = {{0, 7200, 8, 1}, {0, 7200, 8, 1}, {0, 7200, 8, 1}, {3000, 1000, 16, 0}};
  const ReplayRun run = replayed(trace);
  CHECK(run.outcomes[3].first_start == 3000 + kHandOver);
  CHECK(run.preemptions == 2);
}

TEST_CASE("replay engine: everybody runs to the end, what is too large never, and twice alike") {
  tranche::Random random(20261118);
  ReplayTrace trace;
  trace.pools = {{"a", 1}, {"b", 2}, {"c", 1}};
  Seconds now = 0;
  for (int i = 0; i < 120; ++i) {
    now += static_cast<Seconds>(random.below(300));
    const std::int32_t sizes[] = {1, 1, 1, 2, 4, 8, 12, 16, 32, 40};
    trace.jobs.push_back({now,
                          static_cast<Seconds>(1 + random.below(5000)),
                          sizes[random.below(std::size(sizes))],
                          static_cast<GroupIndex>(random.below(3))});
  }
  const ReplayRun run = replayed(trace);
  const ReplayRun again = replayed(trace);
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    CAPTURE(i);
    const JobOutcome& outcome = run.outcomes[i];
    CHECK(outcome.impossible == (trace.jobs[i].gpus == 40));
    if (outcome.impossible) continue;
    CHECK(outcome.end >= trace.jobs[i].submit + trace.jobs[i].duration + outcome.wait);
    CHECK(outcome.end == again.outcomes[i].end);
    CHECK(outcome.wait == again.outcomes[i].wait);
  }
  CHECK(summarise(trace, run).allocation_percent <= 100);
}
