// SPDX-License-Identifier: Apache-2.0
// The columns of FOCUS 1.2, and those that 1.3 adds, after the FinOps Open Cost and Usage Specification (CC
// BY 4.0, Joint Development Foundation Projects, LLC, FOCUS Series), and the checks that follow from them.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "engine/focus.hpp"

namespace tranche::engine {
namespace {

enum class Type : std::uint8_t { kString, kDecimal, kDateTime, kJson, kUnit, kCurrency };

struct Column {
  std::string_view name;
  bool mandatory;
  bool nullable;
  Type type;
  std::string_view allowed;  // Separated by bars; empty: anything.
};

constexpr std::array<Column, 65> kColumns{{
    {"AvailabilityZone", false, true, Type::kString, ""},
    {"BilledCost", true, false, Type::kDecimal, ""},
    {"BillingAccountId", true, false, Type::kString, ""},
    {"BillingAccountName", true, true, Type::kString, ""},
    {"BillingAccountType", false, false, Type::kString, ""},
    {"BillingCurrency", true, false, Type::kCurrency, ""},
    {"BillingPeriodEnd", true, false, Type::kDateTime, ""},
    {"BillingPeriodStart", true, false, Type::kDateTime, ""},
    {"CapacityReservationId", false, true, Type::kString, ""},
    {"CapacityReservationStatus", false, true, Type::kString, "Used|Unused"},
    {"ChargeCategory", true, false, Type::kString, "Usage|Purchase|Tax|Credit|Adjustment"},
    {"ChargeClass", true, true, Type::kString, "Correction"},
    {"ChargeDescription", true, true, Type::kString, ""},
    {"ChargeFrequency", false, false, Type::kString, "One-Time|Recurring|Usage-Based"},
    {"ChargePeriodEnd", true, false, Type::kDateTime, ""},
    {"ChargePeriodStart", true, false, Type::kDateTime, ""},
    {"CommitmentDiscountCategory", false, true, Type::kString, "Spend|Usage"},
    {"CommitmentDiscountId", false, true, Type::kString, ""},
    {"CommitmentDiscountName", false, true, Type::kString, ""},
    {"CommitmentDiscountQuantity", false, true, Type::kDecimal, ""},
    {"CommitmentDiscountStatus", false, true, Type::kString, "Used|Unused"},
    {"CommitmentDiscountType", false, true, Type::kString, ""},
    {"CommitmentDiscountUnit", false, true, Type::kUnit, ""},
    {"ConsumedQuantity", false, true, Type::kDecimal, ""},
    {"ConsumedUnit", false, true, Type::kString, ""},
    {"ContractedCost", true, false, Type::kDecimal, ""},
    {"ContractedUnitPrice", false, true, Type::kDecimal, ""},
    {"EffectiveCost", true, false, Type::kDecimal, ""},
    {"InvoiceId", false, true, Type::kString, ""},
    {"InvoiceIssuerName", true, false, Type::kString, ""},
    {"ListCost", true, false, Type::kDecimal, ""},
    {"ListUnitPrice", false, true, Type::kDecimal, ""},
    {"PricingCategory", false, true, Type::kString, "Standard|Dynamic|Committed|Other"},
    {"PricingCurrency", false, true, Type::kCurrency, ""},
    {"PricingCurrencyContractedUnitPrice", false, true, Type::kDecimal, ""},
    {"PricingCurrencyEffectiveCost", false, true, Type::kDecimal, ""},
    {"PricingCurrencyListUnitPrice", false, true, Type::kDecimal, ""},
    {"PricingQuantity", true, true, Type::kDecimal, ""},
    {"PricingUnit", true, true, Type::kUnit, ""},
    {"ProviderName", true, false, Type::kString, ""},
    {"PublisherName", true, false, Type::kString, ""},
    {"RegionId", false, true, Type::kString, ""},
    {"RegionName", false, true, Type::kString, ""},
    {"ResourceId", false, true, Type::kString, ""},
    {"ResourceName", false, true, Type::kString, ""},
    {"ResourceType", false, true, Type::kString, ""},
    {"ServiceCategory",
     true,
     false,
     Type::kString,
     "AI and Machine Learning|Analytics|Business Applications|Compute|Databases|Developer Tools|"
     "Multicloud|Identity|Integration|Internet of Things|Management and Governance|Media|Migration|"
     "Mobile|Networking|Security|Storage|Web|Other"},
    {"ServiceName", true, false, Type::kString, ""},
    {"ServiceSubcategory", false, false, Type::kString, ""},
    {"SkuId", false, true, Type::kString, ""},
    {"SkuMeter", false, true, Type::kString, ""},
    {"SkuPriceDetails", false, true, Type::kJson, ""},
    {"SkuPriceId", false, true, Type::kString, ""},
    {"SubAccountId", false, true, Type::kString, ""},
    {"SubAccountName", false, true, Type::kString, ""},
    {"SubAccountType", false, true, Type::kString, ""},
    {"Tags", false, true, Type::kJson, ""},
    // Since 1.3.
    {"AllocatedMethodDetails", false, true, Type::kJson, ""},
    {"AllocatedMethodId", false, true, Type::kString, ""},
    {"AllocatedResourceId", false, true, Type::kString, ""},
    {"AllocatedResourceName", false, true, Type::kString, ""},
    {"AllocatedTags", false, true, Type::kJson, ""},
    {"ContractApplied", false, true, Type::kJson, ""},
    {"HostProviderName", false, true, Type::kString, ""},
    {"ServiceProviderName", false, true, Type::kString, ""},
}};

constexpr std::size_t kProblemsMost = 100;

const Column* find_column(std::string_view name) {
  const auto found =
      std::find_if(kColumns.begin(), kColumns.end(), [&](const Column& one) { return one.name == name; });
  return found == kColumns.end() ? nullptr : &*found;
}

bool digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (power.starts_with('-')) power.remove_prefix(1);
    if (!digits(power)) return false;
    text = text.substr(0, exponent);
  }
  const auto point = text.find('.');
  if (point == std::string_view::npos) return digits(text);
  return digits(text.substr(0, point)) && digits(text.substr(point + 1));
}

bool is_date_time(std::string_view text) {  // 2026-11-15T20:00:00Z
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !digit : text[i] != kForm[i]) return false;
  }
  return true;
}

// A flat object of JSON whose keys are unique; values are strings, numbers or booleans.
bool is_flat_json(std::string_view text) {
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return false;
  text = text.substr(1, text.size() - 2);
  return text.find_first_of("{}[]") == std::string_view::npos;
}

// GPU-Hours, Tokens, Requests/Hour: words with a capital, at most one dash or stroke.
bool is_unit(std::string_view text) {
  return !text.empty() && text.front() >= 'A' && text.front() <= 'Z' &&
         std::count(text.begin(), text.end(), '/') <= 1 && std::count(text.begin(), text.end(), '-') <= 1;
}

bool is_currency(std::string_view text) {
  return text.size() == 3 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

bool is_allowed(std::string_view allowed, std::string_view value) {
  for (std::size_t at = 0; at <= allowed.size();) {
    const std::size_t end = std::min(allowed.find('|', at), allowed.size());
    if (allowed.substr(at, end - at) == value) return true;
    at = end + 1;
  }
  return false;
}

bool fits(const Column& column, std::string_view value) {
  if (!column.allowed.empty() && !is_allowed(column.allowed, value)) return false;
  switch (column.type) {
    case Type::kString:
      return true;
    case Type::kDecimal:
      return is_decimal(value);
    case Type::kDateTime:
      return is_date_time(value);
    case Type::kJson:
      return is_flat_json(value);
    case Type::kUnit:
      return is_unit(value);
    case Type::kCurrency:
      return is_currency(value);
  }
  return false;
}

struct Cell {
  std::string text{};
  bool quoted = false;
  [[nodiscard]] bool null() const { return !quoted && (text.empty() || text == "null"); }
};

// The next row of CSV; quotes may hold commas, line ends and doubled quotes.
bool next_row(std::string_view& csv, std::vector<Cell>& row) {
  row.clear();
  if (csv.empty()) return false;
  row.emplace_back();
  bool inside = false;
  std::size_t at = 0;
  for (; at < csv.size(); ++at) {
    const char c = csv[at];
    if (inside && c == '"' && at + 1 < csv.size() && csv[at + 1] == '"') {
      row.back().text += '"';
      ++at;
    } else if (c == '"') {
      inside = !inside;
      row.back().quoted = true;
    } else if (!inside && c == ',') {
      row.emplace_back();
    } else if (!inside && c == '\n') {
      ++at;
      break;
    } else if (inside || c != '\r') {
      row.back().text += c;
    }
  }
  csv.remove_prefix(at);
  return true;
}

void check_header(const std::vector<Cell>& header, std::vector<std::string>& problems) {
  std::set<std::string_view> seen;
  bool custom = false;
  for (const Cell& cell : header) {
    if (!seen.insert(cell.text).second) problems.push_back("column " + cell.text + " stands there twice");
    const bool own = cell.text.starts_with("x_");
    if (!own && custom) problems.push_back("column " + cell.text + " stands after a column of one's own");
    if (!own && find_column(cell.text) == nullptr)
      problems.push_back("column " + cell.text + " is not of FOCUS 1.2, and has no x_ in front");
    custom = custom || own;
  }
  for (const Column& column : kColumns) {
    if (column.mandatory && !seen.contains(column.name))
      problems.push_back("mandatory column " + std::string(column.name) + " is missing");
  }
}

}  // namespace

std::vector<std::string> focus_problems(std::string_view csv) {
  std::vector<std::string> problems;
  std::vector<Cell> header;
  std::vector<Cell> row;
  if (!next_row(csv, header)) return {"the table is empty"};
  check_header(header, problems);
  for (std::size_t number = 2; problems.size() < kProblemsMost && next_row(csv, row); ++number) {
    const std::string where = "row " + std::to_string(number) + ": ";
    if (row.size() != header.size()) {
      problems.push_back(where + "has another number of cells than the header");
      continue;
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Column* column = find_column(header[i].text);
      if (column == nullptr) continue;
      if (row[i].null()) {
        if (!column->nullable) problems.push_back(where + header[i].text + " must not be null");
      } else if (!fits(*column, row[i].text)) {
        problems.push_back(where + header[i].text + " cannot be '" + row[i].text + "'");
      }
    }
  }
  return problems;
}

}  // namespace tranche::engine
