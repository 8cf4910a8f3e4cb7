// SPDX-License-Identifier: Apache-2.0
// rules: the policy file of a party.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/rules_file.hpp"
#include "cli/terminal.hpp"
#include "wire/api_party.hpp"

namespace tranche::cli {
namespace {

using wire::RulesView;

std::string route_of(const std::string& party) {
  return "/v1/rules/" + path_segment(party);
}

void print(Session& session, const Answer<RulesView>& answer) {
  const auto table = [&] {
    Table rows({{"RULE"}, {"WHEN"}, {"THEN"}});
    for (const wire::Rule& rule : answer.value.rules)
      rows.add({rule.name, when_text(rule.when), then_text(rule.then)});
    return rows;
  };
  const auto names = [&] {
    std::string out;
    for (const wire::Rule& rule : answer.value.rules) out += rule.name + "\n";
    return out;
  };
  session.print(answer.body, {.table = table, .names = names});
  if (answer.value.rules.empty()) session.say("no rules at " + answer.value.path);
}

}  // namespace

void add_rules_commands(const Command& root, Program& program) {
  struct Options {
    std::string party{}, file{};
  };
  const auto options = std::make_shared<Options>();
  const Command& group = add_group(root, {"rules", "The policy of a party", "tranche rules show acme"});
  const Command& show = add_command(
      group, {"show", "Show its rules", "tranche rules show acme/research\ntranche rules show acme -o yaml"});
  show.add_option("party", options->party, "Id or path; else --subscriber");
  show.callback([options, &program] {
    Session& session = program.session();
    print(session, session.get<RulesView>(route_of(session.party_or_default(options->party, "the party"))));
  });
  const Command& set = add_command(group,
                                   {"set",
                                    "Put a file of rules in place of the present ones",
                                    "tranche rules set acme/research -f rules.yaml"});
  set.add_option("party", options->party, "Id or path; else --subscriber");
  set.add_option("-f,--file", options->file, "YAML or JSON; '-' is stdin").required().type_name("FILE");
  set.callback([options, &program] {
    Session& session = program.session();
    const wire::RulesBody body = read_rules(read_file_or_stdin(options->file), options->file);
    const std::string route = route_of(session.party_or_default(options->party, "the party"));
    const auto before = session.get<RulesView>(route, Explain::kPreparation);
    print(
        session,
        session.ask<RulesView>(
            {.method = "PUT", .path = route, .body = wire::to_json(body), .if_match = before.value.version}));
  });
}

}  // namespace tranche::cli
