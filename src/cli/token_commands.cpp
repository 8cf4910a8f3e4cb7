// SPDX-License-Identifier: Apache-2.0
// token: secrets that let programs and people in.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "wire/api_party.hpp"

namespace tranche::cli {
namespace {

using wire::IssuedToken;
using wire::TokenList;
using wire::TokenView;

std::string state_of(const TokenView& token) {
  if (token.revoked) return "revoked";
  if (token.expires && *token.expires <= std::chrono::system_clock::now()) return "expired";
  return "active";
}

View view_of(const std::vector<TokenView>& tokens) {
  return {
      .table =
          [&tokens] {
            Table table({{"TOKEN"}, {"PARTY"}, {"LABEL"}, {"SCOPE"}, {"STATE"}, {"CREATED"}, {"EXPIRES"}});
            for (const TokenView& token : tokens) {
              table.add({text(token.id),
                         token.path,
                         token.label,
                         wire::name_of(token.scope),
                         state_of(token),
                         local_time_text(token.created),
                         token.expires ? local_time_text(*token.expires) : "never"});
            }
            return table;
          },
      .names =
          [&tokens] {
            std::string names;
            for (const TokenView& token : tokens) names += text(token.id) + "\n";
            return names;
          }};
}

void add_create(const Command& group, Program& program) {
  struct Options {
    std::string party{}, label{}, scope = "admin", expires{};
  };
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(group,
                                       {"create",
                                        "Issue a token; its secret is shown once",
                                        "tranche token create --label laptop --expires 30d\n"
                                        "tranche token create --for acme/research/ci --scope jobs -o json"});
  command.add_option("--for", options->party, "Whom it lets in; else yourself").type_name("PARTY");
  command.add_option("--label", options->label, "What it is for").type_name("TEXT");
  command.add_option("--scope", options->scope, "read, jobs or admin: each includes those before it")
      .type_name("SCOPE");
  command.add_option("--expires", options->expires, "How long it works, such as 12h or 30d; else for ever")
      .type_name("DURATION");
  command.callback([options, &program] {
    Session& session = program.session();
    wire::NewToken body{.party = options->party,
                        .label = options->label,
                        .scope = enum_value<wire::Scope>("--scope", options->scope)};
    if (!options->expires.empty()) {
      body.expires_in = parse_duration(options->expires);
      if (!body.expires_in) throw usage_failure("--expires takes a duration such as 12h or 30d");
    }
    const auto answer =
        session.ask<IssuedToken>({.method = "POST", .path = "/v1/tokens", .body = wire::to_json(body)});
    const std::vector<TokenView> one{answer.value.token};
    View view = view_of(one);
    view.text = [&] { return answer.value.secret + "\n"; };
    session.print(answer.body, view);
    session.say("token " + text(answer.value.token.id) + " of " + answer.value.token.path +
                "; the secret above is not shown again");
  });
}

}  // namespace

void add_token_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"token", "Secrets that let programs and people in", "tranche token list"});
  add_create(group, program);

  const auto party = std::make_shared<std::string>();
  const Command& list =
      add_command(group, {"list", "List tokens", "tranche token list --of acme/research/ci"});
  list.add_option("--of", *party, "Whose; else yours").type_name("PARTY");
  list.callback([party, &program] {
    Session& session = program.session();
    const auto answer =
        session.get<TokenList>(party->empty() ? "/v1/tokens" : "/v1/tokens?party=" + path_segment(*party));
    session.print(answer.body, view_of(answer.value.items));
    if (party->empty()) session.say("these are yours; others: tranche token list --of PARTY");
  });

  const auto token = std::make_shared<std::string>();
  const Command& revoke =
      add_command(group, {"revoke", "End a token at once", "tranche token revoke tok_00002A -y"});
  revoke.add_option("token", *token, "Id, as `token list` shows it").required();
  revoke.callback([token, &program] {
    Session& session = program.session();
    session.confirm("Revoke " + *token + "?");
    session.call({.method = "DELETE", .path = "/v1/tokens/" + path_segment(*token)});
    session.say("revoked " + *token);
  });
}

}  // namespace tranche::cli
