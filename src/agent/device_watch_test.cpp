// SPDX-License-Identifier: Apache-2.0
#include "agent/device_watch.hpp"

#include <doctest/doctest.h>

namespace tranche::agent {
namespace {

constexpr BootTime kHalf = 500'000'000;
constexpr std::uint64_t kGiB = 1ULL << 30U;
constexpr std::uint64_t kMillisecond = 1'000'000;

// A job within its slice of 8 GiB: one process, 4 GiB counted and reported.
SeenUse honest() {
  return {.lease = {7},
          .uuid = "GPU-1",
          .separated = false,
          .processes = {{.pid = 41, .name = "train", .vram = 4 * kGiB, .busy_milli = 300, .joined = true}},
          .vram_limit = 8 * kGiB,
          .vram_counted = 4 * kGiB,
          .account = 1,
          .since_launch = std::chrono::milliseconds(1),
          .neighbours = true};
}

// Looks twice a second; `step` makes each moment out of the one before.
struct Looks {
  DeviceWatch watch{};
  BootTime now = 1'000'000'000'000;
  SeenUse use = honest();
  template <class Step>
  std::vector<Finding> look(int times, Step step) {
    std::vector<Finding> all;
    for (int i = 0; i < times; ++i) {
      now += kHalf;
      step(use);
      for (Finding& finding : watch.look(now, {use})) all.push_back(std::move(finding));
    }
    return all;
  }
  std::vector<Finding> look(int times) {
    return look(times, [](SeenUse&) {});
  }
};

void charge(SeenUse& use, std::uint64_t milliseconds) {
  use.counted_ns += milliseconds * kMillisecond;
  use.submitted_ns += milliseconds * kMillisecond;
}

TEST_CASE("device watch: whoever stays within its account is never accused") {
  Looks looks;
  CHECK(looks.look(300, [](SeenUse& use) { charge(use, 150); }).empty());
  CHECK(looks.watch.reported({7}, "GPU-1").vram_most == 4 * kGiB);
  CHECK(looks.watch.reported({7}, "GPU-1").busy_ns == 299 * kHalf * 3 / 10);
}

TEST_CASE("device watch: a process without the guard is named at the second look") {
  Looks looks;
  looks.use.processes.push_back({.pid = 42, .name = "sneak", .vram = kGiB});
  looks.use.vram_counted = 6 * kGiB;
  CHECK(looks.look(1).empty());
  const auto found = looks.look(1);
  REQUIRE(found.size() == 1);
  CHECK(found[0].ends);
  CHECK(found[0].lease == LeaseId{7});
  CHECK(found[0].evidence.find("process 42 (sneak) holds 1GiB of GPU-1") == 0);
  CHECK(looks.look(5).empty());  // Told once.
}

TEST_CASE("device watch: one that is gone at the next look was on its way") {
  Looks looks;
  looks.use.processes[0].joined = false;
  CHECK(looks.look(1).empty());
  looks.use.processes[0].joined = true;
  CHECK(looks.look(4).empty());
}

TEST_CASE("device watch: memory beyond the account, and an account beyond the limit") {
  SUBCASE("counted too little") {
    Looks looks;
    looks.use.vram_counted = 3 * kGiB;
    CHECK(looks.look(1).empty());
    CHECK(looks.look(1).at(0).evidence.find("the device reports 4GiB") == 0);
  }
  SUBCASE("counted what it took, past its limit") {
    Looks looks;
    looks.use.processes[0].vram = looks.use.vram_counted = 9 * kGiB;
    CHECK(looks.look(2).at(0).ends);
  }
  SUBCASE("what a driver rounds is no theft") {
    Looks looks;
    looks.use.processes[0].vram += 60ULL << 20U;
    CHECK(looks.look(4).empty());
  }
  SUBCASE("a limit that was lowered may be passed by what was there, and by no more") {
    Looks looks;
    CHECK(looks.look(2).empty());
    looks.use.vram_limit = 2 * kGiB;
    CHECK(looks.look(4).empty());
    looks.use.processes[0].vram = looks.use.vram_counted = 3 * kGiB;  // It gives some back,
    CHECK(looks.look(2).empty());
    looks.use.processes[0].vram = looks.use.vram_counted = 4 * kGiB;  // and cannot have it again.
    CHECK(looks.look(2).size() == 1);
  }
}

TEST_CASE("device watch: device time that nobody let through") {
  SUBCASE("none was ever asked for") {
    Looks looks;
    looks.use.since_launch = std::chrono::hours(1);
    CHECK(looks.look(1).empty());
    CHECK(looks.look(1).at(0).evidence.find("the device reports 30 % of GPU-1 busy") == 0);
  }
  SUBCASE("more was measured than charged") {
    Looks looks;
    const auto found = looks.look(4, [](SeenUse& use) { use.measured_ns += 400 * kMillisecond; });
    REQUIRE(found.size() == 1);
    CHECK(found[0].evidence.find("the account of GPU-1 was written by the job") == 0);
  }
  SUBCASE("hidden behind launches that are charged, beside a neighbour: within a minute and a half") {
    Looks looks;
    const auto found = looks.look(180, [](SeenUse& use) {
      use.processes[0].busy_milli = 900;
      charge(use, 50);
    });
    REQUIRE(found.size() == 1);
    CHECK(found[0].evidence.find("within a minute the device was busy") == 0);
  }
  SUBCASE("a long kernel is charged when it ends, and nobody waits for it") {
    Looks looks;
    looks.use.neighbours = false;
    CHECK(looks.look(180, [](SeenUse& use) { use.processes[0].busy_milli = 1000; }).empty());
  }
  SUBCASE("twenty seconds of one, beside a neighbour") {
    Looks looks;
    CHECK(looks.look(40, [](SeenUse& use) { use.processes[0].busy_milli = 1000; }).empty());
    charge(looks.use, 20'000);
    CHECK(looks
              .look(100,
                    [](SeenUse& use) {
                      charge(use, 150);
                      use.processes[0].busy_milli = 300;
                    })
              .empty());
  }
}

TEST_CASE("device watch: an account that goes back was written by hand, and a new one was not") {
  Looks looks;
  looks.look(2, [](SeenUse& use) { charge(use, 150); });
  SUBCASE("the same account") {
    looks.use.submitted_ns -= kMillisecond;
    CHECK(looks.look(1).at(0).evidence.find("the account of GPU-1 was written by the job") == 0);
  }
  SUBCASE("another account") {
    looks.use.submitted_ns = looks.use.counted_ns = 0;
    looks.use.account = 2;
    CHECK(looks.look(4, [](SeenUse& use) { charge(use, 150); }).empty());
  }
}

TEST_CASE("device watch: where hardware separates tenants it is written down, and nobody is ended") {
  Looks looks;
  looks.use.separated = true;
  looks.use.processes[0].joined = false;
  const auto found = looks.look(2);
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].ends);
  SUBCASE("but a device that was not granted is nobody's own") {
    SeenUse other{.lease = {7}, .uuid = "GPU-2", .granted = false, .processes = looks.use.processes};
    looks.watch.look(looks.now += kHalf, {other});
    CHECK(looks.watch.look(looks.now += kHalf, {other}).at(0).ends);
  }
}

}  // namespace
}  // namespace tranche::agent
