// SPDX-License-Identifier: Apache-2.0
// tenant, subscriber, user, service-account: create, list, show, rename, disable, enable; user passwd.
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/tenant_start.hpp"
#include "cli/terminal.hpp"
#include "wire/api_party.hpp"

namespace tranche::cli {
namespace {

using wire::PartyList;
using wire::PartyView;

struct Kind {
  std::string noun{};     // As typed: service-account.
  std::string route{};    // As in the API: service-accounts.
  std::string example{};  // A path of this kind.
};

std::string route_of(const Kind& kind, const std::string& party) {
  return "/v1/" + kind.route + "/" + path_segment(party);
}

View view_of(const std::vector<PartyView>& parties) {
  return {.table =
              [&parties] {
                Table table({{"PATH"},
                             {"ID"},
                             {"STATE"},
                             {"CREATED"},
                             {"TIME ZONE", Align::kLeft, Show::kWide},
                             {"VERSION", Align::kRight, Show::kWide}});
                for (const PartyView& party : parties) {
                  table.add({party.path,
                             text(party.id),
                             party.disabled ? "disabled" : "active",
                             local_time_text(party.created),
                             party.time_zone,
                             std::to_string(party.version)});
                }
                return table;
              },
          .names =
              [&parties] {
                std::string names;
                for (const PartyView& party : parties) names += party.path + "\n";
                return names;
              }};
}

void print_one(Session& session, const Answer<PartyView>& answer) {
  const std::vector<PartyView> one{answer.value};
  session.print(answer.body, view_of(one));
}

// "acme/research/ana" -> parent acme/research, name ana.
wire::NewParty new_party(const Kind& kind, const std::string& path, const std::string& parent) {
  const std::size_t slash = path.rfind('/');
  if (kind.noun == "tenant") return {.name = path};
  if (!parent.empty()) return {.name = path, .parent = parent};
  if (slash == std::string::npos) {
    throw usage_failure("where should the " + kind.noun + " '" + path + "' be?",
                        "give its path, such as " + kind.example + ", or --in PARTY");
  }
  return {.name = path.substr(slash + 1), .parent = path.substr(0, slash)};
}

void add_create(const Command& group, Program& program, const Kind& kind) {
  struct Options {
    std::string path{}, parent{}, time_zone{};
    std::vector<std::string> roles{};
    TenantStart start{};
  };
  const auto options = std::make_shared<Options>();
  const bool holds_roles = kind.noun == "user" || kind.noun == "service-account";
  const Command& command = add_command(
      group,
      {"create",
       "Create a " + kind.noun,
       "tranche " + kind.noun + " create " + kind.example + (holds_roles ? " --role member" : "") +
           (kind.noun == "tenant" ? "\ntranche tenant create acme --gpus 10GB --run 'python train.py'"
                                  : "")});
  command.add_option("path", options->path, "Where and what it is, such as " + kind.example).required();
  if (kind.noun != "tenant") {
    command.add_option("--in", options->parent, "The party it belongs to, if the path is only a name")
        .type_name("PARTY");
  }
  if (kind.noun == "tenant") {
    command
        .add_option(
            "--run", options->start.run, "Also make its first user and token, and run this line in a job")
        .type_name("COMMAND");
    command.add_option("--gpus", options->start.gpus, "With --run: what the job needs").type_name("GPUS");
    command.add_option("--user", options->start.user, "With --run: the first user; else admin")
        .type_name("NAME");
  }
  command.add_option("--time-zone", options->time_zone, "IANA name, such as Europe/Madrid").type_name("ZONE");
  if (holds_roles) {
    command.add_option("--role", options->roles, "Role at its parent; may be repeated; else member")
        .type_name("ROLE")
        .repeatable();
  }
  command.callback([options, kind, &program] {
    Session& session = program.session();
    if (!options->start.run.empty()) {
      options->start.tenant = options->path;
      options->start.time_zone = options->time_zone;
      return start_tenant(session, options->start);
    }
    const std::string in =
        options->parent.empty() && options->path.find('/') == std::string::npos && kind.noun != "tenant"
            ? session.target().subscriber
            : options->parent;
    wire::NewParty body = new_party(kind, options->path, in);
    body.time_zone = options->time_zone;
    for (const std::string& role : options->roles)
      body.roles.push_back(enum_value<wire::Role>("--role", role));
    print_one(
        session,
        session.ask<PartyView>({.method = "POST", .path = "/v1/" + kind.route, .body = wire::to_json(body)}));
  });
}

void add_list(const Command& group, Program& program, const Kind& kind) {
  const auto under = std::make_shared<std::string>();
  const Command& command = add_command(
      group, {"list", "List every " + kind.noun + " you may see", "tranche " + kind.noun + " list -o wide"});
  if (kind.noun != "tenant") {
    command.add_option("--under", *under, "Only this party and those below it").type_name("PARTY");
  }
  command.callback([under, kind, &program] {
    Session& session = program.session();
    const std::string below = !under->empty() || kind.noun == "tenant" ? *under : session.target().subscriber;
    const auto answer = session.get_all<PartyList>("/v1/" + kind.route + "?limit=1000" +
                                                   (below.empty() ? "" : "&under=" + path_segment(below)));
    session.print(answer.body, view_of(answer.value.items));
  });
}

void add_show(const Command& group, Program& program, const Kind& kind) {
  const auto party = std::make_shared<std::string>();
  const Command& command = add_command(
      group,
      {"show", "Show one " + kind.noun, "tranche " + kind.noun + " show " + kind.example + " -o json"});
  command.add_option("party", *party, "Id or path").required();
  command.callback([party, kind, &program] {
    Session& session = program.session();
    print_one(session, session.get<PartyView>(route_of(kind, *party)));
  });
}

// Reads, then changes that very version: two people at once do not overwrite each other.
void patch(Session& session, const Kind& kind, const std::string& party, const wire::PartyPatch& change) {
  const auto now = session.get<PartyView>(route_of(kind, party), Explain::kPreparation);
  print_one(session,
            session.ask<PartyView>({.method = "PATCH",
                                    .path = route_of(kind, text(now.value.id)),
                                    .body = wire::to_json(change),
                                    .if_match = now.value.version}));
}

void add_changes(const Command& group, Program& program, const Kind& kind) {
  struct Options {
    std::string party{}, name{};
  };
  const auto options = std::make_shared<Options>();
  const Command& rename = add_command(
      group,
      {"rename", "Give it another name", "tranche " + kind.noun + " rename " + kind.example + " newname"});
  rename.add_option("party", options->party, "Id or path").required();
  rename.add_option("name", options->name, "The new last part of its path").required();
  rename.callback(
      [options, kind, &program] { patch(program.session(), kind, options->party, {.name = options->name}); });
  const Command& disable = add_command(group,
                                       {"disable",
                                        "Refuse its tokens, and new work of it and all below it",
                                        "tranche " + kind.noun + " disable " + kind.example + " -y"});
  disable.add_option("party", options->party, "Id or path").required();
  disable.callback([options, kind, &program] {
    program.session().confirm("Disable the " + kind.noun + " " + options->party + " and all below it?");
    patch(program.session(), kind, options->party, {.disabled = true});
  });
  const Command& enable =
      add_command(group, {"enable", "Undo disable", "tranche " + kind.noun + " enable " + kind.example});
  enable.add_option("party", options->party, "Id or path").required();
  enable.callback(
      [options, kind, &program] { patch(program.session(), kind, options->party, {.disabled = false}); });
}

void add_passwd(const Command& group, Program& program) {
  const auto user = std::make_shared<std::string>();
  const Command& command = add_command(group,
                                       {"passwd",
                                        "Set a password; read from the terminal without echo, or from stdin",
                                        "tranche user passwd acme/research/ana\n"
                                        "tranche user passwd acme/research/ana < password.txt"});
  command.add_option("user", *user, "Id or path").required();
  command.callback([user, &program] {
    Session& session = program.session();
    wire::NewPassword body{.password = read_secret("New password for " + *user + ": ")};
    if (stdin_is_terminal() && read_secret("Again: ") != body.password) {
      throw usage_failure("the two are not the same", "nothing was changed");
    }
    session.call({.method = "PUT",
                  .path = "/v1/users/" + path_segment(*user) + "/password",
                  .body = wire::to_json(body)});
    session.say("password set");
  });
}

}  // namespace

void add_party_commands(const Command& root, Program& program) {
  const std::vector<std::pair<Kind, std::string>> kinds{
      {{"tenant", "tenants", "acme"}, "Organisations that consume or offer capacity"},
      {{"subscriber", "subscribers", "acme/research"},
       "Business units, projects and customers; they may nest"},
      {{"user", "users", "acme/research/ana"}, "People"},
      {{"service-account", "service-accounts", "acme/research/ci"}, "Programs that act by themselves"}};
  for (const auto& [kind, about] : kinds) {
    const Command& group = add_group(root, {kind.noun, about, "tranche " + kind.noun + " list"});
    add_create(group, program, kind);
    add_list(group, program, kind);
    add_show(group, program, kind);
    add_changes(group, program, kind);
    if (kind.noun == "user") add_passwd(group, program);
  }
}

}  // namespace tranche::cli
