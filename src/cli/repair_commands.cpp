// SPDX-License-Identifier: Apache-2.0
// repair: devices that somebody must look at, from the first word to the day they are back or given up.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/fleet_commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "wire/api_health.hpp"

namespace tranche::cli {
namespace {

using wire::RepairList;
using wire::RepairView;

Table repair_table(const std::vector<RepairView>& repairs) {
  Table table({{"REPAIR"},
               {"DEVICE"},
               {"NODE"},
               {"MODEL"},
               {"STATE"},
               {"DEVICE IS"},
               {"OPENED"},
               {"TICKET"},
               {"REASON"}});
  for (const RepairView& one : repairs)
    table.add({one.id,
               text(one.device),
               one.node,
               one.model,
               wire::name_of(one.state),
               wire::name_of(one.device_state),
               local_time_text(one.opened),
               one.ticket.empty() ? "-" : one.ticket,
               one.reason});
  return table;
}

std::string repair_text(const RepairView& one) {
  std::string out = repair_table({one}).text();
  if (one.expected) out += "\nexpected back " + local_time_text(*one.expected) + "\n";
  if (!one.note.empty()) out += "\n" + one.note + "\n";
  if (one.evidence.empty()) return out;
  Table table({{"AT"}, {"SIGNAL"}, {"VALUE", Align::kRight}, {"LED TO"}, {"TABLE"}, {"TEXT"}});
  for (const wire::SignalView& seen : one.evidence)
    table.add({local_time_text(seen.at),
               seen.source + ' ' + std::to_string(seen.code),
               std::to_string(seen.value),
               seen.action,
               seen.table_version,
               seen.text});
  return out + "\n" + table.text();
}

void print(Session& session, const Answer<RepairView>& answer) {
  session.print(answer.body,
                {.table = [&] { return repair_table({answer.value}); },
                 .text = [&] { return repair_text(answer.value); },
                 .names = [&] { return answer.value.id + "\n"; }});
}

void add_repair_change(const Command& group, Program& program, const CommandText& words) {
  struct Options {
    std::string id{}, ticket{}, note{}, expected{};
  };
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(group, words);
  command.add_option("repair", options->id, "As `repair list` shows it").required();
  command.add_option("--ticket", options->ticket, "Of whoever mends it").type_name("TEXT");
  command.add_option("--note", options->note, "A word about it").type_name("TEXT");
  command.add_option("--expected", options->expected, "When it should be back").type_name("TIME");
  command.callback([options, name = words.name, &program] {
    wire::RepairChange body{.ticket = options->ticket, .note = options->note};
    if (!options->expected.empty()) {
      body.expected = parse_instant(options->expected);
      if (!body.expected)
        throw usage_failure("--expected takes a time such as 2027-01-01T00:00:00Z, not '" +
                            options->expected + "'");
    }
    Session& session = program.session();
    print(session,
          session.ask<RepairView>({.method = "POST",
                                   .path = "/v1/repairs/" + path_segment(options->id) + "/" + name,
                                   .body = wire::to_json(body)}));
  });
}

void add_repair_open(const Command& group, Program& program) {
  const auto device = std::make_shared<std::string>(), reason = std::make_shared<std::string>();
  const Command& command = add_command(group,
                                       {"open",
                                        "Take a device out of service by hand: its jobs are moved first",
                                        "tranche repair open gpu_000003 --reason 'the fan rattles'"});
  command.add_option("device", *device, "As `gpus` and `health board` show it").required();
  command.add_option("--reason", *reason, "Why; its tenants see it").type_name("TEXT").required();
  command.callback([device, reason, &program] {
    const auto id = parse_id("gpu_", *device);
    if (!id) throw usage_failure("'" + *device + "' is no device; tranche health board shows them");
    Session& session = program.session();
    print(session,
          session.ask<RepairView>(
              {.method = "POST",
               .path = "/v1/repairs",
               .body = wire::to_json(wire::RepairOpen{.device = DeviceId{*id}, .reason = *reason})}));
  });
}

void add_repair_retire(const Command& group, Program& program) {
  const auto id = std::make_shared<std::string>(), reason = std::make_shared<std::string>();
  const Command& command =
      add_command(group,
                  {"retire",
                   "Not worth mending: the device is never used again, here or in another machine",
                   "tranche repair retire rep_3 --reason 'out of warranty' -y"});
  command.add_option("repair", *id, "As `repair list` shows it").required();
  command.add_option("--reason", *reason, "Why; it stays on the board").type_name("TEXT").required();
  command.callback([id, reason, &program] {
    Session& session = program.session();
    session.confirm("Retire the device of " + *id + " for good?");
    print(session,
          session.ask<RepairView>({.method = "POST",
                                   .path = "/v1/repairs/" + path_segment(*id) + "/retire",
                                   .body = wire::to_json(wire::RepairChange{.note = *reason})}));
  });
}

}  // namespace

void add_repair_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"repair", "Devices that somebody must look at", "tranche repair list"});
  const auto all = std::make_shared<bool>(false);
  const Command& list =
      add_command(group, {"list", "What is open", "tranche repair list\ntranche repair list --all"});
  list.add_flag("--all", *all, "Those that are over, too");
  list.callback([all, &program] {
    Session& session = program.session();
    const auto answer = session.get<RepairList>(*all ? "/v1/repairs?all=true" : "/v1/repairs");
    session.print(answer.body,
                  {.table = [&] { return repair_table(answer.value.items); },
                   .names =
                       [&] {
                         std::string names;
                         for (const RepairView& one : answer.value.items) names += one.id + "\n";
                         return names;
                       }});
    if (answer.value.items.empty()) session.say("nothing is open; tranche health board shows every device");
  });
  const auto id = std::make_shared<std::string>();
  const Command& show =
      add_command(group, {"show", "One repair with its evidence", "tranche repair show rep_3"});
  show.add_option("repair", *id, "As `repair list` shows it").required();
  show.callback([id, &program] {
    Session& session = program.session();
    print(session, session.get<RepairView>("/v1/repairs/" + path_segment(*id)));
  });
  add_repair_open(group, program);
  add_repair_change(group,
                    program,
                    {"accept",
                     "Take it on: the device goes to repair",
                     "tranche repair accept rep_3 --ticket RMA-4711 --expected 2026-12-01T12:00:00Z"});
  add_repair_change(group,
                    program,
                    {"dismiss",
                     "Nothing is wrong: the device is tested again, and comes back if it passes",
                     "tranche repair dismiss rep_3 --note 'cable was loose'"});
  add_repair_change(group,
                    program,
                    {"return",
                     "Mended: the device is tested in full, and comes back if it passes",
                     "tranche repair return rep_3"});
  add_repair_retire(group, program);
}

}  // namespace tranche::cli
