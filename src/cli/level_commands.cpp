// SPDX-License-Identifier: Apache-2.0
// level: what the platform promises, and whether it keeps it.
#include <charconv>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "wire/api_level.hpp"

namespace tranche::cli {
namespace {

using wire::LevelList;
using wire::LevelView;

std::string percent_text(std::uint32_t permille) {
  return std::to_string(permille / 10) + "." + std::to_string(permille % 10) + "%";
}

std::uint32_t permille_of(const std::string& option, std::string given) {
  if (given.ends_with('%')) given.pop_back();
  double percent = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), percent);
  if (error != std::errc{} || end != given.data() + given.size() || percent <= 0 || percent > 100)
    throw usage_failure(option + " takes a percentage such as 99% or 99.5%");
  return static_cast<std::uint32_t>(percent * 10 + 0.5);
}

std::string promise_text(const LevelView& level) {
  std::string out;
  if (level.start_within) out = "starts within " + text(*level.start_within);
  if (level.keep_deadlines) out += std::string(out.empty() ? "" : ", ") + "ends by its deadline";
  if (level.delivered_permille > 0)
    out +=
        std::string(out.empty() ? "" : ", ") + percent_text(level.delivered_permille) + " of what is booked";
  if (level.keep_objectives) out += std::string(out.empty() ? "" : ", ") + "services keep their objectives";
  if (level.guarantee_permille > 0)
    out += std::string(out.empty() ? "" : ", ") + percent_text(level.guarantee_permille) +
           " of its guarantee, as asked for";
  for (std::size_t i = 0; i < level.kinds.size(); ++i)
    out += (i == 0 ? " (" : ", ") + std::string(wire::name_of(level.kinds[i])) +
           (i + 1 == level.kinds.size() ? ")" : "");
  return out;
}

std::string delivered_text(const LevelView& level) {
  std::string out;
  if (level.was_delivered_permille) out = percent_text(*level.was_delivered_permille);
  if (level.was_guaranteed_permille)
    out += (out.empty() ? "" : ", ") + percent_text(*level.was_guaranteed_permille);
  return out.empty() ? "-" : out;
}

Table table_of(const std::vector<LevelView>& levels) {
  Table table({{"LEVEL"},
               {"PARTY"},
               {"PROMISE"},
               {"TARGET", Align::kRight},
               {"KEPT", Align::kRight},
               {"MISSED", Align::kRight},
               {"ATTAINED", Align::kRight},
               {"DELIVERED", Align::kRight},
               {"AT RISK", Align::kRight},
               {"CREDIT", Align::kRight},
               {"CREDITED", Align::kRight}});
  for (const LevelView& one : levels)
    table.add({one.name,
               one.party,
               promise_text(one),
               percent_text(one.target_permille),
               std::to_string(one.kept),
               std::to_string(one.missed),
               one.attained_permille ? percent_text(*one.attained_permille) : "-",
               delivered_text(one),
               std::to_string(one.at_risk.size()),
               std::to_string(one.credit_percent) + "%",
               text(one.credited)});
  return table;
}

std::string story_of(const LevelView& level) {
  std::string out;
  if (level.before)
    out += level.name + ": in " + text(level.before->month).substr(0, 7) + " " +
           std::to_string(level.before->kept) + " kept, " + std::to_string(level.before->missed) +
           " missed, " + text(level.before->credited) + " credited\n";
  for (const wire::LevelMissView& miss : level.misses) {
    out += level.name + ": ";
    if (!miss.service.empty()) {
      out += miss.service + " answered " + percent_text(miss.in_time_permille.value_or(0)) +
             " of an hour's requests in time\n";
      continue;
    }
    if (miss.day) {
      out += "its guarantee was delivered to " + percent_text(miss.delivered_permille.value_or(0)) + " on " +
             text(*miss.day).substr(0, 10) + "\n";
      continue;
    }
    out += miss.booking ? "a window of " + text(*miss.booking) + " was there to " +
                              percent_text(miss.delivered_permille.value_or(0)) + "\n"
                        : text(miss.job) + " missed its " + miss.what + " by " + text(miss.late) + "\n";
  }
  for (const wire::LevelRiskView& risk : level.at_risk) {
    if (!risk.service.empty()) {
      out += level.name + ": " + risk.service + " is below its target in this hour\n";
      continue;
    }
    if (risk.missing_gpu_milli) {
      out += level.name + ": " + gpus_text(*risk.missing_gpu_milli) +
             " GPUs of the guarantee: " + risk.message + "\n";
      continue;
    }
    out += level.name + ": " + (risk.booking ? text(*risk.booking) : text(risk.job)) +
           (risk.left > Duration{} ? " is at risk in " + text(risk.left) : " is late already") + "\n";
  }
  return out;
}

void print(Session& session, const std::string& body, const std::vector<LevelView>& levels) {
  session.print(body, {.table = [&] { return table_of(levels); }});
}

void add_set(const Command& group, Program& program) {
  struct Options {
    wire::LevelSpec level{};
    std::string start{};
    std::vector<std::string> kinds{};
    double target = 99;
    std::string delivered{}, guarantee{};
  };
  const auto options = std::make_shared<Options>();
  const Command& command =
      add_command(group,
                  {"set",
                   "Promise something to a party",
                   "tranche level set gold --party acme --start-within 5m --target 99.5 --credit 10\n"
                   "tranche level set film --party acme/studio --deadlines --kind render --credit 25\n"
                   "tranche level set firm --party acme --delivered 99% --credit 100\n"
                   "tranche level set chat --party acme --objectives --target 99 --credit 10\n"
                   "tranche level set floor --party acme --guarantee 99.5% --credit 50"});
  command.add_option("name", options->level.name, "For people").required();
  command.add_option("--party", options->level.party, "To whom, and everyone below")
      .required()
      .type_name("PARTY");
  command.add_option("--start-within", options->start, "Jobs begin within so long of their submission")
      .type_name("DURATION");
  command.add_flag("--deadlines", options->level.keep_deadlines, "Jobs with a deadline end by it");
  command.add_flag(
      "--objectives", options->level.keep_objectives, "Services answer within their latency objectives");
  command.add_option("--delivered", options->delivered, "Of what is booked, so much is really there")
      .type_name("PERCENT");
  command
      .add_option("--guarantee",
                  options->guarantee,
                  "Of its guarantee, as far as it asks for it, so much is delivered each day")
      .type_name("PERCENT");
  command.add_option("--kind", options->kinds, "Only for such workloads; may be repeated")
      .type_name("KIND")
      .repeatable();
  command.add_option("--target", options->target, "Percent of jobs that keep it")
      .type_name("PERCENT")
      .capture_default_str();
  command
      .add_option("--credit",
                  options->level.credit_percent,
                  "Percent of a job's cost that comes back when it is missed")
      .type_name("PERCENT");
  command.callback([options, &program] {
    wire::LevelSpec level = options->level;
    if (!options->start.empty()) {
      level.start_within = parse_duration(options->start);
      if (!level.start_within) throw usage_failure("--start-within takes a duration such as 5m");
    }
    for (const std::string& name : options->kinds) {
      const auto kind = wire::from_name<wire::WorkloadKind>(name);
      if (!kind)
        throw usage_failure(
            "--kind takes inference, finetune, training, render, video, interactive or batch");
      level.kinds.push_back(*kind);
    }
    if (options->target < 0 || options->target > 100)
      throw usage_failure("--target takes a percentage up to 100");
    if (!options->delivered.empty())
      level.delivered_permille = permille_of("--delivered", options->delivered);
    if (!options->guarantee.empty())
      level.guarantee_permille = permille_of("--guarantee", options->guarantee);
    level.target_permille = static_cast<std::uint32_t>(options->target * 10 + 0.5);
    Session& session = program.session();
    const auto answer =
        session.ask<LevelView>({.method = "PUT", .path = "/v1/levels", .body = wire::to_json(level)});
    print(session, answer.body, {answer.value});
  });
}

}  // namespace

void add_level_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"level", "What is promised to whom, and whether it is kept", "tranche level list"});
  add_set(group, program);
  const Command& list =
      add_command(group, {"list", "Service levels of this month, and jobs at risk", "tranche level list"});
  list.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<LevelList>("/v1/levels");
    print(session, answer.body, answer.value.items);
    for (const LevelView& level : answer.value.items)
      if (const std::string story = story_of(level); !story.empty())
        session.say(story.substr(0, story.size() - 1));
  });
  const auto removed = std::make_shared<std::pair<std::string, std::string>>();
  const Command& remove = add_command(group, {"rm", "Promise it no more", "tranche level rm acme gold"});
  remove.add_option("party", removed->first, "To whom it was promised").required();
  remove.add_option("name", removed->second, "Its name").required();
  remove.callback([removed, &program] {
    program.session().call(
        {.method = "DELETE",
         .path = "/v1/levels/" + path_segment(removed->first) + "/" + path_segment(removed->second)});
    program.session().say(removed->second + " is promised no more");
  });
}

}  // namespace tranche::cli
