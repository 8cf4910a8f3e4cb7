// SPDX-License-Identifier: Apache-2.0
// forecast: what the hours to come will ask for.
#include <algorithm>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "wire/api_forecast.hpp"

namespace tranche::cli {
namespace {

std::string devices_text(std::int64_t milli) {
  return std::to_string(milli / 1000) + "." + std::to_string(milli % 1000 / 100);
}

// The largest, by name; the rest is in the JSON.
std::string mostly(const wire::HourDemand& hour) {
  std::vector<wire::ClassDemand> classes = hour.classes;
  std::sort(
      classes.begin(), classes.end(), [](const auto& a, const auto& b) { return a.gpu_milli > b.gpu_milli; });
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(classes.size(), 3); ++i)
    out += (i == 0 ? "" : ", ") + classes[i].party + " " + std::string(wire::name_of(classes[i].kind)) + " " +
           devices_text(classes[i].gpu_milli);
  return out.empty() ? "-" : out;
}

Table table_of(const wire::DemandView& view) {
  Table table({{"HOUR"}, {"DEVICES EXPECTED", Align::kRight}, {"OF THE FLEET", Align::kRight}, {"MOSTLY"}});
  for (const wire::HourDemand& hour : view.hours) {
    const std::int64_t fleet = view.capacity_gpu_milli;
    table.add({local_time_text(hour.from),
               devices_text(hour.gpu_milli),
               fleet == 0 ? "-" : std::to_string(hour.gpu_milli * 100 / fleet) + "%",
               mostly(hour)});
  }
  return table;
}

std::string title(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

// One column a unit, over all tenants that may be seen.
Table units_table(const wire::DemandView& view) {
  std::map<std::string, std::map<Instant, std::int64_t>> units;
  for (const wire::HourDemand& hour : view.hours)
    for (const wire::UnitDemand& one : hour.units) units[one.unit][hour.from] += one.count;
  std::vector<Column> columns{{"HOUR"}};
  for (const auto& [unit, hours] : units) columns.push_back({title(unit), Align::kRight});
  Table table(columns);
  for (const wire::HourDemand& hour : view.hours) {
    std::vector<std::string> row{local_time_text(hour.from)};
    for (auto& [unit, hours] : units) row.push_back(std::to_string(hours[hour.from]));
    table.add(row);
  }
  return table;
}

Table accuracy_table(const wire::ForecastAccuracy& view) {
  Table table({{"JOB"},
               {"STARTED"},
               {"TOLD P50", Align::kRight},
               {"TOLD P90", Align::kRight},
               {"WAITED", Align::kRight}});
  for (const wire::ToldStart& one : view.recent)
    table.add({one.job == JobId{} ? "-" : text(one.job),
               local_time_text(one.started),
               text(one.told_p50),
               text(one.told_p90),
               text(std::chrono::floor<std::chrono::seconds>(one.waited))});
  return table;
}

void add_layouts(const Command& group, Program& program) {
  const Command& command =
      add_command(group,
                  {"layouts",
                   "Hardware partitions that devices are kept ready for, by the demand expected",
                   "tranche forecast layouts\ntranche forecast layouts -o json"});
  command.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<wire::LayoutView>("/v1/forecast/layouts");
    const wire::LayoutView& view = answer.value;
    const auto table = [&] {
      Table rows({{"DEVICE"}, {"NODE"}, {"PROFILE"}, {"SLICE", Align::kRight}, {"PRIORITY", Align::kRight}});
      for (const wire::PlannedPartitionView& one : view.partitions)
        rows.add({text(one.device),
                  one.node,
                  one.profile,
                  std::to_string(one.start),
                  std::to_string(one.priority)});
      return rows;
    };
    session.print(answer.body, {.table = table});
    if (view.prepare_percent == 0)
      session.say("nothing is kept ready; to do so: tranche settings set --prepare 100");
  });
}

void add_accuracy(const Command& group, Program& program) {
  const Command& command = add_command(group,
                                       {"accuracy",
                                        "How start times that were told to waiting jobs came true",
                                        "tranche forecast accuracy\ntranche forecast accuracy -o json"});
  command.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<wire::ForecastAccuracy>("/v1/forecast/accuracy");
    const wire::ForecastAccuracy& view = answer.value;
    session.print(answer.body, {.table = [&] { return accuracy_table(view); }});
    if (!view.error_median) return session.say("nobody who was told a start time has started yet");
    session.say("median error " + text(std::chrono::floor<std::chrono::seconds>(*view.error_median)) +
                " over " + std::to_string(view.predictions) + " answers; " +
                std::to_string(view.started_by_p90_permille.value_or(0) / 10) +
                " % started by their P90 before it was stretched by past errors");
  });
}

}  // namespace

void add_forecast_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"forecast", "What the hours to come will ask for", "tranche forecast demand"});
  add_accuracy(group, program);
  add_layouts(group, program);
  const Command& command =
      add_command(group,
                  {"demand",
                   "Devices expected to be wanted, hour by hour, from the same hours of earlier weeks",
                   "tranche forecast demand\ntranche forecast demand --units\n"
                   "tranche forecast demand --hours 168 -o json"});
  const auto hours = std::make_shared<int>(24);
  command.add_option("--hours", *hours, "So many hours ahead")
      .type_name("HOURS")
      .between(1, 168)
      .capture_default_str();
  const auto by_units = std::make_shared<bool>(false);
  command.add_flag("--units", *by_units, "Frames, steps, requests and tokens, and not devices");
  command.callback([hours, by_units, &program] {
    Session& session = program.session();
    const auto answer = session.get<wire::DemandView>("/v1/forecast/demand?hours=" + std::to_string(*hours));
    if (*by_units) return session.print(answer.body, {.table = [&] { return units_table(answer.value); }});
    session.print(answer.body, {.table = [&] { return table_of(answer.value); }});
    if (answer.value.prepare_percent == 0) {
      session.say("shown only; to keep room for it: tranche settings set --prepare 100");
    } else {
      session.say("room is kept for " + std::to_string(answer.value.prepare_percent) +
                  " % of what work of higher priority will want");
    }
  });
}

}  // namespace tranche::cli
