// SPDX-License-Identifier: Apache-2.0
// price: what an hour of a device or of storage costs, as flags or as a file.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"
#include "cli/rules_file.hpp"
#include "cli/terminal.hpp"
#include "net/http.hpp"
#include "wire/api_price.hpp"
#include "wire/json_reader.hpp"
#include "wire/yaml_document.hpp"

namespace tranche::cli {
namespace {

using wire::PriceListBody;
using wire::PriceRuleBody;

std::string clock_text(std::uint32_t minute) {
  const auto two = [](std::uint32_t value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  return two(minute / 60) + ":" + two(minute % 60);
}

// For whom, where and when a rule is meant, apart from the model.
std::string conditions_of(const PriceRuleBody& rule) {
  std::string out;
  const auto add = [&](const std::string& clause) { out += (out.empty() ? "" : ", ") + clause; };
  if (!rule.party.empty()) add(rule.party);
  if (!rule.shape.empty()) add(rule.shape);
  if (!rule.region.empty()) add("in " + rule.region);
  if (rule.isolation) add(std::string(wire::name_of(*rule.isolation)));
  if (rule.priority_min > 0 || rule.priority_max < 100)
    add("priority " + std::to_string(rule.priority_min) + "-" + std::to_string(rule.priority_max));
  if (rule.on_demand) add(*rule.on_demand ? "over quota" : "within quota");
  if (rule.hours) add(hours_text(*rule.hours));
  if (rule.minute_from != 0 || rule.minute_to != 1440)
    add(clock_text(rule.minute_from) + "-" + clock_text(rule.minute_to) + " UTC");
  return out.empty() ? "-" : out;
}

std::string charged_on(const PriceRuleBody& rule) {
  if (rule.storage_gib_hour) return "size";
  std::string out(wire::name_of(rule.basis));
  if (rule.basis == wire::ChargeBasis::kMixed) out += ' ' + std::to_string(rule.used_percent) + '%';
  if (rule.dimension != wire::ChargeDimension::kCompute)
    out += " " + std::string(wire::name_of(rule.dimension));
  for (const auto& [unit, price] : rule.per_million) out += ", " + text(price) + "/M " + unit;
  return out;
}

Table price_table(const std::vector<PriceListBody>& lists) {
  Table table({{"LIST"},
               {"VALID FROM"},
               {"RULE"},
               {"MODEL"},
               {"FOR"},
               {"GPU-HOUR", Align::kRight},
               {"GIB-HOUR", Align::kRight},
               {"CHARGED ON"}});
  for (const PriceListBody& list : lists) {
    for (const PriceRuleBody& rule : list.rules) {
      table.add({list.name,
                 list.valid_from ? local_time_text(*list.valid_from) : "now",
                 rule.name,
                 rule.storage_gib_hour ? "volumes"
                 : rule.model.empty()  ? "any"
                                       : rule.model,
                 conditions_of(rule),
                 rule.storage_gib_hour ? "" : text(rule.gpu_hour),
                 rule.storage_gib_hour ? text(*rule.storage_gib_hour) : "",
                 charged_on(rule)});
    }
  }
  return table;
}

// A list with its rules, or the rules alone. JSON is YAML, too.
PriceListBody read_list(const std::string& text, const std::string& file) {
  const auto fail = [&](const wire::Problem& problem) {
    return usage_failure((file == "-" ? "stdin" : file) + ": " + wire::text(problem), "nothing was changed");
  };
  const auto document = wire::parse_yaml_document(text);
  if (!document) throw fail(document.error());
  if (document->root().kind == wire::NodeKind::kArray) {
    auto rules = wire::detail::read_document<std::vector<PriceRuleBody>>(*document);
    if (!rules) throw fail(rules.error());
    return {.rules = std::move(*rules)};
  }
  auto list = wire::detail::read_document<PriceListBody>(*document);
  if (!list) throw fail(list.error());
  return std::move(*list);
}

struct Options {
  std::string name{}, from{}, model{}, gpu_hour{}, basis{}, storage{}, shared_storage{}, file{};
  std::uint32_t used_percent = 0;
  std::vector<std::string> per_unit{}, per_million{};
};

Money price_value(const std::string& option, const std::string& given) {
  if (const auto amount = parse_money(given)) return *amount;
  throw usage_failure(option + " takes an amount such as 2.40, with at most six decimals, not '" + given +
                      "'");
}

// frames=0.05
std::pair<std::string, Money> unit_price(const char* flag, const std::string& given) {
  const auto equals = given.find('=');
  if (equals == std::string::npos || equals == 0)
    throw usage_failure(std::string(flag) + " takes a unit and its price such as frames=0.05, not '" + given +
                        "'");
  return {given.substr(0, equals), price_value(flag, given.substr(equals + 1))};
}

void add_unit_prices(const Options& options, std::map<std::string, Money>& per_million) {
  for (const std::string& given : options.per_million) per_million.insert(unit_price("--per-million", given));
  for (const std::string& given : options.per_unit) {
    const auto [unit, price] = unit_price("--per-unit", given);
    if (price > units(1000)) throw usage_failure("--per-unit takes at most 1000, not '" + given + "'");
    per_million[unit] = {price.micros * 1'000'000};
  }
}

PriceListBody list_of_flags(const Options& options) {
  PriceListBody list{.rules = {{.name = options.name, .model = options.model}}};
  list.rules[0].gpu_hour = price_value("--gpu-hour", options.gpu_hour);
  list.rules[0].used_percent = options.used_percent;
  if (!options.basis.empty()) list.rules[0].basis = enum_value<wire::ChargeBasis>("--charge", options.basis);
  add_unit_prices(options, list.rules[0].per_million);
  const auto add_storage = [&](const char* flag, const std::string& price, const char* backend) {
    if (price.empty()) return;
    PriceRuleBody rule{.name = "storage", .shape = backend};
    rule.storage_gib_hour = price_value(flag, price);
    list.rules.push_back(std::move(rule));
  };
  add_storage("--shared-gib-hour", options.shared_storage, "shared");  // The first that fits holds.
  add_storage("--storage-gib-hour", options.storage, "");
  return list;
}

void set_prices(Session& session, const Options& options) {
  if (options.file.empty() == options.gpu_hour.empty())
    throw usage_failure("say what it costs: --gpu-hour 2.40 for one rule, or -f prices.yaml for a list");
  const bool flags = !options.model.empty() || !options.basis.empty() || !options.storage.empty() ||
                     !options.shared_storage.empty() || options.used_percent > 0 ||
                     !options.per_unit.empty() || !options.per_million.empty();
  if (!options.file.empty() && flags)
    throw usage_failure("with -f the file says it all; leave the other flags out");
  PriceListBody list = options.file.empty() ? list_of_flags(options)
                                            : read_list(read_file_or_stdin(options.file), options.file);
  list.name = options.name;
  if (options.from == "now") {
    list.valid_from = std::nullopt;
  } else if (!options.from.empty()) {
    list.valid_from = time_value("--from", options.from);
  }
  const auto answer =
      session.ask<PriceListBody>({.method = "PUT", .path = "/v1/prices", .body = wire::to_json(list)});
  session.print(answer.body, {.table = [&] { return price_table({answer.value}); }});
}

void add_set(const Command& group, Program& program) {
  const auto options = std::make_shared<Options>();
  const Command& set =
      add_command(group,
                  {"set",
                   "Set a price list: one rule by flags, or a file of rules",
                   "tranche price set 2026 --gpu-hour 2.40 --storage-gib-hour 0.0002\n"
                   "tranche price set 2027 --model H100 --gpu-hour 2.10 --from 2027-01-01T00:00:00Z "
                   "--charge mixed --used-percent 40\n"
                   "tranche price set units --gpu-hour 0 --per-unit frames=0.05 --per-million tokens=2.50\n"
                   "tranche price show 2026 -o yaml > prices.yaml\n"
                   "tranche price set 2027 -f prices.yaml --from 2027-01-01T00:00:00Z"});
  set.add_option("name", options->name, "Of the list").required();
  set.add_option("-f,--file", options->file, "YAML or JSON: a list of rules; '-' is stdin").type_name("FILE");
  set.add_option("--gpu-hour", options->gpu_hour, "Price of a whole device").type_name("AMOUNT");
  set.add_option("--storage-gib-hour", options->storage, "Price of keeping a GiB in a volume; else free")
      .type_name("AMOUNT");
  set.add_option("--shared-gib-hour", options->shared_storage, "The same of shared volumes, where it differs")
      .type_name("AMOUNT");
  set.add_option("--per-unit", options->per_unit, "Price of one unit of the work; may be repeated")
      .type_name("UNIT=AMOUNT")
      .repeatable();
  set.add_option("--per-million", options->per_million, "Price of a million of them; may be repeated")
      .type_name("UNIT=AMOUNT")
      .repeatable();
  set.add_option("--model", options->model, "For this model alone").type_name("MODEL");
  set.add_option("--from", options->from, "When it begins to hold; else what the file says, or now")
      .type_name("TIME");
  set.add_option("--charge", options->basis, "allocated, used or mixed").type_name("BASIS");
  set.add_option("--used-percent", options->used_percent, "Of a mixed price: the part by use")
      .type_name("PERCENT");
  set.callback([options, &program] { set_prices(program.session(), *options); });
}

}  // namespace

void add_price_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"price", "What an hour of a device or of storage costs", "tranche price list"});
  add_command(group, {"list", "Price lists, those to come included", "tranche price list"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<wire::PriceListBook>("/v1/prices");
        session.print(answer.body, {.table = [&] { return price_table(answer.value.items); }});
      });
  const auto name = std::make_shared<std::string>();
  const Command& show = add_command(group,
                                    {"show",
                                     "One price list, as `price set -f` takes it",
                                     "tranche price show 2026\ntranche price show 2026 -o yaml"});
  show.add_option("name", *name, "Of the list").required();
  show.callback([name, &program] {
    Session& session = program.session();
    const auto answer = session.get<wire::PriceListBook>("/v1/prices?name=" + net::percent_encode(*name));
    if (answer.value.items.empty())
      throw Failure(kNotFound, {"there is no price list '" + *name + "'", "see: tranche price list"});
    const PriceListBody& newest = answer.value.items.back();
    session.print(wire::to_json(newest), {.table = [&] { return price_table({newest}); }});
  });
  add_set(group, program);
}

}  // namespace tranche::cli
