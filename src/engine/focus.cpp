// SPDX-License-Identifier: Apache-2.0
#include "engine/focus.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.hpp"
#include "base/text.hpp"
#include "engine/billing.hpp"
#include "engine/contract_costs.hpp"
#include "engine/focus_cells.hpp"
#include "engine/spend.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

// Columns of 1.2 first, then those that 1.3 adds for costs that are shared out and for who provides what.
constexpr std::array<std::string_view, 46> kHeader{"BilledCost",
                                                   "BillingAccountId",
                                                   "BillingAccountName",
                                                   "BillingAccountType",
                                                   "BillingCurrency",
                                                   "BillingPeriodEnd",
                                                   "BillingPeriodStart",
                                                   "CapacityReservationId",
                                                   "CapacityReservationStatus",
                                                   "ChargeCategory",
                                                   "ChargeClass",
                                                   "ChargeDescription",
                                                   "ChargeFrequency",
                                                   "ChargePeriodEnd",
                                                   "ChargePeriodStart",
                                                   "ConsumedQuantity",
                                                   "ConsumedUnit",
                                                   "ContractedCost",
                                                   "EffectiveCost",
                                                   "InvoiceId",
                                                   "InvoiceIssuerName",
                                                   "ListCost",
                                                   "PricingCategory",
                                                   "PricingQuantity",
                                                   "PricingUnit",
                                                   "ProviderName",
                                                   "PublisherName",
                                                   "ResourceId",
                                                   "ResourceName",
                                                   "ResourceType",
                                                   "ServiceCategory",
                                                   "ServiceName",
                                                   "ServiceSubcategory",
                                                   "SkuId",
                                                   "SubAccountId",
                                                   "SubAccountName",
                                                   "SubAccountType",
                                                   "Tags",
                                                   "AllocatedMethodDetails",
                                                   "AllocatedMethodId",
                                                   "AllocatedResourceId",
                                                   "AllocatedResourceName",
                                                   "AllocatedTags",
                                                   "ContractApplied",
                                                   "HostProviderName",
                                                   "ServiceProviderName"};

constexpr std::string_view kSeller = "Seller on the exchange";  // Counterparties are not named.

// Of the device time that a job used: in proportion to what it held of bought capacity.
std::int64_t used_of_bought(const CostLine& line) {
  const Int128 held = Int128{line.allocated} + line.bought_time;
  return held <= 0 ? 0 : static_cast<std::int64_t>(Int128{line.used} * line.bought_time / held);
}

struct Bill {  // Which one a row stands on, or will.
  PartyId payer{};
  CalendarSpan period{};
  std::string invoice{};  // Empty: it is not issued yet.
};

class Table {
 public:
  explicit Table(const State& state) : state_(state) {
    for (std::size_t i = 0; i < kHeader.size(); ++i) (out_ += i > 0 ? "," : "") += kHeader[i];
    out_ += '\n';
  }

  void add_line(const CostLine& line) {
    const Bill bill = bill_of(line.key);
    if (line.amount != Money{}) add_cost(line, bill, line.amount, false);
    if (line.credited != Money{}) add_cost(line, bill, {-line.credited.micros}, true);
    const Money bought{line.bought.micros + line.delivered.micros};
    if (bought != Money{}) add_bought(line, bill, bought);
  }

  // What makes the rows of an invoice add up to what is to be paid: whole cents, and taxes.
  void add_invoice(const Invoice& one) {
    const wire::InvoiceView& document = one.document;
    const Bill bill{one.key.party, {document.from, document.to}, document.id};
    if (document.rounding != Money{}) {
      begin(bill, one.key.party, document.rounding, "Adjustment", "Rounding of lines to whole cents");
      of_service("Other", "Billing", "Other (Other)");
      set("ChargeFrequency", "One-Time");
      end();
    }
    for (const wire::InvoiceTax& tax : document.taxes)
      if (tax.amount != Money{}) add_tax(bill, tax, tax.amount, "");
  }

  // Billed in the month in which it was made, for the period of the invoice that it corrects.
  void add_note(const CreditNote& note) {
    const CalendarSpan made = span_around(state_, note.key.party, wire::Period::kMonth, note.at);
    const Bill bill{note.key.party, made, note.id()};
    begin(bill,
          note.key.party,
          {-note.amount.micros},
          "Credit",
          "Credit note " + note.id() + ": " + note.reason);
    set("ChargeClass", "Correction");
    set("ChargeFrequency", "One-Time");
    during({note.from, note.to});
    of_service("Compute", "GPU capacity", "Other (Compute)");
    end();
    const auto corrected = state_.invoices.find({note.key.party, note.key.month});
    if (note.tax == Money{} || note.tax_row == 0 || corrected == state_.invoices.end()) return;
    add_tax(bill,
            corrected->second.document.taxes[note.tax_row - 1],
            {-note.tax.micros},
            "Correction",
            CalendarSpan{note.from, note.to});
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void set(std::string_view name, std::string value) {
    const auto column = std::find(kHeader.begin(), kHeader.end(), name);
    TRANCHE_CHECK(column != kHeader.end());
    cells_[static_cast<std::size_t>(column - kHeader.begin())] = std::move(value);
  }

  // What every row says. Its period is that of the bill, unless during() says another.
  void begin(const Bill& bill, PartyId party, Money amount, const char* category, std::string description) {
    cells_ = {};
    for (const std::string_view cost : {"BilledCost", "ContractedCost", "EffectiveCost", "ListCost"})
      set(cost, text(amount));
    set("BillingAccountId", text(bill.payer));
    set("BillingAccountName", path_of(state_, bill.payer));
    set("BillingAccountType", kind_cell(bill.payer));
    set("BillingCurrency", state_.settings.currency);
    set("BillingPeriodStart", instant_cell(bill.period.from));
    set("BillingPeriodEnd", instant_cell(bill.period.to));
    set("InvoiceId", bill.invoice);
    set("ChargeCategory", category);
    set("ChargeDescription", std::move(description));
    set("SubAccountId", text(party));
    set("SubAccountName", path_of(state_, party));
    set("SubAccountType", kind_cell(party));
    for (const std::string_view name :
         {"InvoiceIssuerName", "ProviderName", "PublisherName", "HostProviderName", "ServiceProviderName"})
      set(name, issuer());
    during(bill.period);
  }
  void during(const CalendarSpan& span) {
    set("ChargePeriodStart", instant_cell(span.from));
    set("ChargePeriodEnd", instant_cell(span.to));
  }
  void of_service(const char* category, const char* name, const char* subcategory) {
    set("ServiceCategory", category);
    set("ServiceName", name);
    set("ServiceSubcategory", subcategory);
  }
  void end() {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (i > 0) out_ += ',';
      append_cell(out_, cells_[i]);
    }
    out_ += '\n';
  }

  void add_cost(const CostLine& line, const Bill& bill, Money amount, bool credit) {
    const CostKey& key = line.key;
    const bool exchange = key.of_exchange();
    const bool fee = key.source == CostSource::kFee;
    const bool volume = key.volume != VolumeId{};
    begin(bill,
          key.party,
          amount,
          credit     ? "Credit"
          : exchange ? "Purchase"
                     : "Usage",
          credit     ? "Credits and refunds"
          : exchange ? "Capacity bought on the exchange"
          : fee      ? "Fee on what was sold on the exchange"
          : volume   ? "Storage kept in a volume"
                     : "GPU time");
    during({key.day, std::chrono::floor<std::chrono::days>(key.day) + std::chrono::days(1)});
    set("ChargeFrequency", exchange ? "One-Time" : "Usage-Based");
    set("PricingCategory", exchange ? "Dynamic" : "Standard");
    of_service("Compute", "GPU capacity", "Other (Compute)");
    if (fee) of_service("Other", "Exchange", "Other (Other)");
    if (volume) of_service("Storage", "Volumes", "Other (Storage)");
    set("SkuId", fee ? "exchange-fee" : volume ? "storage" : exchange ? "exchange" : line.model);
    if (exchange) paid_to_seller();
    // It pays for hours to come: what they are worth stands with them.
    if (exchange && line.as_delivered) set("EffectiveCost", "0.00");
    if (exchange && line.as_delivered && !credit) set("CapacityReservationId", reservation(bill));
    if (volume) of_resource(text(key.volume), "Volume", name_of(key.volume));
    if (!exchange && !fee && !volume) of_job(line, credit);
    if (!credit) add_quantities(line);
    end();
  }

  void add_quantities(const CostLine& line) {
    if (line.key.volume != VolumeId{}) {
      const std::string kept = gib_hours_cell(line.kept);
      quantities(kept, "GiB-Hours", kept);
    } else if (line.key.source == CostSource::kFee) {
      quantities("1", "Fees", "1");
    } else if (line.key.of_exchange()) {
      quantities(gpu_hours_cell(line.allocated), "GPU-Hours", "");
    } else {
      quantities(
          gpu_hours_cell(line.allocated), "GPU-Hours", gpu_hours_cell(line.used - used_of_bought(line)));
    }
  }
  void quantities(std::string priced, const char* unit, std::string consumed) {
    set("PricingQuantity", std::move(priced));
    set("PricingUnit", unit);
    if (consumed.empty()) return;
    set("ConsumedQuantity", std::move(consumed));
    set("ConsumedUnit", unit);
  }

  // Hours of bought capacity as they are delivered: what a job held of them, or what nobody held. Their price
  // was paid with the purchase, and is split here.
  void add_bought(const CostLine& line, const Bill& bill, Money worth) {
    const CostKey& key = line.key;
    const bool held = !key.of_exchange();
    begin(
        bill,
        key.party,
        Money{},
        "Usage",
        held ? "GPU time in capacity bought on the exchange" : "Bought on the exchange, and held by no job");
    set("EffectiveCost", text(worth));
    during({key.day, std::chrono::floor<std::chrono::days>(key.day) + std::chrono::days(1)});
    set("ChargeFrequency", "Usage-Based");
    set("PricingCategory", "Dynamic");
    of_service("Compute", "GPU capacity", "Other (Compute)");
    set("SkuId", "exchange");
    paid_to_seller();
    set("CapacityReservationId", reservation(bill));
    set("CapacityReservationStatus", held ? "Used" : "Unused");
    if (held) of_job(line, false);
    set("AllocatedMethodDetails", R"({"basis":"thousandths held of what was bought, times seconds"})");
    set("AllocatedMethodId", "held-of-bought-capacity");
    quantities(gpu_hours_cell(line.bought_time),
               "GPU-Hours",
               held ? gpu_hours_cell(used_of_bought(line)) : gpu_hours_cell(0));
    end();
  }
  // All that a payer bought is one reservation: its jobs use what fits, and know no contract.
  static std::string reservation(const Bill& bill) { return "exchange/" + text(bill.payer); }

  // A third party is paid: it is on no invoice of ours, so nothing of it is billed by us.
  void paid_to_seller() {
    set("BilledCost", "0.00");
    set("InvoiceId", "");
    for (const std::string_view name : {"InvoiceIssuerName", "PublisherName", "HostProviderName"})
      set(name, std::string(kSeller));
    set("ContractApplied", R"({"contract":"bought on the exchange"})");
  }
  void of_resource(std::string id, const char* type, std::string name) {
    set("ResourceId", std::move(id));
    set("ResourceName", std::move(name));
    set("ResourceType", type);
  }
  std::string name_of(VolumeId id) const {
    const auto found = state_.volumes.find(id);
    return found == state_.volumes.end() ? "" : found->second.name;
  }
  void of_job(const CostLine& line, bool credit) {
    const std::string tags = labels_cell(line.labels);
    const Job* job = state_.job(line.key.job);
    of_resource(text(line.key.job), "Job", job == nullptr ? "" : job->name);
    set("Tags", tags);
    if (credit) return;
    set("AllocatedMethodDetails", R"({"basis":"thousandths of the device times seconds"})");
    set("AllocatedMethodId", "allocated-gpu-time");
    set("AllocatedResourceId", text(line.key.job));
    set("AllocatedResourceName", job == nullptr ? "" : job->name);
    set("AllocatedTags", tags);
  }

  void add_tax(const Bill& bill,
               const wire::InvoiceTax& tax,
               Money amount,
               const char* charge_class,
               std::optional<CalendarSpan> span = {}) {
    begin(bill, bill.payer, amount, "Tax", tax.name + " " + percent_text(tax.rate_ppm) + ", " + tax.country);
    set("ChargeClass", charge_class);
    set("ChargeFrequency", "One-Time");
    if (span) during(*span);
    of_service("Other", "Taxes", "Other (Other)");
    end();
  }

  [[nodiscard]] std::string issuer() const {
    const TaxProfile* profile = tax_profile(state_, kPlatform, state_.now);
    return profile == nullptr || profile->legal_name.empty() ? "Tranche" : profile->legal_name;
  }

  Bill bill_of(const CostKey& key) {
    const PartyId payer = billed_to(state_, key);
    Bill& known = bills_[payer];
    if (known.payer == payer && key.day >= known.period.from && key.day < known.period.to) return known;
    known = {.payer = payer};
    for (auto at = state_.invoices.lower_bound({payer, {}});
         at != state_.invoices.end() && at->first.party == payer;
         ++at) {
      const wire::InvoiceView& document = at->second.document;
      if (key.day >= document.from && key.day < document.to)
        known = {payer, {document.from, document.to}, document.id};
    }
    if (known.invoice.empty()) known.period = span_around(state_, payer, wire::Period::kMonth, key.day);
    return known;
  }

  const State& state_;
  std::string out_;
  std::array<std::string, kHeader.size()> cells_;
  std::map<PartyId, Bill> bills_;  // The last one of each: days come in order.
};

bool is_about(const State& state, const Invoice& one, PartyId party, Instant from, Instant to) {
  return one.document.from >= from && one.document.from < to && is_at_or_below(state, one.key.party, party);
}

// What bought capacity delivered since it was settled last.
std::map<CostKey, CostLine> unsettled_lines(const State& state, PartyId party, Instant from, Instant to) {
  std::map<CostKey, CostLine> lines;
  each_uncounted(state, [&](const CostKey& key, std::int64_t time, Money worth) {
    if (key.day < from || key.day >= to || !is_at_or_below(state, key.party, party)) return;
    CostLine& line = lines[key];
    line.key = key;
    line.as_delivered = true;
    line.bought_time += time;
    line.delivered.micros += worth.micros;
  });
  return lines;
}

}  // namespace

std::string focus_csv(const State& state, PartyId party, Instant from, Instant to) {
  Table table(state);
  to = std::max(from, to);  // Else the end would be behind the beginning.
  auto unsettled = unsettled_lines(state, party, from, to);
  const auto end = state.costs.lower_bound(CostKey{.day = to});
  for (auto at = state.costs.lower_bound(CostKey{.day = from}); at != end; ++at) {
    if (!is_at_or_below(state, at->first.party, party)) continue;
    const auto more = unsettled.find(at->first);
    if (more == unsettled.end()) {
      table.add_line(at->second);
      continue;
    }
    CostLine line = at->second;
    line.delivered.micros += more->second.delivered.micros;
    line.bought_time += more->second.bought_time;
    table.add_line(line);
    unsettled.erase(more);
  }
  for (const auto& [key, line] : unsettled) table.add_line(line);
  for (const auto& [key, one] : state.invoices)
    if (is_about(state, one, party, from, to)) table.add_invoice(one);
  for (const auto& [key, note] : state.credit_notes)
    if (note.at >= from && note.at < to && is_at_or_below(state, key.party, party)) table.add_note(note);
  return table.take();
}

std::map<std::string, Money> focus_payable(const State& state, PartyId party, Instant from, Instant to) {
  std::map<std::string, Money> payable;
  for (const auto& [key, one] : state.invoices)
    if (is_about(state, one, party, from, to) && one.document.to <= to)
      payable[one.document.id] = one.document.total;
  for (const auto& [key, note] : state.credit_notes)
    if (note.at >= from && note.at < to && is_at_or_below(state, key.party, party))
      payable[note.id()] = {-note.amount.micros - note.tax.micros};
  return payable;
}

}  // namespace tranche::engine
