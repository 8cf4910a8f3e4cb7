// SPDX-License-Identifier: Apache-2.0
// sku, settings: what the operator sets for the whole platform.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "wire/api_job.hpp"

namespace tranche::cli {
namespace {

using wire::Settings;
using wire::Sku;
using wire::SkuList;

View view_of(const std::vector<Sku>& skus) {
  return {.table =
              [&skus] {
                Table table({{"NAME"}, {"GPUS", Align::kRight}, {"VRAM", Align::kRight}});
                for (const Sku& sku : skus) {
                  table.add({sku.name, gpus_text(sku.gpu_milli), text(Bytes{sku.vram_bytes})});
                }
                return table;
              },
          .names =
              [&skus] {
                std::string names;
                for (const Sku& sku : skus) names += sku.name + "\n";
                return names;
              }};
}

void add_skus(const Command& root, Program& program) {
  const Command& group = add_group(root, {"sku", "Named shapes: small, medium, large", "tranche sku list"});
  const Command& list = add_command(group, {"list", "List them", "tranche sku list"});
  list.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<SkuList>("/v1/skus");
    session.print(answer.body, view_of(answer.value.items));
  });
  struct Options {
    std::string name{}, gpus{}, vram{};
  };
  const auto options = std::make_shared<Options>();
  const Command& set = add_command(
      group, {"set", "Define one, or change it", "tranche sku set small --gpus 0.25 --vram 20GB"});
  set.add_option("name", options->name, "What jobs ask for").required();
  set.add_option("--gpus", options->gpus, "Share of a device, or devices").required().type_name("GPUS");
  set.add_option("--vram", options->vram, "Memory of it").required().type_name("SIZE");
  set.callback([options, &program] {
    const auto milli = parse_milli(options->gpus);
    if (!milli) throw usage_failure("--gpus takes a number such as 0.25, not '" + options->gpus + "'");
    const auto vram = parse_bytes(options->vram);
    if (!vram) throw usage_failure("--vram takes a size such as 20GB, not '" + options->vram + "'");
    Session& session = program.session();
    const Sku sku{.name = options->name, .gpu_milli = *milli, .vram_bytes = vram->count};
    const auto answer = session.ask<Sku>(
        {.method = "PUT", .path = "/v1/skus/" + path_segment(sku.name), .body = wire::to_json(sku)});
    const std::vector<Sku> one{answer.value};
    session.print(answer.body, view_of(one));
  });
}

View view_of(const Settings& settings) {
  const auto table = [settings] {
    Table rows({{"SETTING"}, {"VALUE"}});
    rows.add({"on-demand-gpu-hour", text(settings.on_demand_gpu_hour) + " " + settings.currency});
    rows.add({"currency", settings.currency});
    rows.add({"reference-vram", text(Bytes{settings.reference_vram_bytes})});
    rows.add({"remember-requests", text(settings.remember_requests)});
    rows.add({"keep-ended-jobs", text(settings.keep_ended_jobs)});
    rows.add({"hold-ahead", text(settings.hold_ahead)});
    rows.add({"prepare", std::to_string(settings.prepare_percent) + "%"});
    rows.add({"minimum-run", text(settings.minimum_run)});
    std::string fair;
    for (const auto& [unit, weight] : settings.fair_units)
      fair += (fair.empty() ? "" : ",") + unit + "=" + text(weight);
    rows.add({"fair", fair.empty() ? "by device time" : fair});
    return rows;
  };
  return {.table = table, .names = [] {
            return std::string(
                "on-demand-gpu-hour\ncurrency\nreference-vram\nremember-requests\nkeep-ended-"
                "jobs\nhold-ahead\nprepare\nminimum-run\nfair\n");
          }};
}

struct SettingsOptions {
  std::string rate{}, currency{}, vram{}, remember{}, keep{}, minimum_run{}, hold_ahead{};
  std::optional<std::uint32_t> prepare{};
  std::vector<std::string> fair{};
};

// frames=30s: a frame counts as so much time of a device; frames=0s: by its time again.
void set_fairness(Settings& settings, const std::vector<std::string>& given) {
  for (const std::string& one : given) {
    const auto equals = one.find('=');
    const auto weight =
        equals == std::string::npos ? std::nullopt : parse_duration(std::string_view(one).substr(equals + 1));
    if (!weight)
      throw usage_failure("--fair takes a unit and its time such as frames=30s, not '" + one + "'");
    const std::string unit = one.substr(0, equals);
    settings.fair_units.erase(unit);
    if (*weight > Duration{}) settings.fair_units.emplace(unit, *weight);
  }
}

Settings changed(Settings settings, const SettingsOptions& options) {
  const auto change = [](const std::string& given, auto parse, auto& value, const char* wanted) {
    if (given.empty()) return;
    const auto parsed = parse(given);
    if (!parsed) throw usage_failure(std::string(wanted) + ", not '" + given + "'");
    value = *parsed;
  };
  change(options.rate,
         parse_money,
         settings.on_demand_gpu_hour,
         "--on-demand-gpu-hour takes an amount such as 2.50");
  change(options.remember,
         parse_duration,
         settings.remember_requests,
         "--remember-requests takes a duration such as 24h");
  change(options.keep,
         parse_duration,
         settings.keep_ended_jobs,
         "--keep-ended-jobs takes a duration such as 30d");
  change(options.hold_ahead, parse_duration, settings.hold_ahead, "--hold-ahead takes a duration such as 1h");
  change(options.minimum_run,
         parse_duration,
         settings.minimum_run,
         "--minimum-run takes a duration such as 10m");
  Bytes vram{settings.reference_vram_bytes};
  change(options.vram, parse_bytes, vram, "--reference-vram takes a size such as 80GB");
  settings.reference_vram_bytes = vram.count;
  if (!options.currency.empty()) settings.currency = options.currency;
  if (options.prepare) settings.prepare_percent = *options.prepare;
  set_fairness(settings, options.fair);
  return settings;
}

void add_settings(const Command& root, Program& program) {
  const Command& group = add_group(root, {"settings", "Of the whole platform", "tranche settings show"});
  const Command& show = add_command(group, {"show", "Show them", "tranche settings show -o json"});
  show.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<Settings>("/v1/settings");
    session.print(answer.body, view_of(answer.value));
  });
  const auto options = std::make_shared<SettingsOptions>();
  const Command& set = add_command(group,
                                   {"set",
                                    "Change some; the others stay",
                                    "tranche settings set --on-demand-gpu-hour 2.50 --currency EUR"});
  set.add_option("--on-demand-gpu-hour", options->rate, "Price over quota; 0: no work over quota")
      .type_name("AMOUNT");
  set.add_option("--currency", options->currency, "ISO 4217").type_name("CODE");
  set.add_option("--reference-vram", options->vram, "A request by memory counts as its part of this")
      .type_name("SIZE");
  set.add_option("--remember-requests", options->remember, "How long idempotency keys hold")
      .type_name("DURATION");
  set.add_option("--keep-ended-jobs", options->keep, "How long ended jobs are listed").type_name("DURATION");
  set.add_option("--hold-ahead", options->hold_ahead, "So much of what runs is covered by money set aside")
      .type_name("DURATION");
  set.add_option("--minimum-run",
                 options->minimum_run,
                 "What was stopped for others is left alone so long, and elastic jobs grow no sooner")
      .type_name("DURATION");
  set.add_option("--prepare",
                 options->prepare,
                 "Keep so much of the demand foreseen free of work that goes after it; 0: nothing")
      .type_name("PERCENT")
      .between(0, 200);
  set.add_option("--fair",
                 options->fair,
                 "For fair share a unit counts as so much time of a device, whatever it took: frames=30s")
      .type_name("UNIT=DURATION");
  set.callback([options, &program] {
    Session& session = program.session();
    static_cast<void>(changed({}, *options));  // Bad values are found before anything is asked of the server.
    const auto now = session.get<Settings>("/v1/settings", Explain::kPreparation);
    const auto answer = session.ask<Settings>(
        {.method = "PUT", .path = "/v1/settings", .body = wire::to_json(changed(now.value, *options))});
    session.print(answer.body, view_of(answer.value));
  });
}

}  // namespace

void add_platform_commands(const Command& root, Program& program) {
  add_skus(root, program);
  add_settings(root, program);
}

}  // namespace tranche::cli
