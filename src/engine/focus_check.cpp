// SPDX-License-Identifier: Apache-2.0
// Whether a table is FOCUS 1.2: each cell by its column, what columns say about each other, and what invoices
// add up to.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "engine/focus.hpp"
#include "engine/focus_rules.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kProblemsMost = 100;

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
    if (!own && focus_rule(cell.text) == nullptr)
      problems.push_back("column " + cell.text + " is not of FOCUS 1.2, and has no x_ in front");
    custom = custom || own;
  }
  for (const FocusRule& column : focus_rules()) {
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
  together("SubAccountId", "SubAccountType");
  together("ResourceId", "ResourceType");
  if (row.at("ResourceName") && !row.at("ResourceId"))
    problems.push_back(where + "ResourceName must be null without a ResourceId");
  check_quantities(row, where, problems);
  check_reservation(row, where, problems);
  const auto subcategory = row.at("ServiceSubcategory");
  if (subcategory && !is_subcategory(row.at("ServiceCategory").value_or(""), *subcategory))
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
    const FocusRule* column = focus_rule(header[i].text);
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
