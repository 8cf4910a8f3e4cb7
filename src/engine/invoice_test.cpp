// SPDX-License-Identifier: Apache-2.0
#include "engine/invoice.hpp"

#include <doctest/doctest.h>

#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::hours;
using std::chrono::sys_days;

Instant utc(int year, unsigned month, unsigned day, Duration clock = {}) {
  return Instant{sys_days{std::chrono::year{year} / std::chrono::month{month} / std::chrono::day{day}}} +
         clock;
}

// Clocks of Madrid around the end of summer time in 2025: 26 October, 03:00 becomes 02:00.
const std::vector<wire::ZoneOffset> kMadrid{{Instant{}, 3600},
                                            {utc(2025, 3, 30, 1h), 7200},
                                            {utc(2025, 10, 26, 1h), 3600},
                                            {utc(2026, 3, 29, 1h), 7200}};

// Two tenants that pay afterwards; the first lives by Madrid's clocks.
struct Clocks : MarketWorld {
  std::uint64_t leases = 0;
  explicit Clocks(Instant start) : MarketWorld(0) {
    clock = start;
    for (const char* name : {"madrid", "utc"}) {
      tenants.push_back(create(PartyKind::kTenant, kPlatform, name));
      traders.push_back(user(tenants.back(), "ana"));
    }
    live_in(0, "Europe/Madrid", kMadrid);
    TRANCHE_CHECK(run(SetPriceList{{.name = "list", .rules = {{.name = "all", .gpu_hour = units(1)}}}}, root)
                      .has_value());
  }
  void live_in(std::size_t who, const std::string& zone, const std::vector<wire::ZoneOffset>& offsets) {
    TRANCHE_CHECK(
        run(ChangeParty{.id = tenants[who], .name = state.party(tenants[who])->name, .time_zone = zone}, root)
            .has_value());
    TRANCHE_CHECK(run(ResolveZone{zone, offsets}).has_value());
  }
  // An hour of a device until then, whole, for each of them.
  void use(std::vector<std::size_t> all, Instant until) {
    const std::uint64_t first = leases + 1;
    clock = std::max(clock, until - 1h);
    for (const std::size_t who : all) {
      const LeaseId lease{++leases};
      TRANCHE_CHECK(
          run(OpenMeter{
                  {.lease = lease, .job = {leases}, .party = traders[who], .model = "H100", .milli = 1000}})
              .has_value());
    }
    clock = until;
    for (std::uint64_t id = first; id <= leases; ++id) {
      TRANCHE_CHECK(
          run(RecordUsage{
                  {.lease = {id}, .epoch = 1, .sequence = 1, .device = {1}, .from = until - 1h, .to = until}})
              .has_value());
      TRANCHE_CHECK(run(CloseMeter{{id}, {}}).has_value());
    }
  }
  void use(std::size_t who, Instant until) { use(std::vector{who}, until); }
  Decision tick(Instant at) {
    clock = at;
    return run(Tick{});
  }
};

TEST_CASE("calendar: months, weeks and days begin at midnight of the zone, over changes of its clocks") {
  using wire::Period;
  const CalendarSpan october = span_around(kMadrid, Period::kMonth, utc(2025, 10, 10));
  CHECK(october == CalendarSpan{utc(2025, 9, 30, 22h), utc(2025, 10, 31, 23h)});
  CHECK(span_around(kMadrid, Period::kDay, utc(2025, 10, 26, 12h)) ==
        CalendarSpan{utc(2025, 10, 25, 22h), utc(2025, 10, 26, 23h)});  // 25 hours.
  CHECK(span_around(kMadrid, Period::kWeek, utc(2025, 10, 26, 12h)) ==
        CalendarSpan{utc(2025, 10, 19, 22h), utc(2025, 10, 26, 23h)});
  CHECK(span_around({}, Period::kMonth, utc(2025, 2, 28, 23h)) ==
        CalendarSpan{utc(2025, 2, 1), utc(2025, 3, 1)});
  // A zone whose clocks skip midnight: the day begins when they show the next time.
  const std::vector<wire::ZoneOffset> skips{{Instant{}, 0}, {utc(2025, 10, 5), 3600}};
  CHECK(span_around(skips, Period::kDay, utc(2025, 10, 5, 3h)).from == utc(2025, 10, 5));
  CHECK(span_around(skips, Period::kDay, utc(2025, 10, 4, 3h)).to == utc(2025, 10, 5));
  CHECK(month_named(october) == utc(2025, 10, 1));
}

TEST_CASE("invoice: a month ends by the clocks of its customer, and every hour is on one invoice") {
  Clocks world(utc(2025, 10, 30));
  for (Instant at = utc(2025, 10, 30, 1h); at <= utc(2025, 11, 2); at += 1h) {
    world.use({0, 1}, at);
    REQUIRE(world.run(Tick{}));
  }
  const wire::InvoiceView madrid = invoice(world.state, world.tenants[0], utc(2025, 10, 1));
  const wire::InvoiceView other = invoice(world.state, world.tenants[1], utc(2025, 10, 1));
  CHECK(madrid.final);
  CHECK(madrid.to == utc(2025, 10, 31, 23h));
  CHECK(madrid.total == units(47));  // The last of October in Madrid ends an hour before that of UTC.
  CHECK(madrid.time_zone == "Europe/Madrid");
  CHECK(other.total == units(48));
  CHECK(invoice(world.state, world.tenants[0], utc(2025, 11, 1)).total == units(25));
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 11, 1)).total == units(24));
  CHECK_FALSE(invoice(world.state, world.tenants[0], utc(2025, 11, 1)).final);
  const auto months = months_charged(world.state, world.tenants[0]);
  CHECK(months == std::vector<Instant>{utc(2025, 11, 1), utc(2025, 10, 1)});
}

TEST_CASE("invoice: it is issued by a tick alone, once, and what comes late is billed with the next") {
  Clocks world(utc(2025, 10, 20));
  world.use(1, utc(2025, 10, 20, 5h));
  const auto early = world.tick(utc(2025, 10, 31, 23h));
  REQUIRE(early);
  CHECK_FALSE(invoice(world.state, world.tenants[1], utc(2025, 10, 1)).final);
  // Nothing else happens on the platform: the server's clock says that the month is over.
  const auto due = world.tick(utc(2025, 11, 1, 1min));
  REQUIRE(due);
  const auto issued = std::count_if(due->begin(), due->end(), [](const Event& event) {
    return std::holds_alternative<InvoiceIssued>(event);
  });
  CHECK(issued == 1);
  const wire::InvoiceView bill = invoice(world.state, world.tenants[1], utc(2025, 10, 1));
  CHECK(bill.final);
  CHECK(bill.issued == utc(2025, 11, 1, 1min));
  CHECK(world.tick(utc(2025, 11, 1, 2min))->empty());  // And is not issued again.

  // A node that was cut off tells of October only now.
  REQUIRE(world.run(OpenMeter{{.lease = {90}, .job = {90}, .party = world.traders[1], .milli = 1000}}));
  world.state.meters.at({90}).metered_to = utc(2025, 10, 31, 20h);
  REQUIRE(world.run(RecordUsage{{.lease = {90},
                                 .epoch = 1,
                                 .sequence = 1,
                                 .from = utc(2025, 10, 31, 20h),
                                 .to = utc(2025, 10, 31, 22h)}}));
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 10, 1)).total == units(1));
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 11, 1)).total == units(2));
  world.tick(utc(2025, 12, 1, 1min));
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 11, 1)).final);
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 11, 1)).total == units(2));
}

TEST_CASE("invoice: months that a server slept through are issued one by one when it wakes") {
  Clocks world(utc(2025, 8, 10));
  world.use(1, utc(2025, 8, 10, 5h));
  world.use(1, utc(2025, 9, 10, 5h));
  world.use(1, utc(2025, 9, 11, 5h));
  world.tick(utc(2025, 11, 5));
  world.tick(utc(2025, 11, 5, 1min));
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 8, 1)).total == units(1));
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 8, 1)).final);
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 9, 1)).total == units(2));
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 9, 1)).final);
}

TEST_CASE("invoice: a customer that moves to another zone is billed for every hour once") {
  Clocks world(utc(2025, 9, 28));
  const std::vector<wire::ZoneOffset> tokyo{{Instant{}, 9 * 3600}};
  const std::vector<wire::ZoneOffset> honolulu{{Instant{}, -10 * 3600}};
  int hour = 0;
  for (Instant at = utc(2025, 9, 28, 1h); at <= utc(2026, 1, 3); at += 1h, ++hour) {
    if (hour == 100) world.live_in(0, "Asia/Tokyo", tokyo);
    if (hour == 900) world.live_in(0, "Pacific/Honolulu", honolulu);
    if (hour == 1600) world.live_in(0, "Asia/Tokyo", tokyo);
    world.use(0, at);
    REQUIRE(world.run(Tick{}));
  }
  Money billed{};
  Instant end{};
  for (const auto& [key, one] : world.state.invoices) {
    CHECK(one.document.from >= end);
    end = one.document.to;
    billed.micros += one.document.net.micros;
  }
  for (const Instant month : months_charged(world.state, world.tenants[0]))
    if (!world.state.invoices.contains({world.tenants[0], month}))
      billed.micros += invoice(world.state, world.tenants[0], month).net.micros;
  CHECK(billed == units(hour));
  CHECK(world.state.invoices.size() >= 3);
}

TEST_CASE("invoice: whoever has an account of its own is billed from then on, by what it paid itself") {
  Clocks world(utc(2025, 10, 10));
  const PartyId unit = world.create(PartyKind::kSubscriber, world.tenants[1], "lab");
  world.traders[1] = world.user(unit, "bo");
  world.use(1, utc(2025, 10, 10, 3h));
  REQUIRE(world.run(TopUp{unit, units(50), "", ""}, world.root));
  world.use(1, utc(2025, 10, 11, 3h));
  world.use(1, utc(2025, 10, 12, 3h));
  world.tick(utc(2025, 11, 1, 1h));
  CHECK(invoice(world.state, world.tenants[1], utc(2025, 10, 1)).total == units(1));
  const wire::InvoiceView own = invoice(world.state, unit, utc(2025, 10, 1));
  CHECK(own.total == units(2));
  CHECK(own.statement_of.empty());
  CHECK(own.due == Money{});
  const auto all = cost_report(
      world.state, world.tenants[1], wire::CostBy::kSubscriber, utc(2025, 10, 1), utc(2025, 11, 1));
  CHECK(all.total == units(3));
}

TEST_CASE("budget: limits count days, weeks and months by the clocks of the party that has them") {
  Clocks world(utc(2025, 10, 24));
  Quota quota;
  quota.spend = units(3);
  quota.period = wire::Period::kDay;
  REQUIRE(world.limit(world.tenants[0], quota));
  world.use(0, utc(2025, 10, 24, 10h));
  world.use(0, utc(2025, 10, 24, 12h));
  CHECK(spent(world.state, world.tenants[0], utc(2025, 10, 24, 21h)) == units(2));
  CHECK(spend_problem(world.state, world.traders[0], units(2)).has_value());
  CHECK(spend_problem(world.state, world.traders[0], units(2))->message.find("3.00 a day") !=
        std::string::npos);
  // 22:00 in UTC is midnight in Madrid: a tick says so, and whoever waits for money is looked at again.
  const auto turned = world.tick(utc(2025, 10, 24, 22h));
  REQUIRE_FALSE(turned->empty());
  CHECK(spent(world.state, world.tenants[0], world.clock) == Money{});
  CHECK_FALSE(spend_problem(world.state, world.traders[0], units(2)).has_value());
  world.use(0, utc(2025, 10, 25, 1h));
  quota.period = wire::Period::kWeek;
  REQUIRE(world.limit(world.tenants[0], quota));
  CHECK(spent(world.state, world.tenants[0], world.clock) == units(3));
  CHECK(spent(world.state, world.tenants[0], utc(2025, 10, 26, 23h)) == Money{});  // Monday.
}

TEST_CASE("tick: one at which nothing is due leaves no trace, but for one an hour") {
  Clocks world(utc(2025, 10, 24));
  world.use(0, utc(2025, 10, 24, 1h));
  CHECK(world.tick(world.clock + 1min)->empty());
  CHECK(world.tick(world.state.now + 59min)->empty());
  CHECK_FALSE(world.tick(world.state.now + 60min)->empty());
}

}  // namespace
}  // namespace tranche::engine
