// SPDX-License-Identifier: Apache-2.0
// events: what happens, as it happens, in the order of the journal.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "wire/api_job.hpp"

namespace tranche::cli {
namespace {

struct Options {
  bool follow = false;
  std::string from{};
  std::uint64_t count = 0;
  std::string type{};
};

std::string line_of(const wire::LiveEvent& event, std::string_view json, Output output) {
  switch (output) {
    case Output::kJson:
    case Output::kJsonl:
      return std::string(json) + "\n";
    case Output::kYaml:
      return "---\n" + yaml_of_json(json);
    case Output::kName:
      return std::to_string(event.sequence) + "\n";
    case Output::kCsv: {
      Table table({{""}, {""}, {""}, {""}, {""}});
      table.add(
          {std::to_string(event.sequence), text(event.at), event.type, event.about_path, event.data.text});
      const std::string csv = table.csv();
      return csv.substr(csv.find('\n') + 1);
    }
    case Output::kTable:
    case Output::kWide:
      break;
  }
  std::string line = std::to_string(event.sequence);
  line.insert(0, line.size() < 8 ? 8 - line.size() : 0, ' ');
  line += "  " + local_time_text(event.at) + "  " + event.type;
  line.append(event.type.size() < 18 ? 18 - event.type.size() : 0, ' ');
  line += "  " + event.about_path;
  if (output == Output::kWide) line += "  " + event.data.text;
  return line + "\n";
}

void show(Session& session, const Options& options) {
  std::uint64_t shown = 0;
  const std::string from = options.from.empty() && !options.follow ? "0" : options.from;
  if (!from.empty() && !parse_whole(from))
    throw usage_failure("--from takes the number of an event, not '" + from + "'");
  if (session.output() == Output::kCsv) write_stdout("SEQUENCE,AT,TYPE,ABOUT,DATA\n");
  const auto on_event = [&](const net::ServerEvent& received) {
    const auto event = Session::parsed<wire::LiveEvent>(received.data);
    if (!options.type.empty() && event.type != options.type) return true;
    write_stdout(line_of(event, received.data, session.output()));
    return ++shown < options.count || options.count == 0;
  };
  Follow how{.last_id = from};
  if (!options.follow) how.until_silent_for = std::chrono::milliseconds(500);
  session.follow("/v1/events", std::move(how), on_event);
  if (shown == 0 && !options.type.empty())
    session.say("no event of type '" + options.type + "'; tranche events shows the types there are");
}

}  // namespace

void add_event_commands(const Command& root, Program& program) {
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(root,
                                       {"events",
                                        "What happened, and with -f what happens",
                                        "tranche events -f\n"
                                        "tranche events --from 1200 --type job_submitted -o jsonl"});
  command.add_flag(
      "-f,--follow", options->follow, "Stay, and show events as they come; from now on unless --from");
  command.add_option("--from", options->from, "Begin after this number; without -f else with the first")
      .type_name("NUMBER");
  command.add_option("--count", options->count, "End after so many").type_name("COUNT");
  command.add_option("--type", options->type, "Only events of this type, such as job_submitted")
      .type_name("TYPE");
  command.callback([options, &program] { show(program.session(), *options); });
}

}  // namespace tranche::cli
