// SPDX-License-Identifier: Apache-2.0
// recurring: jobs that run again and again. `run --every` sets them.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/recurring.hpp"

namespace tranche::cli {
namespace {

using wire::RecurringList;
using wire::RecurringView;

Table table_of(const std::vector<RecurringView>& jobs) {
  Table table({{"NAME"},
               {"OWNER"},
               {"EVERY"},
               {"ZONE"},
               {"NEXT"},
               {"RUNS", Align::kRight},
               {"PASSED OVER", Align::kRight},
               {"LAST"},
               {"PROBLEM"}});
  for (const RecurringView& one : jobs)
    table.add({one.name,
               one.owner,
               one.every,
               one.zone,
               one.next ? text(*one.next) : "never",
               std::to_string(one.runs),
               std::to_string(one.passed_over),
               one.last ? text(*one.last) : "-",
               one.problem});
  return table;
}

std::string names_of(const std::vector<RecurringView>& jobs) {
  std::string names;
  for (const RecurringView& one : jobs) names += one.name + "\n";
  return names;
}

}  // namespace

void print_recurring(Session& session, const std::string& body, const std::vector<RecurringView>& jobs) {
  session.print(body, {.table = [&] { return table_of(jobs); }, .names = [&] { return names_of(jobs); }});
}

void add_recurring_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root,
                {"recurring",
                 "Jobs that run again and again",
                 "tranche recurring list\n"
                 "tranche run --name nightly --every \"weekdays 22:00\" --tz Europe/Madrid -- ./train.sh"});
  const Command& list = add_command(group, {"list", "List them", "tranche recurring list -o json"});
  list.callback([&program] {
    const auto answer = program.session().get<RecurringList>("/v1/recurring");
    print_recurring(program.session(), answer.body, answer.value.items);
  });
  const auto shown = std::make_shared<std::string>();
  const Command& show = add_command(group, {"show", "One of them", "tranche recurring show nightly"});
  show.add_option("name", *shown, "Its name").required();
  show.callback([shown, &program] {
    const auto answer = program.session().get<RecurringView>("/v1/recurring/" + path_segment(*shown));
    print_recurring(program.session(), answer.body, {answer.value});
  });
  const auto removed = std::make_shared<std::string>();
  const Command& remove =
      add_command(group, {"rm", "Run it no more; what runs now goes on", "tranche recurring rm nightly"});
  remove.add_option("name", *removed, "Its name").required();
  remove.callback([removed, &program] {
    program.session().call({.method = "DELETE", .path = "/v1/recurring/" + path_segment(*removed)});
    program.session().say(*removed + " runs no more");
  });
}

}  // namespace tranche::cli
