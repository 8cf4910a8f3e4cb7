// SPDX-License-Identifier: Apache-2.0
#include "engine/guarantee.hpp"

#include <doctest/doctest.h>

#include "engine/decide.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kDeviceHour = 1000 * 3600;  // In milli-devices and seconds, as accounts count.

// One device at two an hour; whatever the tenant is guaranteed, a service level promises it.
struct Firm : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  LevelKey key{acme, "firm"};
  Instant midnight = std::chrono::floor<std::chrono::days>(clock);

  explicit Firm(std::int64_t guaranteed, std::uint32_t permille = 990) {
    node("gpu-01", 1);
    const PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = units(2)}}};
    REQUIRE(run(SetPriceList{list}, root));
    REQUIRE(run(TopUp{acme, units(100), "", ""}, root));
    Quota quota;
    quota.gpu_milli.guaranteed = guaranteed;
    REQUIRE(limit(acme, quota));
    REQUIRE(run(SetLevel{key, {.credit_percent = 50, .guarantee_permille = permille}}, root));
    at(0h);
  }
  // As a server does: until nothing is due. What a pass that decided nothing left missing is noted after it.
  void settle() {
    schedule();
    while (schedule_due(state, clock)) REQUIRE(run(Schedule{}));
  }
  void at(Duration since) {
    clock = midnight + since;
    REQUIRE(run(Tick{}));
    settle();
  }
  JobId want(std::uint32_t milli = 1000) {
    const JobId id = submit(ana, gpus(1, milli));
    settle();
    return id;
  }
  void end(JobId id) {
    const LeaseId lease = state.jobs.at(id).leases.front();
    REQUIRE(report(lease, LeaseState::kRunning));
    REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited));
    REQUIRE(scrub(lease));
    settle();
  }
  // Two devices are wanted from midnight on and one is there; from six to ten one is wanted, and there.
  void short_for_six_hours() {
    const JobId first = want();
    const JobId second = want();
    at(6h);
    end(first);
    at(10h);
    end(second);
  }
  void restart() {
    auto again = decode_state(encode_state(state));
    REQUIRE(again);
    state = std::move(*again);
  }
  [[nodiscard]] const ServiceLevel& level() const { return state.work.levels.at(key); }
  [[nodiscard]] Money credit() const { return balance(state.ledger, credit_account(state, acme)); }
};

TEST_CASE("guarantee: a day on which all that was asked for was there is kept") {
  Firm firm(1000, 1000);
  const JobId job = firm.want();
  firm.at(10h);
  CHECK(running_month(firm.state, firm.level()).guarantee == Delivery{{}, 10 * kDeviceHour, 0});
  firm.end(job);
  firm.at(23h);
  CHECK(firm.level().kept == 0);  // The day is not over.
  firm.at(24h);
  CHECK(firm.level().kept == 1);
  CHECK(firm.level().missed == 0);
  CHECK(firm.level().guarantee == Delivery{{}, 10 * kDeviceHour, 0});
  CHECK(firm.credit() == units(100));
}

TEST_CASE("guarantee: what was missing is counted, the day is missed, and its price comes back in part") {
  Firm firm(2000);
  firm.short_for_six_hours();
  CHECK(running_month(firm.state, firm.level()).guarantee == Delivery{{}, 16 * kDeviceHour, 6 * kDeviceHour});
  firm.at(24h);
  CHECK(firm.level().kept == 0);
  CHECK(firm.level().missed == 1);
  REQUIRE(firm.level().misses.size() == 1);
  CHECK(firm.level().misses.front().day == firm.midnight);
  CHECK(firm.level().misses.front().delivery.permille() == 625);
  CHECK(firm.level().credited == units(6));  // Half of six hours at two.
  CHECK(firm.credit() == units(106));
  CHECK(firm.level().account.day == Instant{});  // Nothing is wanted: no day is open.
}

TEST_CASE("guarantee: so much as was promised is enough, and a thousandth less is not") {
  Firm enough(2000, 625);
  enough.short_for_six_hours();
  enough.at(24h);
  CHECK(enough.level().kept == 1);
  CHECK(enough.credit() == units(100));
  Firm less(2000, 626);
  less.short_for_six_hours();
  less.at(24h);
  CHECK(less.level().missed == 1);
}

TEST_CASE("guarantee: what is asked for beyond it, or is larger than what is left of it, is not counted") {
  Firm firm(1500);
  const JobId first = firm.want();
  firm.want(1000);
  CHECK(firm.level().account.wanted_milli == 1000);  // A whole one more does not fit into the half.
  CHECK(firm.level().account.missing_milli == 0);
  firm.want(500);
  CHECK(firm.level().account.wanted_milli == 1500);
  CHECK(firm.level().account.missing_milli == 500);
  firm.at(1h);
  firm.end(first);
  CHECK(firm.level().account.wanted_milli == 1500);
}

TEST_CASE("guarantee: a job that waits for its hours misses nothing before they come") {
  Firm firm(2000);
  firm.want();
  Ask ask = gpus(1);
  ask.window =
      wire::StartWindow{.from_minute = 240, .to_minute = 600, .zone = "UTC", .offsets = {{Instant{}, 0}}};
  firm.submit(firm.ana, ask);
  firm.settle();
  CHECK(firm.level().account.missing_milli == 0);
  firm.at(4h);
  CHECK(firm.level().account.missing_milli == 1000);
  firm.at(5h);
  CHECK(running_month(firm.state, firm.level()).guarantee == Delivery{{}, 6 * kDeviceHour, kDeviceHour});
}

TEST_CASE("guarantee: a shortage is at risk as long as it may last, and what is out of service at once") {
  Firm firm(2000, 400);
  const auto before = levels_at_risk(firm.state, firm.level(), 10);
  REQUIRE(before.size() == 1);  // Nobody asks yet, but two are guaranteed and one is there.
  CHECK(before.front().out_of_service);
  CHECK(before.front().missing_milli == 1000);
  firm.want();
  firm.want();
  firm.at(4h);
  const auto risks = levels_at_risk(firm.state, firm.level(), 10);
  REQUIRE(risks.size() == 2);
  const LevelRisk& shortage = risks.back();
  CHECK_FALSE(shortage.out_of_service);
  CHECK(shortage.missing_milli == 1000);
  CHECK(shortage.left == 48min);  // Of eight device-hours, 4.8 may be missed, and four are.
  firm.node("gpu-02", 1);
  firm.settle();
  CHECK(levels_at_risk(firm.state, firm.level(), 10).empty());
}

TEST_CASE("guarantee: each day of a long shortage is judged for itself, across a restart too") {
  Firm firm(2000);
  Firm again(2000);
  for (Firm* one : {&firm, &again}) {
    one->at(12h);
    one->want();
    one->want();
  }
  again.restart();
  for (Firm* one : {&firm, &again}) one->at(72h + 1h);
  CHECK(encode_state(firm.state) == encode_state(again.state));
  REQUIRE(firm.level().misses.size() == 3);
  CHECK(firm.level().misses[0].delivery == Delivery{{}, 24 * kDeviceHour, 12 * kDeviceHour});
  CHECK(firm.level().misses[1].delivery == Delivery{{}, 48 * kDeviceHour, 24 * kDeviceHour});
  CHECK(firm.level().misses[2].day == firm.midnight + 48h);
  CHECK(firm.level().credited == units(60));
  CHECK(running_month(firm.state, firm.level()).guarantee ==
        Delivery{{}, 122 * kDeviceHour, 61 * kDeviceHour});
}

TEST_CASE("guarantee: the last day of a month counts for that month, though it is judged in the next") {
  Firm firm(2000);
  const std::chrono::year_month_day today{std::chrono::floor<std::chrono::days>(firm.midnight)};
  const std::chrono::sys_days next = (today.year() / today.month() + std::chrono::months(1)) / 1;
  firm.midnight = next - std::chrono::days(1);
  firm.at(0h);
  firm.short_for_six_hours();
  firm.at(24h + 1h);
  CHECK(running_month(firm.state, firm.level()).month == next);
  CHECK(running_month(firm.state, firm.level()).missed == 0);
  CHECK(running_month(firm.state, firm.level()).credited == Money{});
  const LevelMonth before = month_before(firm.state, firm.level());
  CHECK(before.month == std::chrono::sys_days(today.year() / today.month() / 1));
  CHECK(before.missed == 1);
  CHECK(before.credited == units(6));
  CHECK(before.guarantee == Delivery{{}, 16 * kDeviceHour, 6 * kDeviceHour});
  // The first day of the next month is that month's, and leaves the other as it was.
  const JobId job = firm.want();
  firm.at(24h + 3h);
  CHECK(running_month(firm.state, firm.level()).guarantee == Delivery{{}, 2 * kDeviceHour, 0});
  firm.end(job);
  firm.at(48h);
  CHECK(running_month(firm.state, firm.level()).kept == 1);
  CHECK(running_month(firm.state, firm.level()).missed == 0);
  CHECK(month_before(firm.state, firm.level()).missed == 1);
}

TEST_CASE("guarantee: a month that turned before its last day was judged still gets it") {
  Firm firm(2000);
  const std::chrono::year_month_day today{std::chrono::floor<std::chrono::days>(firm.midnight)};
  const std::chrono::sys_days next = (today.year() / today.month() + std::chrono::months(1)) / 1;
  firm.midnight = next - std::chrono::days(2);
  firm.at(0h);
  firm.want();
  firm.want();
  firm.at(72h + 1h);  // Nobody looked for three days: two are of the month before, one is of this.
  CHECK(month_before(firm.state, firm.level()).missed == 2);
  CHECK(month_before(firm.state, firm.level()).guarantee == Delivery{{}, 96 * kDeviceHour, 48 * kDeviceHour});
  CHECK(running_month(firm.state, firm.level()).missed == 1);
  CHECK(running_month(firm.state, firm.level()).guarantee ==
        Delivery{{}, 50 * kDeviceHour, 25 * kDeviceHour});
}

TEST_CASE("guarantee: days on which nothing was asked for are neither kept nor missed") {
  Firm firm(2000);
  firm.short_for_six_hours();
  firm.at(10 * 24h);
  CHECK(firm.level().kept + firm.level().missed == 1);
  const JobId job = firm.want();
  firm.at(10 * 24h + 2h);
  firm.end(job);
  firm.at(11 * 24h);
  CHECK(firm.level().kept == 1);
  CHECK(firm.level().missed == 1);
}

TEST_CASE("guarantee: it is promised to tenants, and nobody gets more than all of it") {
  Firm firm(1000);
  const auto refused = firm.run(SetLevel{{firm.ana, "firm"}, {.guarantee_permille = 990}}, firm.root);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().fix.find("--guarantee 99%") != std::string::npos);
  CHECK_FALSE(firm.run(SetLevel{firm.key, {.guarantee_permille = 1001}}, firm.root));
}

}  // namespace
}  // namespace tranche::engine
