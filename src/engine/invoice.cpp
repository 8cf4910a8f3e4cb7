// SPDX-License-Identifier: Apache-2.0
// What an invoice says: its lines, in whole cents, and the taxes on them.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "engine/billing.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

// Costs that make one line: of one thing, under one tax.
struct LineKey {
  std::string what{};
  TaxTerms terms{};
  auto operator<=>(const LineKey&) const = default;
};
struct LineSum {
  Money cost{};
  Money credited{};
};
using Sums = std::map<LineKey, LineSum>;

constexpr std::string_view kExchange = "exchange";

std::string what_of(const CostLine& line) {
  if (line.key.source == CostSource::kFee) return "fees";
  if (line.key.volume != VolumeId{}) return "storage";
  return line.key.of_exchange() ? std::string(kExchange) : line.model;
}

std::string description_of(const std::string& what) {
  if (what == "fees") return "Fees on what was sold on the exchange";
  if (what == kExchange) return "Capacity bought on the exchange, paid to its sellers";
  if (what.empty()) return "Use of other devices";  // Whose model nobody knows.
  return what == "storage" ? "Storage kept in volumes" : "Use of " + what;
}

wire::InvoiceParty named(const TaxProfile* profile, std::string otherwise) {
  if (profile == nullptr) return {.legal_name = std::move(otherwise)};
  return {.legal_name = profile->legal_name.empty() ? std::move(otherwise) : profile->legal_name,
          .address = profile->address,
          .number = profile->number};
}

// The lines of a document, and what they add up to.
class Composer {
 public:
  explicit Composer(wire::InvoiceView& bill) : bill_(bill) {}

  void add(const std::string& description, const TaxTerms& terms, std::int64_t micros) {
    if (micros == 0) return;
    exact_ += micros;
    const Money amount{round_to_cents(micros)};
    bill_.net.micros += amount.micros;
    const std::uint32_t row = terms.from == PartyId{} ? 0 : row_of(terms);
    bill_.lines.push_back(
        {.description = description, .amount = amount, .tax_ppm = terms.rate_ppm, .tax = row});
    if (row > 0) bill_.taxes[row - 1].base.micros += amount.micros;
  }
  void add_third_party(const std::string& description, std::int64_t micros) {
    if (micros == 0) return;
    bill_.third_party.push_back({.description = description, .amount = {round_to_cents(micros)}});
    bill_.third_party_total.micros += bill_.third_party.back().amount.micros;
  }

  void close() {
    for (wire::InvoiceTax& tax : bill_.taxes) {
      tax.amount = tax_of(tax.base, tax.rate_ppm);
      bill_.tax.micros += tax.amount.micros;
    }
    bill_.rounding.micros = bill_.net.micros - exact_;
    bill_.total.micros = bill_.net.micros + bill_.tax.micros;
    bill_.due = bill_.total;
  }

 private:
  std::uint32_t row_of(const TaxTerms& terms) {
    const auto [at, fresh] = rows_.try_emplace(terms, static_cast<std::uint32_t>(bill_.taxes.size()) + 1);
    if (fresh)
      bill_.taxes.push_back({.country = terms.country,
                             .region = terms.region,
                             .name = terms.name,
                             .rate_ppm = terms.rate_ppm,
                             .treatment = terms.treatment,
                             .note = terms.note});
    return at->second;
  }

  wire::InvoiceView& bill_;
  std::map<TaxTerms, std::uint32_t> rows_;
  std::int64_t exact_ = 0;
};

void add_to(Sums& sums, const State& state, const CostLine& line, PartyId payer) {
  // What is paid to somebody else is his to tax.
  TaxTerms terms = line.key.of_exchange() ? TaxTerms{} : tax_terms(state, payer, line.key.day);
  LineSum& sum = sums[{what_of(line), std::move(terms)}];
  sum.cost.micros += line.amount.micros;
  sum.credited.micros += line.credited.micros;
}

wire::InvoiceView composed(const State& state, PartyId party, const CalendarSpan& period, const Sums& of) {
  const Instant last = std::min(period.to, std::max(state.now, period.from)) - Duration(1);
  wire::InvoiceView bill{.id = text(party) + "-" + text(invoice_month(state, party, period)).substr(0, 7),
                         .party = path_of(state, party),
                         .currency = state.settings.currency,
                         .time_zone = zone_of(state, party),
                         .from = period.from,
                         .to = period.to,
                         .issuer = named(tax_profile(state, kPlatform, last), "Tranche"),
                         .customer = named(tax_profile(state, party, last), path_of(state, party))};
  std::vector<std::pair<LineKey, LineSum>> sums(of.begin(), of.end());
  std::stable_sort(
      sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second.cost > b.second.cost; });
  Composer composer(bill);
  for (const auto& [key, sum] : sums) {
    if (key.what == kExchange) {
      composer.add_third_party(description_of(key.what), sum.cost.micros);
      composer.add_third_party("Refunds of the exchange", -sum.credited.micros);
      continue;
    }
    composer.add(description_of(key.what), key.terms, sum.cost.micros);
    composer.add("Credits and refunds, " + key.what, key.terms, -sum.credited.micros);
  }
  composer.close();
  return bill;
}

}  // namespace

std::int64_t round_to_cents(std::int64_t micros) {
  constexpr std::int64_t kCent = 10'000;
  const std::int64_t rest = ((micros % kCent) + kCent) % kCent;
  const std::int64_t down = micros - rest;
  if (rest * 2 < kCent) return down;
  if (rest * 2 > kCent) return down + kCent;
  return (down / kCent) % 2 == 0 ? down : down + kCent;
}

Instant invoice_month(const State& state, PartyId party, const CalendarSpan& period) {
  return month_named(span_around(state, party, wire::Period::kMonth, period.to - Duration(1)));
}

std::map<PartyId, wire::InvoiceView> invoices_of(const State& state,
                                                 const std::map<PartyId, CalendarSpan>& periods) {
  std::map<PartyId, Sums> sums;
  CalendarSpan all{Instant::max(), Instant{}};
  for (const auto& [payer, period] : periods) {
    all = {std::min(all.from, period.from), std::max(all.to, period.to)};
    sums[payer];
  }
  const auto end = state.costs.lower_bound(CostKey{.day = all.to});
  for (auto at = state.costs.lower_bound(CostKey{.day = all.from}); at != end; ++at) {
    const CostLine& line = at->second;
    const PartyId payer = billed_to(state, line.key);
    const auto period = periods.find(payer);
    if (period == periods.end() || line.key.day < period->second.from || line.key.day >= period->second.to)
      continue;
    add_to(sums[payer], state, line, payer);
  }
  std::map<PartyId, wire::InvoiceView> bills;
  for (const auto& [payer, period] : periods)
    bills.emplace(payer, composed(state, payer, period, sums[payer]));
  return bills;
}

wire::InvoiceView statement_of(const State& state, PartyId party, const CalendarSpan& period) {
  Sums sums;
  std::set<PartyId> payers;
  const auto end = state.costs.lower_bound(CostKey{.day = period.to});
  for (auto at = state.costs.lower_bound(CostKey{.day = period.from}); at != end; ++at) {
    if (!is_at_or_below(state, at->first.party, party)) continue;
    const PartyId payer = billed_to(state, at->first);
    payers.insert(payer);
    add_to(sums, state, at->second, payer);
  }
  if (payers.empty()) payers.insert(payer_of(state, party));
  wire::InvoiceView bill = composed(state, party, period, sums);
  bill.final = state.now >= period.to;
  for (const PartyId payer : payers)
    bill.statement_of += (bill.statement_of.empty() ? "" : ", ") + path_of(state, payer);
  return bill;
}

wire::TaxReport tax_report(const State& state, Instant from, Instant to) {
  wire::TaxReport report{.currency = state.settings.currency, .from = from, .to = to};
  std::map<TaxTerms, wire::TaxReportRow> rows;
  const auto row_of = [&](const wire::InvoiceTax& tax) -> wire::TaxReportRow& {
    wire::TaxReportRow& row = rows[TaxTerms{.country = tax.country,
                                            .region = tax.region,
                                            .name = tax.name,
                                            .rate_ppm = tax.rate_ppm,
                                            .treatment = tax.treatment}];
    row.country = tax.country;
    row.region = tax.region;
    row.name = tax.name;
    row.rate_ppm = tax.rate_ppm;
    row.treatment = tax.treatment;
    return row;
  };
  const auto inside = [&](Instant at) { return at >= from && at < to; };
  for (const auto& [key, one] : state.invoices) {
    if (!inside(*one.document.issued)) continue;
    for (const wire::InvoiceTax& tax : one.document.taxes) {
      wire::TaxReportRow& row = row_of(tax);
      row.base.micros += tax.base.micros;
      row.tax.micros += tax.amount.micros;
      ++row.invoices;
    }
  }
  for (const auto& [key, note] : state.credit_notes) {
    const auto bill = state.invoices.find({key.party, key.month});
    if (!inside(note.at) || note.tax_row == 0 || bill == state.invoices.end()) continue;
    wire::TaxReportRow& row = row_of(bill->second.document.taxes[note.tax_row - 1]);
    row.credited.micros += note.amount.micros;
    row.tax_credited.micros += note.tax.micros;
  }
  for (auto& [terms, row] : rows) {
    report.to_pay.micros += row.tax.micros - row.tax_credited.micros;
    report.items.push_back(std::move(row));
  }
  report.account = balance(state.ledger, AccountId::make(kPlatform, AccountKind::kTaxes, currency_of(state)));
  return report;
}

}  // namespace tranche::engine
