// SPDX-License-Identifier: Apache-2.0
#include "cli/rules_file.hpp"

#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/human.hpp"
#include "wire/json_reader.hpp"
#include "wire/yaml_document.hpp"

namespace tranche::cli {
namespace {

class Clauses {
 public:
  void add(const std::string& clause) {
    if (!text_.empty()) text_ += ", ";
    text_ += clause;
  }
  [[nodiscard]] std::string text_or(std::string otherwise) const { return text_.empty() ? otherwise : text_; }

 private:
  std::string text_;
};

template <class Enums>
std::string joined(const Enums& values, const char* between) {
  std::string out;
  for (const auto value : values) {
    if (!out.empty()) out += between;
    out += wire::name_of(value);
  }
  return out;
}

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : "/") + word;
  return out;
}

std::string place_text(const wire::Place& place) {
  Clauses clauses;
  if (!place.sites.empty()) clauses.add("site " + listed(place.sites));
  for (const auto& [key, value] : place.labels) clauses.add(key + "=" + value);
  return clauses.text_or("nowhere");
}

}  // namespace

std::string hours_text(const wire::Hours& hours) {
  std::string out = hours.from + "-" + hours.to;
  if (!hours.zone.empty()) out += " " + hours.zone;
  if (!hours.days.empty()) out += " " + joined(hours.days, "/");
  return out;
}

wire::RulesBody read_rules(const std::string& text, const std::string& file) {
  const auto fail = [&](const wire::Problem& problem) {
    return usage_failure((file == "-" ? "stdin" : file) + ": " + wire::text(problem), "nothing was changed");
  };
  const auto document = wire::parse_yaml_document(text);  // JSON is YAML, too.
  if (!document) throw fail(document.error());
  if (document->root().kind == wire::NodeKind::kArray) {
    auto rules = wire::detail::read_document<std::vector<wire::Rule>>(*document);
    if (!rules) throw fail(rules.error());
    return {.rules = std::move(*rules)};
  }
  auto body = wire::detail::read_document<wire::RulesBody>(*document);
  if (!body) throw fail(body.error());
  return std::move(*body);
}

std::string when_text(const wire::When& when) {
  Clauses clauses;
  if (!when.kinds.empty()) clauses.add(joined(when.kinds, "/"));
  if (!when.model_over.empty()) clauses.add("model over " + when.model_over);
  if (!when.model_up_to.empty()) clauses.add("model up to " + when.model_up_to);
  for (const auto& [key, value] : when.labels) clauses.add(key + "=" + value);
  if (when.during) clauses.add("during " + hours_text(*when.during));
  if (when.outside) clauses.add("outside " + hours_text(*when.outside));
  if (when.at) clauses.add("at " + place_text(*when.at));
  return clauses.text_or("always");
}

std::string then_text(const wire::Then& then) {
  Clauses clauses;
  if (then.deny) clauses.add("refuse");
  if (then.isolation) clauses.add("isolation " + joined(*then.isolation, "/"));
  if (then.gpu_milli_max) clauses.add("at most " + gpus_text(*then.gpu_milli_max) + " GPU");
  if (then.share_percent_max)
    clauses.add("together at most " + std::to_string(*then.share_percent_max) + "%");
  if (then.priority_max) clauses.add("priority at most " + std::to_string(*then.priority_max));
  if (then.time_max) clauses.add("time at most " + text(*then.time_max));
  if (then.trade_with) clauses.add("trade with " + listed(*then.trade_with));
  if (then.buy_regions) clauses.add("buy in " + listed(*then.buy_regions));
  if (then.only_at) clauses.add("only at " + place_text(*then.only_at));
  return clauses.text_or("nothing");
}

}  // namespace tranche::cli
