// SPDX-License-Identifier: Apache-2.0
#include "cli/price_plan.hpp"

#include "base/text.hpp"
#include "cli/human.hpp"

namespace tranche::cli {

std::string percent_text(std::int64_t ppm) {
  std::string rest = std::to_string(10'000 + ppm % 10'000).substr(1);
  while (!rest.empty() && rest.back() == '0') rest.pop_back();
  return std::to_string(ppm / 10'000) + (rest.empty() ? "" : "." + rest) + " %";
}

std::optional<std::int64_t> parse_percent(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  std::int64_t ppm = 0;
  std::size_t decimals = 0;
  bool point = false;
  if (text.empty() || text.size() > 8) return std::nullopt;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9' || decimals == 4) return std::nullopt;
    ppm = ppm * 10 + (c - '0');
    decimals += point;
  }
  for (; decimals < 4; ++decimals) ppm *= 10;
  return ppm > 1'000'000 ? std::nullopt : std::optional(ppm);
}

namespace {

// Small prices are told for as many units as make them readable.
std::string unit_price_text(const wire::JobPrice& price, const wire::UnitPrice& one) {
  const bool whole = one.per_million.micros % 1000 == 0;
  const std::string each = text(whole ? Money{one.per_million.micros / 1000} : one.per_million) + " " +
                           price.currency + " per " + (whole ? "1,000 " : "1,000,000 ") + one.unit;
  if (!one.in_most) return "plus        " + each + ", as many as there will be; --spend bounds them, too\n";
  if (!one.count) return "of that     " + each + "\n";
  return "of that     " + text(one.most) + " " + price.currency + " for " + std::to_string(*one.count) + " " +
         one.unit + ", " + each + "\n";
}

// What the server answers to the same refusal when it is no rehearsal.
int status_of(wire::Reason reason) {
  switch (reason) {
    case wire::Reason::kNotFound:
      return 404;
    case wire::Reason::kInvalid:
    case wire::Reason::kReused:
      return 422;
    case wire::Reason::kConflict:
      return 409;
    case wire::Reason::kStale:
      return 412;
    case wire::Reason::kForbidden:
    case wire::Reason::kQuota:
    case wire::Reason::kPolicy:
    case wire::Reason::kBudget:
      return 403;
  }
  return 403;
}

}  // namespace

std::string price_text(const wire::JobPrice& price) {
  std::string out;
  if (!price.rule.empty()) {
    out += "price       " + text(price.hourly) + " " + price.currency + " an hour (" + price.rule + ")\n";
    if (price.set_aside > Money{})
      out += "set aside   " + text(price.set_aside) + " " + price.currency + " before it starts\n";
  }
  if (price.most) {
    out += "at most     " + text(*price.most) + " " + price.currency + " (" + price.most_because + ")\n";
  } else {
    out += "at most     not bounded: give --time or --spend\n";
  }
  for (const wire::UnitPrice& one : price.units) out += unit_price_text(price, one);
  if (price.tax_ppm > 0) {
    out +=
        "tax         " + price.tax_name + " " + percent_text(price.tax_ppm) + " comes on top, on the invoice";
    if (price.most_with_tax)
      out += ": at most " + text(*price.most_with_tax) + " " + price.currency + " in all";
    out += "\n";
  }
  return out;
}

Failure refused_plan(const wire::Refusal& refusal) {
  return failure_of(
      wire::ProblemDetails{.type = "urn:tranche:problem:" + std::string(wire::name_of(refusal.reason)),
                           .status = status_of(refusal.reason),
                           .reasons = {refusal}});
}

void show_price_plan(Session& session, const Answer<wire::PricePlan>& answer) {
  const wire::PricePlan& plan = answer.value;
  const auto table = [&] {
    Table rows({{"ADMITTED"},
                {"WHAT"},
                {"PRICE/H", Align::kRight},
                {"AT MOST", Align::kRight},
                {"WITH TAX", Align::kRight}});
    rows.add({plan.admitted ? "yes" : "no",
              plan.what,
              text(plan.price.hourly),
              plan.price.most ? text(*plan.price.most) : "-",
              plan.price.most_with_tax ? text(*plan.price.most_with_tax) : "-"});
    return rows;
  };
  const auto lines = [&] {
    std::string out = plan.admitted ? "admitted    yes\n" : "admitted    no\n";
    if (!plan.what.empty()) out += "what        " + plan.what + "\n";
    out += price_text(plan.price);
    if (!plan.note.empty()) out += "note        " + plan.note + "\n";
    return out;
  };
  session.print(answer.body, {.table = table, .text = lines, .names = [&] {
                                return std::string(plan.admitted ? "admitted\n" : "refused\n");
                              }});
  if (plan.refusal) throw refused_plan(*plan.refusal);
}

}  // namespace tranche::cli
