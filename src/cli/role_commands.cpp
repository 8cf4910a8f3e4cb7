// SPDX-License-Identifier: Apache-2.0
// role: who holds what where.
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "wire/api_party.hpp"

namespace tranche::cli {
namespace {

using wire::RoleBinding;
using wire::RoleList;

View view_of(const std::vector<RoleBinding>& bindings) {
  return {.table =
              [&bindings] {
                Table table({{"HOLDER"}, {"ROLE"}, {"AT"}});
                for (const RoleBinding& binding : bindings) {
                  table.add({binding.holder, wire::name_of(binding.role), binding.at});
                }
                return table;
              },
          .names =
              [&bindings] {
                std::string names;
                for (const RoleBinding& binding : bindings) names += binding.holder + "\n";
                return names;
              }};
}

struct Binding {
  std::string role{}, holder{}, at{};
};

void add_binding_options(const Command& command, Binding& binding) {
  command
      .add_option("role",
                  binding.role,
                  "platform_owner, tenant_admin, subscriber_admin, member, viewer, auditor, billing or "
                  "capacity_owner")
      .required();
  command.add_option("--to,--of", binding.holder, "User or service account").required().type_name("PARTY");
  command.add_option("--at", binding.at, "Where it holds, with all below; else --subscriber")
      .type_name("PARTY");
}

}  // namespace

void add_role_commands(const Command& root, Program& program) {
  const Command& group = add_group(root, {"role", "Who may do what where", "tranche role list --at acme"});
  const auto options = std::make_shared<Binding>();

  const Command& grant =
      add_command(group,
                  {"grant",
                   "Give a role",
                   "tranche role grant subscriber_admin --to acme/research/ana --at acme/research"});
  add_binding_options(grant, *options);
  grant.callback([options, &program] {
    Session& session = program.session();
    const RoleBinding body{.at = session.party_or_default(options->at, "--at"),
                           .holder = options->holder,
                           .role = enum_value<wire::Role>("role", options->role)};
    const auto answer =
        session.ask<RoleBinding>({.method = "POST", .path = "/v1/roles", .body = wire::to_json(body)});
    const std::vector<RoleBinding> one{answer.value};
    session.print(answer.body, view_of(one));
  });

  const Command& revoke =
      add_command(group,
                  {"revoke",
                   "Take a role back",
                   "tranche role revoke member --of acme/research/ana --at acme/research -y"});
  add_binding_options(revoke, *options);
  revoke.callback([options, &program] {
    Session& session = program.session();
    const std::string at = session.party_or_default(options->at, "--at");
    const auto role = enum_value<wire::Role>("role", options->role);
    session.confirm("Take " + std::string(wire::name_of(role)) + " at " + at + " from " + options->holder +
                    "?");
    session.call({.method = "DELETE",
                  .path = "/v1/roles?at=" + path_segment(at) + "&holder=" + path_segment(options->holder) +
                          "&role=" + std::string(wire::name_of(role))});
    session.say("revoked");
  });

  const Command& list =
      add_command(group, {"list", "Who holds roles at a party", "tranche role list --at acme"});
  list.add_option("--at", options->at, "Party; else --subscriber, else the platform").type_name("PARTY");
  list.callback([options, &program] {
    Session& session = program.session();
    std::string at = options->at.empty() ? session.target().subscriber : options->at;
    if (at.empty()) at = "platform";
    const auto answer = session.get<RoleList>("/v1/roles?at=" + path_segment(at));
    session.print(answer.body, view_of(answer.value.items));
    if (options->at.empty())
      session.say("these are bound to " + at + "; others: tranche role list --at PARTY");
  });
}

}  // namespace tranche::cli
