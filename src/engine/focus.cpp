// SPDX-License-Identifier: Apache-2.0
#include "engine/focus.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "engine/spend.hpp"
#include "wire/fields.hpp"
#include "wire/json_writer.hpp"

namespace tranche::engine {
namespace {

// Columns of 1.2 first, then those that 1.3 adds for costs that are shared out and for who provides what.
constexpr std::array<std::string_view, 40> kHeader{"BilledCost",
                                                   "BillingAccountId",
                                                   "BillingAccountName",
                                                   "BillingCurrency",
                                                   "BillingPeriodEnd",
                                                   "BillingPeriodStart",
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
                                                   "InvoiceIssuerName",
                                                   "ListCost",
                                                   "PricingCategory",
                                                   "PricingQuantity",
                                                   "PricingUnit",
                                                   "ProviderName",
                                                   "PublisherName",
                                                   "ResourceId",
                                                   "ResourceType",
                                                   "ServiceCategory",
                                                   "ServiceName",
                                                   "ServiceSubcategory",
                                                   "SkuId",
                                                   "SubAccountId",
                                                   "SubAccountName",
                                                   "Tags",
                                                   "AllocatedMethodDetails",
                                                   "AllocatedMethodId",
                                                   "AllocatedResourceId",
                                                   "AllocatedResourceName",
                                                   "AllocatedTags",
                                                   "ContractApplied",
                                                   "HostProviderName",
                                                   "ServiceProviderName"};

std::string date(Instant at) {
  std::string out;
  append_text(out, std::chrono::floor<std::chrono::seconds>(at));
  const auto point = out.find('.');
  return point == std::string::npos ? out : out.substr(0, point) + "Z";
}

std::string decimal(Money amount) {
  std::string out;
  append_text(out, amount);
  return out;
}

std::string gpu_hours(std::int64_t milli_milliseconds) {  // Six decimals, rounded down.
  const std::int64_t millionths =
      static_cast<std::int64_t>(Int128{milli_milliseconds} * 1'000'000 / 3'600'000'000);
  return decimal({millionths});
}

void cell(std::string& out, std::string_view text) {  // An empty text is null.
  if (out.size() > 0 && out.back() != '\n') out += ',';
  if (text.empty()) return;
  if (text.find_first_of(",\"\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  out += '"';
}

std::string json_of(const std::map<std::string, std::string>& labels) {
  if (labels.empty()) return {};
  std::string out;
  for (const auto& [name, value] : labels) {
    out += out.empty() ? '{' : ',';
    wire::append_json_string(out, name);
    out += ':';
    wire::append_json_string(out, value);
  }
  return out + '}';
}

using Cells = std::array<std::string, kHeader.size()>;

void append_cells(std::string& out, const Cells& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += ',';
    std::string one;
    cell(one, cells[i]);
    out += one;
  }
  out += '\n';
}

struct Row {
  const State& state;
  const CostLine& line;
  Money amount{};
  bool credit = false;
};

std::size_t column(std::string_view name) {
  return static_cast<std::size_t>(std::find(kHeader.begin(), kHeader.end(), name) - kHeader.begin());
}

void append_storage(std::string& out, const Row& row) {
  const PartyId payer = tenant_of(row.state, row.line.key.party);
  const Instant month = month_of(row.line.key.day);
  Cells cells;
  const auto set = [&](std::string_view name, std::string value) { cells[column(name)] = std::move(value); };
  for (const std::string_view cost : {"BilledCost", "ContractedCost", "EffectiveCost", "ListCost"})
    set(cost, decimal(row.amount));
  set("BillingAccountId", text(payer));
  set("BillingAccountName", path_of(row.state, payer));
  set("BillingCurrency", row.state.settings.currency);
  set("BillingPeriodStart", date(month));
  set("BillingPeriodEnd", date(month_of(month + std::chrono::days(32))));
  set("ChargeCategory", "Usage");
  set("ChargeDescription", "Storage kept in a volume");
  set("ChargeFrequency", "Usage-Based");
  set("ChargePeriodStart", date(row.line.key.day));
  set("ChargePeriodEnd", date(row.line.key.day + std::chrono::days(1)));
  set("PricingCategory", "Standard");
  set("ResourceId", text(row.line.key.volume));
  set("ResourceType", "Volume");
  set("ServiceCategory", "Storage");
  set("ServiceName", "Volumes");
  set("ServiceSubcategory", "Other (Storage)");
  set("SkuId", "storage");
  set("SubAccountId", text(row.line.key.party));
  set("SubAccountName", path_of(row.state, row.line.key.party));
  for (const std::string_view name :
       {"InvoiceIssuerName", "ProviderName", "PublisherName", "HostProviderName", "ServiceProviderName"})
    set(name, "Tranche");
  append_cells(out, cells);
}

void append_row(std::string& out, const Row& row) {
  if (row.line.key.volume != VolumeId{}) return append_storage(out, row);
  const bool exchange = row.line.key.of_exchange();
  const PartyId payer = tenant_of(row.state, row.line.key.party);
  const Instant month = month_of(row.line.key.day);
  const Instant next_month = month_of(month + std::chrono::days(32));
  const std::string amount = decimal(row.amount);
  const std::string hours = row.credit ? "" : gpu_hours(row.line.allocated);
  const std::string model = exchange ? "exchange" : row.line.model;
  const bool shared = !exchange && !row.credit;
  const Job* job = row.state.job(row.line.key.job);
  const std::string job_name = job == nullptr ? "" : job->name;
  const std::string tags = json_of(row.line.labels);
  append_cells(
      out,
      {amount,
       text(payer),
       path_of(row.state, payer),
       row.state.settings.currency,
       date(next_month),
       date(month),
       row.credit ? "Credit" : (exchange ? "Purchase" : "Usage"),
       "",
       row.credit ? "Credits and refunds" : (exchange ? "Capacity bought on the exchange" : "GPU time"),
       exchange ? "One-Time" : "Usage-Based",
       date(row.line.key.day + std::chrono::days(1)),
       date(row.line.key.day),
       row.credit ? "" : gpu_hours(row.line.used),
       row.credit ? "" : "GPU-Hours",
       amount,
       amount,
       "Tranche",
       amount,
       exchange ? "Dynamic" : "Standard",
       hours,
       row.credit ? "" : "GPU-Hours",
       "Tranche",
       "Tranche",
       exchange ? "" : text(row.line.key.job),
       exchange ? "" : "Job",
       "Compute",
       "GPU capacity",
       "Other (Compute)",
       model,
       text(row.line.key.party),
       path_of(row.state, row.line.key.party),
       tags,
       shared ? R"({"basis":"thousandths of the device times seconds"})" : "",
       shared ? "allocated-gpu-time" : "",
       shared ? text(row.line.key.job) : "",
       shared ? job_name : "",
       shared ? tags : "",
       exchange ? R"({"contract":"bought on the exchange"})" : "",
       "Tranche",
       "Tranche"});
}

// Billed in the month in which it was made, for the period of the invoice that it corrects.
void append_note(std::string& out, const State& state, const CreditNote& note) {
  const PartyId payer = tenant_of(state, note.key.party);
  const Instant month = month_of(note.at);
  const std::string amount = decimal({-note.amount.micros});
  Cells cells;
  const auto set = [&](std::string_view name, std::string value) { cells[column(name)] = std::move(value); };
  for (const std::string_view cost : {"BilledCost", "ContractedCost", "EffectiveCost", "ListCost"})
    set(cost, amount);
  set("BillingAccountId", text(payer));
  set("BillingAccountName", path_of(state, payer));
  set("BillingCurrency", state.settings.currency);
  set("BillingPeriodStart", date(month));
  set("BillingPeriodEnd", date(month_of(month + std::chrono::days(32))));
  set("ChargeCategory", "Credit");
  set("ChargeClass", "Correction");
  set("ChargeDescription", "Credit note " + note.id() + ": " + note.reason);
  set("ChargeFrequency", "One-Time");
  set("ChargePeriodStart", date(note.from));
  set("ChargePeriodEnd", date(note.to));
  set("ServiceCategory", "Compute");
  set("ServiceName", "GPU capacity");
  set("ServiceSubcategory", "Other (Compute)");
  set("SubAccountId", text(note.key.party));
  set("SubAccountName", path_of(state, note.key.party));
  for (const std::string_view name :
       {"InvoiceIssuerName", "ProviderName", "PublisherName", "HostProviderName", "ServiceProviderName"})
    set(name, "Tranche");
  append_cells(out, cells);
}

}  // namespace

std::string focus_csv(const State& state, PartyId party, Instant from, Instant to) {
  std::string out;
  for (std::size_t i = 0; i < kHeader.size(); ++i) {
    if (i > 0) out += ',';
    out += kHeader[i];
  }
  out += '\n';
  const auto end = state.costs.lower_bound(CostKey{to, {}, {}});
  for (auto at = state.costs.lower_bound(CostKey{from, {}, {}}); at != end; ++at) {
    const CostLine& line = at->second;
    if (!is_at_or_below(state, line.key.party, party)) continue;
    if (line.amount != Money{}) append_row(out, {state, line, line.amount, false});
    if (line.credited != Money{}) append_row(out, {state, line, {-line.credited.micros}, true});
  }
  for (const auto& [key, note] : state.credit_notes)
    if (note.at >= from && note.at < to && is_at_or_below(state, key.party, party))
      append_note(out, state, note);
  return out;
}

}  // namespace tranche::engine
