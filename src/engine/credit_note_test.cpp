// SPDX-License-Identifier: Apache-2.0
#include "engine/credit_note.hpp"

#include <doctest/doctest.h>

#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/focus.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

// Ten hours of a device at 2.50, used in a unit of the first tenant during December.
struct Billed : MarketWorld {
  PartyId unit = create(PartyKind::kSubscriber, tenants[0], "research");
  PartyId ana = user(unit, "ana");
  Instant from = month_of(clock);
  Instant to = month_of(from + days(32));

  explicit Billed(Money credit = units(100)) : MarketWorld(2, credit) {
    const PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = {2'500'000}}}};
    TRANCHE_CHECK(run(SetPriceList{list}, root).has_value());
    use({1}, {4}, "H100");
    use({2}, {5}, "A100");
  }
  void use(LeaseId lease, JobId job, const std::string& model) {
    TRANCHE_CHECK(run(OpenMeter{{.lease = lease, .job = job, .party = ana, .model = model, .milli = 1000}})
                      .has_value());
    const Instant start = clock;
    clock += hours(job.value == 4 ? 8 : 2);
    TRANCHE_CHECK(
        run(RecordUsage{
                {.lease = lease, .epoch = 1, .sequence = 1, .device = {1}, .from = start, .to = clock}})
            .has_value());
    TRANCHE_CHECK(run(CloseMeter{lease, {}}).has_value());
  }
  void month_ends() {
    clock = to + hours(30);
    TRANCHE_CHECK(run(Tick{}).has_value());
  }
  Decision credit_back(Money amount, std::uint32_t line = 0, PartyId who = {}, PartyId of = {}) {
    return run(CreditInvoice{.party = of == PartyId{} ? tenants[0] : of,
                             .month = from,
                             .amount = amount,
                             .line = line,
                             .reason = "charged twice"},
               who == PartyId{} ? root : who);
  }
  wire::InvoiceView bill() const { return invoice(state, tenants[0], from); }
  Money sum_of_all_accounts() const {
    Money sum{};
    for (const std::uint64_t id : state.ledger.accounts.ids())
      sum.micros += state.ledger.accounts.find(id)->balance.micros;
    return sum;
  }
};

TEST_CASE("credit note: an issued invoice is corrected by numbered notes, and itself stays as it is") {
  Billed world;
  world.month_ends();
  const wire::InvoiceView before = world.bill();
  REQUIRE(before.total == units(25));
  const Money credit = world.credit(0);
  REQUIRE(world.credit_back({12'500'000}));
  REQUIRE(world.credit_back({2'000'000}, 2));
  const wire::InvoiceView after = world.bill();
  CHECK(after.total == before.total);
  REQUIRE(after.lines.size() == 2);
  CHECK(after.lines[0].amount == before.lines[0].amount);
  REQUIRE(after.credit_notes.size() == 2);
  CHECK(after.credit_notes[0].id == before.id + "-C1");
  CHECK(after.credit_notes[1].id == before.id + "-C2");
  CHECK(after.credit_notes[1].description == "Use of A100");
  CHECK(after.credited == Money{14'500'000});
  CHECK(after.paid == units(25));  // From credit, before; so the notes went back to it, and nothing is due.
  CHECK(after.due == Money{});
  CHECK(world.credit(0).micros == credit.micros + 14'500'000);
  CHECK(world.sum_of_all_accounts() == Money{});
  const Posting& entry = world.state.ledger.postings.rbegin()->second;
  CHECK(entry.reference == before.id + "-C2");
  CHECK(entry.memo.find("charged twice") != std::string::npos);

  const auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
  CHECK(copy->credit_notes.size() == 2);
  CHECK(invoice(*copy, world.tenants[0], world.from).credited == after.credited);
}

TEST_CASE("credit note: it is never more than the invoice, or its line, less what was credited before") {
  Billed world;
  CHECK(world.credit_back(units(1)).error().rule == "issued");
  world.month_ends();
  CHECK(world.credit_back(units(0)).error().rule == "amount");
  CHECK(world.credit_back({12'345'678}).error().rule == "amount");
  CHECK(world.credit_back(units(1), 3).error().rule == "line");
  CHECK(world.credit_back(units(1), 3).error().fix.starts_with("give a line from 1 to 2"));
  const auto line = world.credit_back({5'010'000}, 2);
  CHECK(line.error().rule == "line");
  CHECK(line.error().fix == "credit at most 5.00");
  REQUIRE(world.credit_back(units(20)));
  const auto total = world.credit_back({5'010'000});
  CHECK(total.error().rule == "total");
  CHECK(total.error().fix == "credit at most 5.00");
  CHECK(total.error().limit == 25'000'000);
  CHECK(total.error().used == 20'000'000);
  REQUIRE(world.credit_back(units(5)));
  CHECK(world.credit_back({10'000}).error().fix == "nothing is left to be credited");
  Decision silent = world.run(
      CreditInvoice{.party = world.tenants[0], .month = world.from, .amount = units(1)}, world.root);
  CHECK(silent.error().rule == "reason");
}

TEST_CASE(
    "credit note: a unit that its tenant pays for has a statement, and what is credited is the invoice") {
  Billed world;
  world.month_ends();
  const wire::InvoiceView statement = invoice(world.state, world.unit, world.from);
  CHECK(statement.statement_of == "tenant0");
  CHECK(statement.total == world.bill().total);
  const auto refused = world.credit_back(units(20), 0, {}, world.unit);
  CHECK(refused.error().rule == "payer");
  CHECK(refused.error().message.find("tenant0") != std::string::npos);
  CHECK(world.credit_back(units(20)));
}

TEST_CASE("credit note: only the platform's owner and its billing make them; strangers learn nothing") {
  Billed world;
  world.month_ends();
  const PartyId clerk = world.user(kPlatform, "clerk", {Role::kBilling});
  const PartyId own_clerk = world.user(world.tenants[0], "accounts", {Role::kBilling});
  CHECK(world.credit_back(units(1), 0, clerk).has_value());
  CHECK(world.credit_back(units(1), 0, own_clerk).error().reason == Reason::kForbidden);
  CHECK(world.credit_back(units(1), 0, world.traders[0]).error().reason == Reason::kForbidden);
  CHECK(world.credit_back(units(1), 0, world.traders[1]).error().reason == Reason::kNotFound);
}

TEST_CASE("credit note: whoever pays by invoice owes that much less") {
  Billed world;
  const PartyId late = world.create(PartyKind::kTenant, kPlatform, "late");
  const PartyId bob = world.user(late, "bob");
  REQUIRE(world.run(OpenMeter{{.lease = {9}, .job = {9}, .party = bob, .model = "H100", .milli = 1000}}));
  const Instant start = world.clock;
  world.clock += hours(4);
  REQUIRE(world.run(RecordUsage{
      {.lease = {9}, .epoch = 1, .sequence = 1, .device = {1}, .from = start, .to = world.clock}}));
  REQUIRE(world.run(CloseMeter{{9}, {}}));
  world.month_ends();
  const AccountId owing = world.account(late, AccountKind::kReceivable);
  REQUIRE(balance(world.state.ledger, owing) == units(-10));
  CHECK(invoice(world.state, late, world.from).due == units(10));
  REQUIRE(world.credit_back(units(3), 0, {}, late));
  CHECK(balance(world.state.ledger, owing) == units(-7));
  CHECK(invoice(world.state, late, world.from).due == units(7));
}

TEST_CASE("credit note: it counts among the costs of the month in which it was made, and on no invoice") {
  Billed world;
  world.month_ends();
  REQUIRE(world.credit_back(units(3)));
  const Instant next = month_of(world.to + days(32));
  for (const wire::CostBy by : {wire::CostBy::kTenant, wire::CostBy::kJob, wire::CostBy::kDay}) {
    const wire::CostReport report = cost_report(world.state, world.tenants[0], by, world.to, next);
    CHECK(report.total == units(-3));
    REQUIRE(report.items.size() == 1);
    CHECK(report.items[0].credited == units(3));
  }
  CHECK(cost_report(world.state, world.tenants[0], wire::CostBy::kJob, world.from, world.to).total ==
        units(25));
  CHECK(invoice(world.state, world.tenants[0], world.to).lines.empty());
  CHECK(cost_report(world.state, world.tenants[1], wire::CostBy::kJob, world.to, next).items.empty());

  const std::string csv = focus_csv(world.state, world.tenants[0], world.to, next);
  CHECK(focus_problems(csv) == std::vector<std::string>{});
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 2);  // Header and the note.
  CHECK(csv.find("-3.00,") != std::string::npos);
  CHECK(csv.find(",Credit,Correction,") != std::string::npos);
  CHECK(csv.find("charged twice") != std::string::npos);
}

}  // namespace
}  // namespace tranche::engine
