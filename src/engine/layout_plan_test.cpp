// SPDX-License-Identifier: Apache-2.0
#include "engine/layout_plan.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

Ask cut(const std::string& profile, std::uint32_t milli, std::uint8_t priority, Duration time = {}) {
  Ask ask = gpus(1, milli);
  ask.model = "H100-SXM5-80GB";
  ask.isolation = Isolation::kHard;
  ask.profile = profile;
  ask.priority = priority;
  ask.time = time;
  return ask;
}
Ask three(std::uint8_t priority = 75) {
  return cut("3g.40gb", 428, priority);
}
Ask one(std::uint8_t priority, Duration time) {
  return cut("1g.10gb", 142, priority, time);
}

// Devices that can be cut; yesterday from ten to eleven all of this was in use, and now it is half past nine.
struct Shop : World {
  PartyId ana = user(create(PartyKind::kTenant, kPlatform, "acme"), "ana");
  Instant midnight = std::chrono::ceil<std::chrono::days>(clock);

  Shop(std::uint32_t devices, const std::vector<Ask>& yesterday, std::uint32_t prepare_percent = 100) {
    partitionable("a", devices);
    wire::Settings settings = state.settings;
    settings.prepare_percent = prepare_percent;
    REQUIRE(run(ChangeSettings{settings}, root));
    clock = midnight + 10h;
    std::vector<JobId> jobs;
    for (const Ask& ask : yesterday) jobs.push_back(begin(ask));
    clock = midnight + 11h;
    for (const JobId id : jobs) {
      const LeaseId lease = state.jobs.at(id).leases.front();
      REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited));
      REQUIRE(scrub(lease));
    }
    clock = midnight + 24h + 9h + 30min;
  }
  JobId begin(const Ask& ask) {
    const JobId id = submit(ana, ask);
    schedule();
    REQUIRE(state.jobs.at(id).state == JobState::kStarting);
    return id;
  }
  bool starts(const Ask& ask) {
    const JobId id = submit(ana, ask);
    schedule();
    return state.jobs.at(id).state == JobState::kStarting;
  }
  [[nodiscard]] std::vector<PlannedPartition> plan() const {
    return plan_layouts(state, clock, clock + kLayoutAhead);
  }
};

TEST_CASE(
    "layout plan: what was in use at this hour is planned on one device, side by side, after a restart too") {
  Shop shop(2, {three(), three()});
  const auto check = [&](const std::vector<PlannedPartition>& plan) {
    REQUIRE(plan.size() == 2);
    CHECK(plan[0].device == plan[1].device);
    CHECK(plan[0].profile == "3g.40gb");
    CHECK(plan[0].priority == 75);
    CHECK((plan[0].slots & plan[1].slots) == 0);
    CHECK((plan[0].slots | plan[1].slots) == 0xff);
    CHECK(plan[0].start + plan[1].start == 4);
  };
  check(shop.plan());
  auto again = decode_state(encode_state(shop.state));
  REQUIRE(again);
  shop.state = std::move(*again);
  check(shop.plan());
}

TEST_CASE("layout plan: nothing for hours in which nothing was wanted, nor unless the operator says so") {
  Shop shop(1, {three()});
  CHECK(plan_layouts(shop.state, shop.clock, shop.clock + 30min).empty());  // Ten o'clock is not in it.
  shop.clock = shop.midnight + 24h + 12h;
  CHECK(shop.plan().empty());
  CHECK(Shop(1, {three()}, 0).plan().empty());
}

TEST_CASE("layout plan: large ones are placed before small ones, and what finds no place is left out") {
  const Ask small = cut("1g.10gb", 142, 90);
  Shop shop(2, {small, three(), three(), three()});
  const auto plan = shop.plan();
  REQUIRE(plan.size() == 4);
  for (int i = 0; i < 3; ++i) CHECK(plan[static_cast<std::size_t>(i)].profile == "3g.40gb");
  CHECK(plan[3].profile == "1g.10gb");
  CHECK(plan[3].device == plan[2].device);  // Beside the third.
  CHECK((plan[3].slots & plan[2].slots) == 0);
  Ask whole = gpus(1);
  whole.isolation = Isolation::kDedicated;
  whole.priority = 100;
  shop.begin(whole);  // One device less.
  CHECK(shop.plan().size() == 2);
}

TEST_CASE("layout plan: what runs already is not planned once more, and its device is used first") {
  Shop shop(2, {three(), three()});
  const JobId runs = shop.begin(three());
  const DeviceId device = shop.state.leases.at(shop.state.jobs.at(runs).leases.front()).slices.front().device;
  const auto plan = shop.plan();
  REQUIRE(plan.size() == 1);
  CHECK(plan.front().device == device);
}

TEST_CASE("layout plan: long work that goes after it is kept out of its slots, and nobody else") {
  Shop shop(1, {three(), three()});
  const JobId waits = shop.submit(shop.ana, one(25, 2h));
  shop.schedule();
  CHECK(shop.state.jobs.at(waits).state == JobState::kPending);
  CHECK(shop.starts(one(25, 20min)));  // Gone by then.
  CHECK(Shop(1, {three(), three()}).starts(one(75, 2h)));
  Ask stoppable = one(25, 2h);
  stoppable.preemptible = true;
  CHECK(Shop(1, {three(), three()}).starts(stoppable));
  CHECK(Shop(1, {three(), three()}, 0).starts(one(25, 2h)));
  CHECK(Shop(1, {three()}).starts(one(25, 2h)));  // There is room beside one.
  // Until the hour has passed; the pass is due by itself.
  CHECK(schedule_due(shop.state, shop.midnight + 24h + 10h));
  shop.clock = shop.midnight + 24h + 11h;
  shop.schedule();
  CHECK(shop.state.jobs.at(waits).state == JobState::kStarting);
}

}  // namespace
}  // namespace tranche::engine
