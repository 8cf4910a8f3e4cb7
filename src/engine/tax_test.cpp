// SPDX-License-Identifier: Apache-2.0
#include "engine/tax.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/focus.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using std::chrono::days;
using std::chrono::hours;

// Tenants that use devices at 3.333333 an hour, from the first of a month on.
struct Taxed : MarketWorld {
  std::uint64_t leases = 0;
  Instant month{};

  explicit Taxed(Money credit = units(1000)) : MarketWorld(3, credit) {
    month = month_of(clock + days(32));
    clock = month + hours(1);
    TRANCHE_CHECK(
        run(SetPriceList{{.name = "list", .rules = {{.name = "all", .gpu_hour = {3'333'333}}}}}, root)
            .has_value());
  }
  void use(PartyId who, Duration length, const std::string& model = "H100") {
    const LeaseId lease{++leases};
    TRANCHE_CHECK(
        run(OpenMeter{{.lease = lease, .job = {leases}, .party = who, .model = model, .milli = 1000}})
            .has_value());
    const Instant start = clock;
    clock += length;
    TRANCHE_CHECK(
        run(RecordUsage{
                {.lease = lease, .epoch = 1, .sequence = 1, .device = {1}, .from = start, .to = clock}})
            .has_value());
    TRANCHE_CHECK(run(CloseMeter{lease, {}}).has_value());
  }
  Decision rate(const std::string& country, std::int64_t ppm, std::string region = "", Instant from = {}) {
    return run(SetTaxRate{{.country = country,
                           .region = std::move(region),
                           .name = "VAT",
                           .rate_ppm = ppm,
                           .valid_from = from == Instant{} ? std::nullopt : std::optional(from)}},
               root);
  }
  Decision profile(PartyId who, TaxProfile profile) {
    return run(SetTaxProfile{who, std::move(profile)}, root);
  }
  void month_ends() {
    clock = month_of(clock + days(32)) + hours(2);
    TRANCHE_CHECK(run(Tick{}).has_value());
  }
  wire::InvoiceView bill(std::size_t who) const { return invoice(state, tenants[who], month); }
  Money taxes() const { return balance(state.ledger, account(kPlatform, AccountKind::kTaxes)); }
  Money rounding() const { return balance(state.ledger, account(kPlatform, AccountKind::kRounding)); }
  Money sum_of_all_accounts() const {
    Money sum{};
    for (const std::uint64_t id : state.ledger.accounts.ids())
      sum.micros += state.ledger.accounts.find(id)->balance.micros;
    return sum;
  }
};

TEST_CASE("tax: whole cents, half to even, exact for any amount") {
  CHECK(tax_of(units(100), 210'000) == units(21));
  CHECK(tax_of({2'500'000}, 10'000) == Money{20'000});  // 2.5 cents: to the even one.
  CHECK(tax_of({3'500'000}, 10'000) == Money{40'000});  // 3.5 cents.
  CHECK(tax_of({-2'500'000}, 10'000) == Money{-20'000});
  CHECK(tax_of({10'000}, 88'750) == Money{});  // 0.08875 cents.
  CHECK(tax_of({INT64_MAX / 2}, 1'000'000).micros % 10'000 == 0);
  // Against another way to say it: the nearest cent, checked by its distance.
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    const Money base{static_cast<std::int64_t>(random.below(1'000'000'000'000)) - 500'000'000'000};
    const auto ppm = static_cast<std::int64_t>(random.below(1'000'001));
    const Int128 exact = Int128{base.micros} * ppm;  // Millionths of a micro-unit.
    const Int128 given = Int128{tax_of(base, ppm).micros} * 1'000'000;
    const Int128 off = given > exact ? given - exact : exact - given;
    CHECK(off <= Int128{5'000} * 1'000'000);
    CHECK(tax_of(base, ppm).micros % 10'000 == 0);
  }
}

TEST_CASE("tax: an invoice has the tax of its country, posted when it is issued, to the micro-unit") {
  Taxed world;
  REQUIRE(world.rate("ES", 210'000));
  REQUIRE(world.profile(world.tenants[0],
                        {.legal_name = "Acme SL", .address = "Madrid", .country = "ES", .number = "ESB1"}));
  world.use(world.traders[0], hours(10));                        // 33.333330
  world.use(world.traders[0], std::chrono::minutes(7), "A100");  // 0.388888
  world.use(world.traders[1], hours(1));                         // No profile, no tax.
  const Money credit = world.credit(0);
  const wire::InvoiceView running = world.bill(0);
  CHECK_FALSE(running.final);
  CHECK(running.tax == Money{7'080'000});  // 21 % of 33.72.
  CHECK(world.taxes() == Money{});
  world.month_ends();
  const wire::InvoiceView bill = world.bill(0);
  REQUIRE(bill.final);
  CHECK(bill.net == Money{33'720'000});
  REQUIRE(bill.taxes.size() == 1);
  CHECK(bill.taxes[0].base == bill.net);
  CHECK(bill.tax == Money{7'080'000});
  CHECK(bill.total == Money{40'800'000});
  CHECK(bill.rounding == Money{33'720'000 - 33'333'330 - 388'888});
  CHECK(bill.paid == bill.total);
  CHECK(bill.due == Money{});
  CHECK(bill.customer.legal_name == "Acme SL");
  CHECK(bill.lines[0].tax_ppm == 210'000);
  CHECK(world.taxes() == bill.tax);
  CHECK(world.rounding().micros == bill.rounding.micros + world.bill(1).rounding.micros);
  CHECK(world.credit(0).micros == credit.micros - bill.tax.micros - bill.rounding.micros);
  CHECK(world.bill(1).taxes.empty());
  CHECK(world.sum_of_all_accounts() == Money{});
  const wire::TaxReport report = tax_report(world.state, {}, world.clock + hours(1));
  REQUIRE(report.items.size() == 1);
  CHECK(report.items[0].base == bill.net);
  CHECK(report.to_pay == bill.tax);
  CHECK(report.account == bill.tax);

  const auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
  CHECK(encode_state(*copy) == encode_state(world.state));
  CHECK(invoice(*copy, world.tenants[0], world.month).total == bill.total);
}

TEST_CASE("tax: exempt, reverse charge, a rate of one's own, a region; and nobody without a number") {
  Taxed world;
  CHECK(world.profile(world.tenants[0], {.country = "ES"}).error().rule == "country");
  REQUIRE(world.rate("ES", 210'000));
  REQUIRE(world.rate("ES", 70'000, "Canarias"));
  CHECK(world.rate("es", 1).error().rule == "country");
  CHECK(world.rate("ES", 1'000'001).error().rule == "rate");
  const auto exempt = TaxTreatment::kExempt;
  CHECK(world.profile(world.tenants[0], {.country = "ES", .treatment = exempt}).error().rule == "number");
  REQUIRE(world.profile(world.tenants[0], {.country = "ES", .number = "EX-7", .treatment = exempt}));
  const TaxTerms none = tax_terms(world.state, world.traders[0], world.clock);  // Inherited from above.
  CHECK(none.rate_ppm == 0);
  CHECK(none.note == "Exempt from VAT, certificate EX-7");
  REQUIRE(world.profile(world.tenants[1], {.country = "ES", .region = "Canarias"}));
  CHECK(tax_terms(world.state, world.tenants[1], world.clock).rate_ppm == 70'000);
  REQUIRE(world.profile(world.tenants[1], {.country = "ES", .rate_ppm = 40'000, .rate_name = "reduced"}));
  CHECK(tax_terms(world.state, world.tenants[1], world.clock).rate_ppm == 40'000);
  CHECK(tax_terms(world.state, world.tenants[1], world.clock).name == "reduced");
  REQUIRE(world.profile(world.tenants[2],
                        {.country = "DE", .number = "DE9", .treatment = TaxTreatment::kReverseCharge}));
  world.use(world.traders[2], hours(3));
  world.month_ends();
  const wire::InvoiceView bill = world.bill(2);
  REQUIRE(bill.taxes.size() == 1);
  CHECK(bill.tax == Money{});
  CHECK(bill.taxes[0].note.find("accounted for by the customer, DE9") != std::string::npos);
  CHECK(world.run(SetTaxRate{{.country = "ES", .rate_ppm = 1}}, world.traders[0]).error().reason ==
        Reason::kForbidden);
  CHECK(world.run(SetTaxProfile{world.tenants[0], {}}, world.traders[0]).error().reason ==
        Reason::kForbidden);
}

TEST_CASE("tax: a rate that changes within a month splits its lines, and issued invoices stay") {
  Taxed world;
  REQUIRE(world.rate("ES", 210'000));
  REQUIRE(world.profile(world.tenants[0], {.country = "ES"}));
  const Instant change = world.month + days(10) + hours(13);
  REQUIRE(world.rate("ES", 100'000, "", change));
  world.use(world.traders[0], hours(3));  // 9.999999
  world.clock = change - hours(1);
  world.use(world.traders[0], hours(1));  // Ends as the new rate begins: 3.333333 under the old one.
  world.use(world.traders[0], hours(6));  // 19.999998
  world.month_ends();
  const wire::InvoiceView bill = world.bill(0);
  REQUIRE(bill.lines.size() == 2);
  REQUIRE(bill.taxes.size() == 2);
  CHECK(bill.lines[0].amount == units(20));
  CHECK(bill.lines[0].tax_ppm == 100'000);
  CHECK(bill.lines[1].amount == Money{13'330'000});
  CHECK(bill.tax == Money{2'000'000 + 2'800'000});
  CHECK(world.rate("ES", 0, "", world.month + days(3)).error().rule == "valid_from");

  // A note says which tax it takes back; of one line, that of the line.
  const auto credit = [&](Money amount, std::uint32_t line) {
    return world.run(CreditInvoice{world.tenants[0], world.month, amount, line, "slow"}, world.root);
  };
  CHECK(credit(units(1), 0).error().rule == "line");
  REQUIRE(credit(units(10), 2));
  CHECK(world.bill(0).credit_notes[0].tax == Money{2'100'000});
  REQUIRE(credit({3'330'000}, 2));  // The rest of the line: and the rest of its tax, to the cent.
  CHECK(world.bill(0).credit_notes[1].tax == Money{700'000});
  REQUIRE(credit(units(20), 1));
  CHECK(world.taxes() == Money{});
  CHECK(world.sum_of_all_accounts() == Money{});
  const wire::TaxReport report = tax_report(world.state, {}, world.clock + hours(1));
  CHECK(report.to_pay == Money{});
  CHECK(report.items.size() == 2);

  const Instant to = month_of(world.clock + days(32));
  const std::string csv = focus_csv(world.state, world.tenants[0], world.month, to);
  const auto payable = focus_payable(world.state, world.tenants[0], world.month, to);
  CHECK(payable.size() == 4);
  CHECK(focus_problems(csv, payable) == std::vector<std::string>{});
  CHECK(csv.find(",Tax,,\"VAT 21 %, ES\"") != std::string::npos);
  auto wrong = payable;
  wrong.begin()->second.micros += 10'000;
  CHECK(focus_problems(csv, wrong).size() == 1);
}

TEST_CASE("tax: what credit does not cover is owed, and never refused") {
  Taxed world(units(34));
  REQUIRE(world.rate("ES", 210'000));
  REQUIRE(world.profile(world.tenants[0], {.country = "ES"}));
  world.use(world.traders[0], hours(10));
  world.month_ends();
  const wire::InvoiceView bill = world.bill(0);
  CHECK(bill.total == Money{40'330'000});
  CHECK(world.credit(0) == Money{});
  CHECK(balance(world.state.ledger, world.account(world.tenants[0], AccountKind::kReceivable)) ==
        Money{-6'330'000});
  CHECK(bill.due == Money{6'330'000});
  CHECK(world.sum_of_all_accounts() == Money{});
  REQUIRE(world.run(TopUp{world.tenants[0], units(10), "", ""}, world.root));  // Pays what is owed first.
  CHECK(world.credit(0) == Money{3'670'000});
}

TEST_CASE(
    "tax: random months: taxes, rounding and revenue are what the invoices say, and all accounts zero") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Taxed world(units(100'000));
    REQUIRE(world.rate("ES", static_cast<std::int64_t>(random.below(300'000))));
    REQUIRE(world.profile(world.tenants[0], {.country = "ES"}));
    REQUIRE(world.profile(world.tenants[1], {.country = "ES", .rate_ppm = 88'750}));
    Money total{}, tax{}, rounding{}, credited{}, tax_credited{};
    for (int round = 0; round < 3; ++round) {
      world.month = month_of(world.clock);
      for (int i = 0; i < 8; ++i) {
        if (random.below(4) == 0) REQUIRE(world.rate("ES", static_cast<std::int64_t>(random.below(300'000))));
        world.use(world.traders[random.below(3)],
                  Duration(static_cast<std::int64_t>(random.below(200'000'000'000))),
                  random.below(2) == 0 ? "H100" : "A100");
      }
      world.month_ends();
      for (std::size_t who = 0; who < 3; ++who) {
        const wire::InvoiceView bill = world.bill(who);
        total.micros += bill.net.micros;
        tax.micros += bill.tax.micros;
        rounding.micros += bill.rounding.micros;
        for (std::uint32_t line = 1; line <= bill.lines.size(); ++line) {
          const Money amount{static_cast<std::int64_t>(random.below(20)) * 100'000};
          const auto note =
              world.run(CreditInvoice{world.tenants[who], world.month, amount, line, "test"}, world.root);
          if (!note) continue;
          const CreditNote& made = std::get<InvoiceCredited>(note->back()).note;
          credited.micros += made.amount.micros;
          tax_credited.micros += made.tax.micros;
        }
      }
    }
    CHECK(world.taxes().micros == tax.micros - tax_credited.micros);
    CHECK(world.rounding() == rounding);
    CHECK(balance(world.state.ledger, world.account(kPlatform, AccountKind::kRevenue)).micros ==
          total.micros - rounding.micros - credited.micros);
    CHECK(world.sum_of_all_accounts() == Money{});
    CHECK(tax_report(world.state, {}, world.clock + hours(1)).to_pay == world.taxes());
  }
}

}  // namespace
}  // namespace tranche::engine
