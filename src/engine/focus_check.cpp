// SPDX-License-Identifier: Apache-2.0
// The columns of FOCUS 1.2, and those that 1.3 adds, after the FinOps Open Cost and Usage Specification (CC
// BY 4.0, Joint Development Foundation Projects, LLC, FOCUS Series), and the checks that follow from them.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "engine/focus.hpp"
#include "wire/document.hpp"

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

// Each belongs to one category.
constexpr std::string_view kSubcategories =
    "AI and Machine Learning / AI Platforms|AI and Machine Learning / Bots|"
    "AI and Machine Learning / Generative AI|AI and Machine Learning / Machine Learning|"
    "AI and Machine Learning / Natural Language Processing|"
    "AI and Machine Learning / Other (AI and Machine Learning)|Analytics / Analytics Platforms|"
    "Analytics / Business Intelligence|Analytics / Data Processing|Analytics / Search|"
    "Analytics / Streaming Analytics|Analytics / Other (Analytics)|"
    "Business Applications / Productivity and Collaboration|"
    "Business Applications / Other (Business Applications)|Compute / Containers|"
    "Compute / End User Computing|Compute / Quantum Compute|Compute / Serverless Compute|"
    "Compute / Virtual Machines|Compute / Other (Compute)|Databases / Caching|"
    "Databases / Data Warehouses|Databases / Ledger Databases|Databases / NoSQL Databases|"
    "Databases / Relational Databases|Databases / Time Series Databases|"
    "Databases / Other (Databases)|Developer Tools / Developer Platforms|"
    "Developer Tools / Continuous Integration and Deployment|"
    "Developer Tools / Development Environments|Developer Tools / Source Code Management|"
    "Developer Tools / Quality Assurance|Developer Tools / Other (Developer Tools)|"
    "Identity / Identity and Access Management|Identity / Other (Identity)|"
    "Integration / API Management|Integration / Messaging|Integration / Workflow Orchestration|"
    "Integration / Other (Integration)|Internet of Things / IoT Analytics|"
    "Internet of Things / IoT Platforms|Internet of Things / Other (Internet of Things)|"
    "Management and Governance / Architecture|Management and Governance / Compliance|"
    "Management and Governance / Cost Management|Management and Governance / Data Governance|"
    "Management and Governance / Disaster Recovery|Management and Governance / Endpoint Management|"
    "Management and Governance / Observability|Management and Governance / Support|"
    "Management and Governance / Other (Management and Governance)|Media / Content Creation|"
    "Media / Gaming|Media / Media Streaming|Media / Mixed Reality|Media / Other (Media)|"
    "Migration / Data Migration|Migration / Resource Migration|Migration / Other (Migration)|"
    "Mobile / Other (Mobile)|Multicloud / Multicloud Integration|Multicloud / Other (Multicloud)|"
    "Networking / Application Networking|Networking / Content Delivery|"
    "Networking / Network Connectivity|Networking / Network Infrastructure|"
    "Networking / Network Routing|Networking / Network Security|Networking / Other (Networking)|"
    "Security / Secret Management|Security / Security Posture Management|"
    "Security / Threat Detection and Response|Security / Other (Security)|Storage / Backup Storage|"
    "Storage / Block Storage|Storage / File Storage|Storage / Object Storage|"
    "Storage / Storage Platforms|Storage / Other (Storage)|Web / Application Platforms|"
    "Web / Other (Web)|Other / Other (Other)";

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

bool is_date_time(std::string_view given) {  // 2026-11-15T20:00:00Z
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  if (given.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = given[i] >= '0' && given[i] <= '9';
    if (kForm[i] == '0' ? !digit : given[i] != kForm[i]) return false;
  }
  return parse_instant(given).has_value();
}

// A flat object of JSON whose keys are unique; values are strings, numbers or booleans.
bool is_flat_json(std::string_view given) {
  const auto document = wire::parse_json_document(given, {});
  if (!document || document->root().kind != wire::NodeKind::kObject) return false;
  std::set<std::string_view> keys;
  for (std::uint32_t at = document->root().first_child; at != wire::Node::kNone; at = document->at(at).next) {
    const wire::Node& node = document->at(at);
    const bool nested = node.kind == wire::NodeKind::kObject || node.kind == wire::NodeKind::kArray;
    if (nested || !keys.insert(node.key).second) return false;
  }
  return true;
}

bool is_time(std::string_view word, bool plural) {
  constexpr std::array<std::string_view, 7> kTimes{
      "Second", "Minute", "Hour", "Day", "Week", "Month", "Year"};
  if (plural && !word.ends_with('s')) return false;
  if (plural) word.remove_suffix(1);
  return std::find(kTimes.begin(), kTimes.end(), word) != kTimes.end();
}

// Tokens, GPU-Hours, Requests/Hour: a plural; a singular with a plural of time; a plural in a time.
bool is_unit(std::string_view given) {
  if (given.empty() || given.front() < 'A' || given.front() > 'Z') return false;
  if (const auto stroke = given.find('/'); stroke != std::string_view::npos)
    return given[stroke - 1] == 's' && is_time(given.substr(stroke + 1), false);
  if (const auto dash = given.find('-'); dash != std::string_view::npos)
    return is_time(given.substr(dash + 1), true);
  return given.ends_with('s');
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
  [[nodiscard]] bool empty() const { return quoted && text.empty(); }
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

bool is_own_name(std::string_view name) {  // x_SomethingLikeThis
  constexpr std::size_t kMost = 50;
  if (name.size() < 3 || name.size() > kMost || name[2] < 'A' || name[2] > 'Z') return false;
  return std::all_of(name.begin() + 2, name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  });
}

void check_header(const std::vector<Cell>& header, std::vector<std::string>& problems) {
  std::set<std::string_view> seen;
  bool custom = false;
  for (const Cell& cell : header) {
    if (!seen.insert(cell.text).second) problems.push_back("column " + cell.text + " stands there twice");
    const bool own = cell.text.starts_with("x_");
    if (!own && custom) problems.push_back("column " + cell.text + " stands after a column of one's own");
    if (own && !is_own_name(cell.text))
      problems.push_back("column " + cell.text + " is not named like x_PascalCase, in 50 letters at most");
    if (!own && find_column(cell.text) == nullptr)
      problems.push_back("column " + cell.text + " is not of FOCUS 1.2, and has no x_ in front");
    custom = custom || own;
  }
  for (const Column& column : kColumns) {
    if (column.mandatory && !seen.contains(column.name))
      problems.push_back("mandatory column " + std::string(column.name) + " is missing");
  }
}

// One row, by the names of its columns.
class Row {
 public:
  Row(const std::vector<Cell>& header, const std::vector<Cell>& cells) : header_(header), cells_(cells) {}
  // Nothing: it is null, or there is no such column.
  [[nodiscard]] std::optional<std::string_view> at(std::string_view name) const {
    for (std::size_t i = 0; i < header_.size(); ++i)
      if (header_[i].text == name && !cells_[i].null()) return std::string_view(cells_[i].text);
    return std::nullopt;
  }
  [[nodiscard]] bool is(std::string_view name, std::string_view value) const { return at(name) == value; }

 private:
  const std::vector<Cell>& header_;
  const std::vector<Cell>& cells_;
};

std::optional<Money> money_at(const Row& row, std::string_view name) {
  const auto given = row.at(name);
  return given ? parse_money(*given) : std::nullopt;
}

bool is_usage(const Row& row) {
  return row.is("ChargeCategory", "Usage");
}

// What is used or bought has a quantity with a price, and what is used was consumed; corrections may do
// without.
void check_quantities(const Row& row, const std::string& where, std::vector<std::string>& problems) {
  const bool corrects = row.is("ChargeClass", "Correction");
  const bool priced = is_usage(row) || row.is("ChargeCategory", "Purchase");
  if (priced && !corrects && !row.at("PricingQuantity"))
    problems.push_back(where + "PricingQuantity must not be null on a row of usage or of a purchase");
  if (is_usage(row) && !corrects && !row.at("ConsumedQuantity"))
    problems.push_back(where + "ConsumedQuantity must not be null on a row of usage");
  if (!is_usage(row) && row.at("ConsumedQuantity"))
    problems.push_back(where + "ConsumedQuantity must be null on a row of anything but usage");
}

// Capacity that is paid before it is used: the purchase has no effective cost, the hours have.
void check_reservation(const Row& row, const std::string& where, std::vector<std::string>& problems) {
  const bool reserved = row.at("CapacityReservationId").has_value();
  const bool told = row.at("CapacityReservationStatus").has_value();
  if (!reserved && told)
    problems.push_back(where + "CapacityReservationStatus must be null without a CapacityReservationId");
  if (reserved && !told && is_usage(row))
    problems.push_back(where + "CapacityReservationStatus must say whether the reservation was used");
  if (reserved && row.is("ChargeCategory", "Purchase") && money_at(row, "EffectiveCost") != Money{})
    problems.push_back(where + "EffectiveCost must be 0 where capacity is bought for later charges");
  if (row.at("AllocatedResourceId") && !row.at("AllocatedMethodId"))
    problems.push_back(where + "AllocatedMethodId must say how a cost was split");
}

// What columns say about each other.
void check_row(const Row& row, const std::string& where, std::vector<std::string>& problems) {
  const auto together = [&](std::string_view a, std::string_view b) {
    if (row.at(a).has_value() != row.at(b).has_value())
      problems.push_back(where + std::string(a) + " and " + std::string(b) +
                         " are null together or not at all");
  };
  together("PricingQuantity", "PricingUnit");
  together("ConsumedQuantity", "ConsumedUnit");
  check_quantities(row, where, problems);
  check_reservation(row, where, problems);
  const auto subcategory = row.at("ServiceSubcategory");
  const std::string both =
      std::string(row.at("ServiceCategory").value_or("")) + " / " + std::string(subcategory.value_or(""));
  if (subcategory && !is_allowed(kSubcategories, both))
    problems.push_back(where + "ServiceSubcategory '" + std::string(*subcategory) +
                       "' is not of its category");
  if (row.is("ChargeCategory", "Tax")) {
    for (const std::string_view name : {"SkuId", "PricingCategory", "PricingQuantity", "ConsumedQuantity"})
      if (row.at(name)) problems.push_back(where + std::string(name) + " must be null on a row of a tax");
  }
  const bool third_party = row.at("InvoiceIssuerName") != row.at("ProviderName");
  if (third_party && money_at(row, "BilledCost") != Money{})
    problems.push_back(where + "BilledCost must be 0 where a third party is paid");
  const auto from = row.at("ChargePeriodStart");
  const auto to = row.at("ChargePeriodEnd");
  if (from && to && *from >= *to) problems.push_back(where + "the charge period ends before it begins");
}

void check_cells(const std::vector<Cell>& header,
                 const std::vector<Cell>& row,
                 const std::string& where,
                 std::vector<std::string>& problems) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Column* column = find_column(header[i].text);
    if (column == nullptr) continue;
    if (row[i].null()) {
      if (!column->nullable) problems.push_back(where + header[i].text + " must not be null");
    } else if (row[i].empty()) {
      problems.push_back(where + header[i].text + " is an empty text, which is not null");
    } else if (!fits(*column, row[i].text)) {
      problems.push_back(where + header[i].text + " cannot be '" + row[i].text + "'");
    }
  }
}

}  // namespace

std::vector<FocusColumn> focus_columns() {
  std::vector<FocusColumn> out;
  bool since_13 = false;
  for (const Column& column : kColumns) {
    since_13 = since_13 || column.name == "AllocatedMethodDetails";
    const std::string_view type = column.type == Type::kDecimal    ? "Decimal"
                                  : column.type == Type::kDateTime ? "Date/Time"
                                  : column.type == Type::kJson     ? "JSON"
                                                                   : "String";
    const bool pairs = column.name == "ServiceSubcategory";
    out.push_back({column.name,
                   column.mandatory,
                   column.nullable,
                   type,
                   pairs ? kSubcategories : column.allowed,
                   since_13});
  }
  return out;
}

std::vector<std::string> focus_problems(std::string_view csv, const std::map<std::string, Money>& payable) {
  std::vector<std::string> problems;
  std::vector<Cell> header;
  std::vector<Cell> row;
  if (!next_row(csv, header)) return {"the table is empty"};
  check_header(header, problems);
  std::map<std::string, Money, std::less<>> billed;
  for (std::size_t number = 2; problems.size() < kProblemsMost && next_row(csv, row); ++number) {
    const std::string where = "row " + std::to_string(number) + ": ";
    if (row.size() != header.size()) {
      problems.push_back(where + "has another number of cells than the header");
      continue;
    }
    check_cells(header, row, where, problems);
    const Row named(header, row);
    check_row(named, where, problems);
    if (const auto invoice = named.at("InvoiceId"))
      billed[std::string(*invoice)].micros += money_at(named, "BilledCost").value_or(Money{}).micros;
  }
  for (const auto& [invoice, total] : payable) {
    const auto found = billed.find(invoice);
    const Money sum = found == billed.end() ? Money{} : found->second;
    if (sum != total)
      problems.push_back("rows of " + invoice + " add up to " + text(sum) + ", and " + text(total) +
                         " is to be paid");
  }
  return problems;
}

}  // namespace tranche::engine
