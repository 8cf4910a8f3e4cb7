// SPDX-License-Identifier: Apache-2.0
// The columns of FOCUS 1.2, and those that 1.3 adds, after the FinOps Open Cost and Usage Specification (CC
// BY 4.0, Joint Development Foundation Projects, LLC, FOCUS Series).
#include "engine/focus_rules.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"
#include "engine/focus.hpp"
#include "wire/document.hpp"

namespace tranche::engine {
namespace {

constexpr std::array<FocusRule, 65> kColumns{{
    {"AvailabilityZone", false, true, FocusType::kString, ""},
    {"BilledCost", true, false, FocusType::kDecimal, ""},
    {"BillingAccountId", true, false, FocusType::kString, ""},
    {"BillingAccountName", true, true, FocusType::kString, ""},
    {"BillingAccountType", false, false, FocusType::kString, ""},
    {"BillingCurrency", true, false, FocusType::kCurrency, ""},
    {"BillingPeriodEnd", true, false, FocusType::kDateTime, ""},
    {"BillingPeriodStart", true, false, FocusType::kDateTime, ""},
    {"CapacityReservationId", false, true, FocusType::kString, ""},
    {"CapacityReservationStatus", false, true, FocusType::kString, "Used|Unused"},
    {"ChargeCategory", true, false, FocusType::kString, "Usage|Purchase|Tax|Credit|Adjustment"},
    {"ChargeClass", true, true, FocusType::kString, "Correction"},
    {"ChargeDescription", true, true, FocusType::kString, ""},
    {"ChargeFrequency", false, false, FocusType::kString, "One-Time|Recurring|Usage-Based"},
    {"ChargePeriodEnd", true, false, FocusType::kDateTime, ""},
    {"ChargePeriodStart", true, false, FocusType::kDateTime, ""},
    {"CommitmentDiscountCategory", false, true, FocusType::kString, "Spend|Usage"},
    {"CommitmentDiscountId", false, true, FocusType::kString, ""},
    {"CommitmentDiscountName", false, true, FocusType::kString, ""},
    {"CommitmentDiscountQuantity", false, true, FocusType::kDecimal, ""},
    {"CommitmentDiscountStatus", false, true, FocusType::kString, "Used|Unused"},
    {"CommitmentDiscountType", false, true, FocusType::kString, ""},
    {"CommitmentDiscountUnit", false, true, FocusType::kUnit, ""},
    {"ConsumedQuantity", false, true, FocusType::kDecimal, ""},
    {"ConsumedUnit", false, true, FocusType::kString, ""},
    {"ContractedCost", true, false, FocusType::kDecimal, ""},
    {"ContractedUnitPrice", false, true, FocusType::kDecimal, ""},
    {"EffectiveCost", true, false, FocusType::kDecimal, ""},
    {"InvoiceId", false, true, FocusType::kString, ""},
    {"InvoiceIssuerName", true, false, FocusType::kString, ""},
    {"ListCost", true, false, FocusType::kDecimal, ""},
    {"ListUnitPrice", false, true, FocusType::kDecimal, ""},
    {"PricingCategory", false, true, FocusType::kString, "Standard|Dynamic|Committed|Other"},
    {"PricingCurrency", false, true, FocusType::kCurrency, ""},
    {"PricingCurrencyContractedUnitPrice", false, true, FocusType::kDecimal, ""},
    {"PricingCurrencyEffectiveCost", false, true, FocusType::kDecimal, ""},
    {"PricingCurrencyListUnitPrice", false, true, FocusType::kDecimal, ""},
    {"PricingQuantity", true, true, FocusType::kDecimal, ""},
    {"PricingUnit", true, true, FocusType::kUnit, ""},
    {"ProviderName", true, false, FocusType::kString, ""},
    {"PublisherName", true, false, FocusType::kString, ""},
    {"RegionId", false, true, FocusType::kString, ""},
    {"RegionName", false, true, FocusType::kString, ""},
    {"ResourceId", false, true, FocusType::kString, ""},
    {"ResourceName", false, true, FocusType::kString, ""},
    {"ResourceType", false, true, FocusType::kString, ""},
    {"ServiceCategory",
     true,
     false,
     FocusType::kString,
     "AI and Machine Learning|Analytics|Business Applications|Compute|Databases|Developer Tools|"
     "Multicloud|Identity|Integration|Internet of Things|Management and Governance|Media|Migration|"
     "Mobile|Networking|Security|Storage|Web|Other"},
    {"ServiceName", true, false, FocusType::kString, ""},
    {"ServiceSubcategory", false, false, FocusType::kString, ""},
    {"SkuId", false, true, FocusType::kString, ""},
    {"SkuMeter", false, true, FocusType::kString, ""},
    {"SkuPriceDetails", false, true, FocusType::kJson, ""},
    {"SkuPriceId", false, true, FocusType::kString, ""},
    {"SubAccountId", false, true, FocusType::kString, ""},
    {"SubAccountName", false, true, FocusType::kString, ""},
    {"SubAccountType", false, true, FocusType::kString, ""},
    {"Tags", false, true, FocusType::kJson, ""},
    // Since 1.3.
    {"AllocatedMethodDetails", false, true, FocusType::kJson, ""},
    {"AllocatedMethodId", false, true, FocusType::kString, ""},
    {"AllocatedResourceId", false, true, FocusType::kString, ""},
    {"AllocatedResourceName", false, true, FocusType::kString, ""},
    {"AllocatedTags", false, true, FocusType::kJson, ""},
    {"ContractApplied", false, true, FocusType::kJson, ""},
    {"HostProviderName", false, true, FocusType::kString, ""},
    {"ServiceProviderName", false, true, FocusType::kString, ""},
}};

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

}  // namespace

std::span<const FocusRule> focus_rules() {
  return kColumns;
}

const FocusRule* focus_rule(std::string_view name) {
  const auto found =
      std::find_if(kColumns.begin(), kColumns.end(), [&](const FocusRule& one) { return one.name == name; });
  return found == kColumns.end() ? nullptr : &*found;
}

bool fits(const FocusRule& column, std::string_view value) {
  if (!column.allowed.empty() && !is_allowed(column.allowed, value)) return false;
  switch (column.type) {
    case FocusType::kString:
      return true;
    case FocusType::kDecimal:
      return is_decimal(value);
    case FocusType::kDateTime:
      return is_date_time(value);
    case FocusType::kJson:
      return is_flat_json(value);
    case FocusType::kUnit:
      return is_unit(value);
    case FocusType::kCurrency:
      return is_currency(value);
  }
  return false;
}

bool is_subcategory(std::string_view category, std::string_view subcategory) {
  return is_allowed(kSubcategories, std::string(category) + " / " + std::string(subcategory));
}

std::vector<FocusColumn> focus_columns() {
  std::vector<FocusColumn> out;
  bool since_13 = false;
  for (const FocusRule& column : kColumns) {
    since_13 = since_13 || column.name == "AllocatedMethodDetails";
    const std::string_view type = column.type == FocusType::kDecimal    ? "Decimal"
                                  : column.type == FocusType::kDateTime ? "Date/Time"
                                  : column.type == FocusType::kJson     ? "JSON"
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

}  // namespace tranche::engine
