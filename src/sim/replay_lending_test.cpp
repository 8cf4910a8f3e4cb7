// SPDX-License-Identifier: Apache-2.0
// Properties of lending that hold on every trace, checked after every pass from the jobs' own placements.
#include "sim/replay_lending.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <map>

#include "base/random.hpp"

using namespace tranche::sim;  // NOLINT(google-build-using-namespace): a test reads better so.
using tranche::policy::LendingRules;

namespace {

ReplayTrace random_trace(std::uint64_t seed) {
  tranche::Random random(seed);
  ReplayTrace trace;
  const auto pools = 2 + random.below(4);
  for (std::uint64_t i = 0; i < pools; ++i) {
    trace.pools.push_back({"p" + std::to_string(i), 1 + static_cast<std::int32_t>(random.below(3))});
  }
  const std::uint64_t pace = 5 + random.below(200);
  Seconds now = 0;
  for (int i = 0; i < 600; ++i) {
    now += static_cast<Seconds>(random.below(6) == 0 ? random.below(pace * 20) : random.below(pace));
    const std::int32_t sizes[] = {1, 1, 1, 1, 2, 3, 4, 8, 8, 12, 24};
    trace.jobs.push_back(
        {now,
         static_cast<Seconds>(random.below(8) == 0 ? random.below(90000) : random.below(3000)),
         sizes[random.below(std::size(sizes))],
         static_cast<GroupIndex>(random.below(random.below(3) == 0 ? pools : 2))});
  }
  return trace;
}

// Counted from the jobs, not from the cluster's own books.
void check_books(const LendingCluster& cluster, std::size_t from) {
  std::vector<std::int32_t> used(static_cast<std::size_t>(cluster.nodes().nodes()));
  std::map<GroupIndex, std::int32_t> protected_use;
  for (std::size_t i = from; i < cluster.jobs(); ++i) {
    const LendingJob& job = cluster.job(static_cast<JobIndex>(i));
    const bool runs = job.standing == Standing::kBorrowing || job.standing == Standing::kProtected;
    if (job.standing == Standing::kProtected || (job.standing == Standing::kStarting && job.entitled)) {
      protected_use[job.pool] += job.gpus;
    }
    if (!runs) continue;
    std::int32_t held = 0;
    for (const auto& share : job.at) {
      used[static_cast<std::size_t>(share.node)] += share.gpus;
      held += share.gpus;
    }
    REQUIRE(held == job.gpus);  // Gangs whole.
  }
  for (const std::int32_t gpus : used) REQUIRE(gpus <= cluster.nodes().gpus_per_node());
  for (const auto& [pool, gpus] : protected_use) {
    REQUIRE(gpus <= cluster.pools()[static_cast<std::size_t>(pool)].guarantee);
  }
}

bool nobody_runs(const LendingCluster& cluster, std::size_t from) {
  for (std::size_t i = from; i < cluster.jobs(); ++i) {
    const Standing standing = cluster.job(static_cast<JobIndex>(i)).standing;
    if (standing != Standing::kWaiting && standing != Standing::kDone) return false;
  }
  return true;
}

int seeds() {
  return std::getenv("TRANCHE_LONG") != nullptr ? 400 : 6;  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

TEST_CASE("lending: no device is oversold, guarantees hold, an idle fleet leaves nobody waiting") {
  for (int seed = 1; seed <= seeds(); ++seed) {
    CAPTURE(seed);
    const ReplayTrace trace = random_trace(static_cast<std::uint64_t>(seed));
    LendingOptions options;
    std::size_t done = 0;
    options.after_pass = [&](const LendingCluster& cluster, Seconds) {
      while (done < cluster.jobs() && cluster.job(static_cast<JobIndex>(done)).standing == Standing::kDone)
        ++done;
      check_books(cluster, done);
      if (nobody_runs(cluster, done)) REQUIRE(!cluster.anyone_waits());
    };
    const ReplayRun run = replay_lending(trace, options);
    const ReplayReport report = summarise(trace, run);
    const LendingRules& rules = options.rules;
    CHECK(report.worst_entitled_start_seconds <= rules.grace + rules.minimum_run + rules.wake_every);
    for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
      REQUIRE((run.outcomes[i].impossible || run.outcomes[i].end >= 0));
      if (run.outcomes[i].end < 0) continue;
      // Whatever happened to it, a job ran for its whole duration.
      REQUIRE(run.outcomes[i].end - trace.jobs[i].submit >= trace.jobs[i].duration + run.outcomes[i].wait);
    }
  }
}

TEST_CASE("lending: the same trace gives the same decisions") {
  for (const std::uint64_t seed : {9U, 12U}) {
    const ReplayTrace trace = random_trace(seed);
    const ReplayRun one = replay_lending(trace, {}), two = replay_lending(trace, {});
    REQUIRE(one.passes == two.passes);
    for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
      REQUIRE(one.outcomes[i].first_start == two.outcomes[i].first_start);
      REQUIRE(one.outcomes[i].end == two.outcomes[i].end);
    }
  }
}

TEST_CASE("lending: an owner gets its guarantee back within the grace") {
  ReplayTrace trace;
  trace.pools = {{"owner", 1}, {"borrower", 1}};
  for (int i = 0; i < 16; ++i) trace.jobs.push_back({0, 50000, 1, 1});
  trace.jobs.push_back({1000, 100, 8, 0});
  const ReplayRun run = replay_lending(trace, {});
  CHECK(run.outcomes[16].entitled_at_submit);
  CHECK(run.outcomes[16].first_start == 1030);
  CHECK(run.preemptions == 8);
  CHECK(summarise(trace, run).late_entitled_starts == 0);
}

// A flood of short work from one pool borrows everything that is idle, for ever; a gang larger than its own
// guarantee must still get in, within the stated bound.
TEST_CASE("lending: a flood of short jobs cannot starve a gang that only a loan can hold") {
  LendingRules rules;
  for (const Seconds length : {500, 650, 3000}) {
    CAPTURE(length);
    ReplayTrace trace;
    trace.pools = {{"gang", 1}, {"flood", 1}, {"lender", 3}};
    const Seconds until = 40000;
    for (Seconds at = 0; at < until; at += std::max<Seconds>(1, length / 45)) {
      trace.jobs.push_back({at, length, 1, 1});
    }
    trace.jobs.push_back({1000, 900, 24, 0});
    std::stable_sort(trace.jobs.begin(), trace.jobs.end(), [](const auto& a, const auto& b) {
      return a.submit < b.submit;
    });
    const ReplayRun run = replay_lending(trace, {});
    const auto gang =
        std::find_if(trace.jobs.begin(), trace.jobs.end(), [](const auto& job) { return job.gpus == 24; });
    const JobOutcome& outcome = run.outcomes[static_cast<std::size_t>(gang - trace.jobs.begin())];
    // It presses after four times its predicted run (an hour at most here); then nodes drain for it.
    const Seconds bound = rules.pressing_after * 3600 + rules.minimum_run + rules.moves_every +
                          rules.wake_every + rules.grace + length;
    CHECK(outcome.first_start >= 0);
    CHECK(outcome.first_start - 1000 <= bound);
  }
}

TEST_CASE("lending: a crash loop under a guarantee does not preempt others for ever") {
  ReplayTrace trace;
  trace.pools = {{"loop", 1}, {"steady", 1}};
  for (int i = 0; i < 16; ++i) trace.jobs.push_back({0, 400000, 1, 1});
  const Seconds day = 20000;
  for (Seconds at = 2000; at < 2000 + day; at += 10) trace.jobs.push_back({at, 1, 8, 0});  // Dies at once.
  LendingOptions options;
  const ReplayRun run = replay_lending(trace, options);
  const LendingRules& rules = options.rules;
  Seconds last = 0;
  for (const JobOutcome& outcome : run.outcomes) last = std::max(last, outcome.end);
  CHECK(run.reclaims <= rules.reclaim_credit + last / rules.reclaim_refill + 1);
  CHECK(run.reclaims > rules.reclaim_credit);  // The storm did try.
  // Those who borrowed keep most of the time.
  for (std::size_t i = 0; i < 16; ++i) CHECK(run.outcomes[i].wait < last / 4);
}
