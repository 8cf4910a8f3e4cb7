// SPDX-License-Identifier: Apache-2.0
// The pure parts of lending, each against figures worked out by hand or by brute force.
#include "policy/lending.hpp"

#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <limits>

#include "base/random.hpp"
#include "policy/fair_share.hpp"
#include "policy/forecast.hpp"
#include "policy/reclaim.hpp"
#include "policy/runtime_estimate.hpp"

using namespace tranche::policy;  // NOLINT(google-build-using-namespace): a test reads better so.

TEST_CASE("fair share: use halves with every half-life") {
  FadingUse use;
  use.charge(1'000'000, 0, 3600);
  CHECK(use.at(3600, 3600) == 500'000);
  CHECK(use.at(7200, 3600) == 250'000);
  for (Seconds elapsed = 0; elapsed < 20000; elapsed += 331) {
    const double exact = std::exp2(-static_cast<double>(elapsed) / 3600) * 4294967296.0;
    CHECK(std::abs(static_cast<double>(fade_q32(elapsed, 3600)) - exact) < exact * 2e-5 + 40);
  }
}

TEST_CASE("fair share: a rate held for ever settles at rate times half-life over ln 2") {
  FadingUse use;
  use.set_rate(10, 0, 3600);
  const double settled = 10 * 3600 / std::log(2.0);
  CHECK(std::abs(static_cast<double>(use.at(3600 * 40, 3600)) - settled) < settled * 1e-3);
}

TEST_CASE("fair share: a unit cannot gain by splitting itself into many") {
  FairShareTree tree(3600);
  const ShareNode a = tree.add(FairShareTree::kRoot, 1), b = tree.add(FairShareTree::kRoot, 1);
  const ShareNode a1 = tree.add(a, 1), a2 = tree.add(a, 1), b1 = tree.add(b, 1);
  tree.charge(a1, 1000, 0);
  tree.charge(b1, 900, 0);
  const auto ranks = tree.ranks(0);
  CHECK(ranks[static_cast<std::size_t>(b1)] == 0);  // B used less than A, though a2 used nothing at all.
  CHECK(ranks[static_cast<std::size_t>(a2)] == 1);
  CHECK(ranks[static_cast<std::size_t>(a1)] == 2);
}

TEST_CASE("lending: a guarantee is a cluster of its own under EASY") {
  // 8 guaranteed, 4 in use until 100. The head needs 8; a short one may pass it, a long one may not.
  const std::vector<Release> releases{{100, 4}};
  const std::vector<GuaranteeClaimant> claimants{{1, 20, 10}, {2, 8, 1000}, {3, 2, 500}, {4, 2, 90}};
  std::vector<JobIndex> entitled;
  entitled_jobs({8, 4, releases, claimants, 0}, entitled);
  CHECK(entitled == std::vector<JobIndex>{4});
}

TEST_CASE("reclaim: the cheapest victims are found, by comparison with trying every set") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    tranche::Random random(seed);
    NodePool nodes(2, 8);
    std::vector<std::vector<Occupant>> occupants(2);
    std::vector<Harm> harms;
    for (std::int32_t node = 0; node < 2; ++node) {
      std::int32_t left = 8;
      while (left > 0 && random.below(6) != 0) {
        const auto gpus =
            static_cast<std::int32_t>(1 + random.below(static_cast<std::uint64_t>(std::min(left, 4))));
        GangPlacement at;
        at.add({node, gpus});
        nodes.take(at);
        occupants[static_cast<std::size_t>(node)].push_back({static_cast<JobIndex>(harms.size()), gpus});
        harms.push_back(random.below(5) == 0 ? kSpared : static_cast<Harm>(1 + random.below(1000)));
        left -= gpus;
      }
    }
    const auto need = static_cast<std::int32_t>(1 + random.below(8));
    Harm best = kSpared;
    for (std::size_t node = 0; node < 2; ++node) {
      const auto& here = occupants[node];
      for (std::size_t set = 0; set < (std::size_t{1} << here.size()); ++set) {
        std::int32_t freed = nodes.free(static_cast<std::int32_t>(node));
        Harm harm = 0;
        for (std::size_t i = 0; i < here.size(); ++i) {
          if ((set >> i & 1U) == 0) continue;
          const Harm one = harms[static_cast<std::size_t>(here[i].job)];
          if (one == kSpared || harm == kSpared) {
            harm = kSpared;
          } else {
            harm += one;
          }
          freed += here[i].gpus;
        }
        if (freed >= need && harm < best) best = harm;
      }
    }
    const auto plan = cheapest_reclaim(
        {nodes, occupants, [&](JobIndex job) { return harms[static_cast<std::size_t>(job)]; }}, need);
    REQUIRE(plan.has_value() == (best != kSpared));
    if (!plan) continue;
    CHECK(plan->harm == best);
    Harm sum = 0;
    for (const JobIndex victim : plan->victims) sum += harms[static_cast<std::size_t>(victim)];
    CHECK(sum == best);
  }
}

TEST_CASE("reclaim: credit is spent by a storm and returned by work that lasts") {
  ReclaimCredit credit(3, 100);
  for (int i = 0; i < 3; ++i) credit.spend(10);
  CHECK(!credit.may_reclaim(10));
  CHECK(!credit.may_reclaim(109));
  CHECK(credit.may_reclaim(110));
  credit.give_back(20);
  CHECK(credit.may_reclaim(20));
}

TEST_CASE("runtime estimate: the median of the newest, from the narrowest circle that knows") {
  RuntimeHistory history;
  const RuntimeKind one = history.kind(0, 1), other = history.kind(1, 8);
  CHECK(history.predict(one) == RuntimeHistory::kUnknownRuntime);
  history.finished(other, 50);
  CHECK(history.predict(one) == 50);  // Nobody nearer has ended yet.
  for (Seconds ran = 1; ran <= 400; ++ran) history.finished(one, ran);
  CHECK(history.predict(one) == 300);  // Of 201..400: the last two hundred.
  CHECK(history.draw(one, 390, 0) == 391);
  CHECK(history.draw(one, 400, 0.5) == 800);
}

TEST_CASE(
    "runtime estimate: what a job declares counts as much as a few of its like, and bounds all of them") {
  RuntimeHistory history;
  const RuntimeKind one = history.kind(0, 1), other = history.kind(1, 8);
  CHECK(history.draw(one, 0, 0.5, 600) == 600);  // Nobody has ended yet.
  CHECK(history.draw(one, 0, 0.5, 7200) == 7200);
  history.finished(other, 20);  // One job of somebody else, and quite another one.
  CHECK(history.draw(one, 0, 0.5, 600) == 600);
  CHECK(history.draw(one, 0, 0.1, 600) == 20);
  CHECK(history.draw(one, 20, 0.1, 600) == 600);  // It has outlived all that is known.
  for (Seconds ran = 100; ran < 197; ++ran) history.finished(one, ran);
  CHECK(history.draw(one, 0, 0.5, 600) == 150);  // Ninety-seven of its like, and three times what it said.
  CHECK(history.draw(one, 0, 0.96, 600) == 196);
  CHECK(history.draw(one, 0, 0.98, 600) == 600);
  CHECK(history.draw(one, 0, 0.5, 120) == 120);
}

TEST_CASE("backfill: outlived predictions double, and the head's start is kept") {
  CHECK(expected_end(0, 100, 99) == 100);
  CHECK(expected_end(0, 100, 100) == 200);
  CHECK(expected_end(0, 100, 399) == 400);
  std::vector<Release> releases{{50, 4}, {20, 2}, {90, 8}};
  const Reservation promised = reserve(6, 1, releases, 0);
  CHECK(promised.starts == 50);
  CHECK(promised.spare == 1);
}

TEST_CASE("forecast: late outcomes stretch the next P90, early ones shorten it") {
  ForecastRecord record(100);
  for (int i = 0; i < 100; ++i) record.resolve({100, 540}, 1140);  // Twice as late, with the slack.
  CHECK(record.scale({}) == doctest::Approx(2.0));
  CHECK(scaled({100, 540}, 2.0).p90 == 1140);
  for (int i = 0; i < 100; ++i) record.resolve({100, 540}, 240);
  CHECK(record.scale({}) == doctest::Approx(0.5));
  CHECK(scaled({500, 540}, 0.5).p90 == 500);  // Never below the P50.
}
