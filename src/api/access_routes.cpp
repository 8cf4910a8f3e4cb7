// SPDX-License-Identifier: Apache-2.0
// Who may do what, and how they prove who they are: whoami, roles, tokens, passwords, sessions.
#include <algorithm>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "api/secrets.hpp"
#include "api/views.hpp"
#include "base/wall_clock.hpp"
#include "wire/fields.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
constexpr Duration kSessionLength = std::chrono::hours(12);
constexpr std::size_t kPasswordMin = 12, kPasswordMax = 1024;

wire::RoleBinding binding(const State& state, PartyId at, const engine::Grant& grant) {
  return {engine::path_of(state, at), engine::path_of(state, grant.holder), grant.role};
}

void whoami(Api& api, Call call) {
  const std::string version = api.options().version;
  api.view(std::move(call),
           [version](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             wire::Whoami out{.party = view_of(state, state.parties.at(actor.party)),
                              .scope = actor.scope,
                              .server_version = version};
             for (const auto& [id, party] : state.parties) {
               for (const engine::Grant& grant : party.grants) {
                 if (grant.holder == actor.party) out.roles.push_back(binding(state, id, grant));
               }
             }
             return json(out);
           });
}

void list_roles(Api& api, Call call) {
  const std::string at(call.query_value("at"));
  api.view(std::move(call),
           [at](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             wire::RoleList out;
             const PartyId wanted = at.empty() ? PartyId{} : engine::find_path(state, at);
             if (!at.empty() &&
                 (wanted == PartyId{} || !engine::may(state, actor, engine::Action::kViewParty, wanted))) {
               return refuse(engine::not_found());
             }
             for (const auto& [id, party] : state.parties) {
               if (wanted != PartyId{} && id != wanted) continue;
               const bool all = engine::may(state, actor, engine::Action::kViewParty, id);
               for (const engine::Grant& grant : party.grants) {
                 if (all || grant.holder == actor.party) out.items.push_back(binding(state, id, grant));
               }
             }
             return json(out);
           });
}

// Both parties of a binding are looked up before the engine is asked.
template <class Command>
void change_role(Api& api, Call call, const wire::RoleBinding& wanted, int status) {
  api.with_party(std::move(call), wanted.at, [&api, wanted, status](Call next, PartyId at) {
    api.with_party(std::move(next), wanted.holder, [&api, wanted, status, at](Call last, PartyId holder) {
      api.run(std::move(last), Command{at, holder, wanted.role}, [wanted, status](const server::Outcome&) {
        return status == 204 ? no_content() : json(wanted, status);
      });
    });
  });
}

void grant_role(Api& api, Call call) {
  const auto body = parse<wire::RoleBinding>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  change_role<engine::GrantRole>(api, std::move(call), *body, 201);
}

void revoke_role(Api& api, Call call) {
  const auto role = wire::from_name<wire::Role>(call.query_value("role"));
  if (!role) {
    return call.reply.send(problem(wire::Problem{"role", "there is no such role", "see /openapi.json"},
                                   call.envelope.request_id));
  }
  const wire::RoleBinding wanted{
      std::string(call.query_value("at")), std::string(call.query_value("holder")), *role};
  change_role<engine::RevokeRole>(api, std::move(call), wanted, 204);
}

void list_tokens(Api& api, Call call) {
  const std::string name(call.query_value("party"));
  api.view(std::move(call),
           [name](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const PartyId wanted = name.empty() ? actor.party : engine::find_path(state, name);
             if (!engine::may(state, actor, engine::Action::kIssueToken, wanted) && wanted != actor.party) {
               return refuse(engine::not_found());
             }
             wire::TokenList out;
             for (const auto& [id, token] : state.tokens) {
               if (token.party == wanted) out.items.push_back(view_of(state, token));
             }
             return json(out);
           });
}

net::Response issued(const server::Outcome& outcome, const std::string& secret) {
  const TokenId id = std::get<engine::TokenIssued>(outcome.events->front()).id;
  // Asked again with the same key, the secret is gone: it was never stored.
  return json(wire::IssuedToken{view_of(*outcome.state, outcome.state->tokens.at(id)),
                                outcome.replayed ? "" : secret},
              201);
}

void issue_token(Api& api, Call call) {
  const auto body = parse<wire::NewToken>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const std::string who = body->party.empty() ? text(call.envelope.actor) : body->party;
  api.with_party(std::move(call), who, [&api, wanted = *body](Call next, PartyId party) {
    api.loop().read([&api, wanted, party, next = std::move(next)](const State& state) mutable {
      const std::string secret = new_token_secret();
      engine::IssueToken command{.party = party,
                                 .label = wanted.label,
                                 .scope = wanted.scope,
                                 .hash = server::TokenDirectory::hash(secret)};
      if (wanted.expires_in) command.expires = clock_at_least(state.now) + *wanted.expires_in;
      api.run(std::move(next), command, [secret](const server::Outcome& outcome) {
        return issued(outcome, secret);
      });
    });
  });
}

void revoke_token(Api& api, Call call) {
  const auto id = parse_id("tok_", call.parameters.front());
  api.run(std::move(call), engine::RevokeToken{{id.value_or(0)}}, [](const server::Outcome&) {
    return no_content();
  });
}

void set_password(Api& api, Call call) {
  const auto body = parse<wire::NewPassword>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  if (body->password.size() < kPasswordMin || body->password.size() > kPasswordMax) {
    return call.reply.send(
        problem(wire::Problem{"password", "a password has 12 to 1024 characters", "use a longer one"},
                call.envelope.request_id));
  }
  const std::string user = call.parameters.front();
  api.with_party(std::move(call), user, [&api, password = body->password](Call next, PartyId party) {
    // Hashing takes a tenth of a second: beside the network and the engine, not on them.
    api.later(std::move(next), [&api, password, party](Call last) {
      api.run(std::move(last),
              engine::SetPassword{party, hash_password(password)},
              [](const server::Outcome&) { return no_content(); });
    });
  });
}

void refuse_login(Api& api, Call call, const std::string& account) {
  api.limiter().failed(call.envelope.origin);
  api.limiter().failed("account " + account);
  api.note_denial(
      call.envelope,
      "login",
      {.reason = wire::Reason::kForbidden, .rule = "password", .message = "wrong user or password"});
  call.reply.send(problem({401, "unauthenticated", "Not logged in"},
                          "there is no such user, or the password is wrong",
                          "try again, or ask an administrator for a new password",
                          call.envelope.request_id));
}

void login(Api& api, Call call) {
  const auto body = parse<wire::Login>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  if (!api.limiter().may_try(call.envelope.origin) || !api.limiter().may_try("account " + body->user)) {
    return call.reply.send(problem({429, "too-many-requests", "Too many wrong passwords"},
                                   "ten wrong guesses a minute are allowed",
                                   "wait a minute",
                                   call.envelope.request_id));
  }
  api.loop().read([&api, wanted = *body, call = std::move(call)](const State& state) mutable {
    const engine::Party* user = state.party(engine::find_path(state, wanted.user));
    const std::string hash = user == nullptr ? "" : user->password_hash;
    const PartyId id = user == nullptr ? PartyId{} : user->id;
    const Instant now = clock_at_least(state.now);
    api.later(std::move(call), [&api, wanted, hash, id, now](Call next) {
      if (hash.empty()) {
        pretend_to_check(wanted.password);
        return refuse_login(api, std::move(next), wanted.user);
      }
      if (!password_matches(hash, wanted.password)) return refuse_login(api, std::move(next), wanted.user);
      const std::string secret = new_token_secret();
      api.run(std::move(next),
              engine::OpenSession{id, server::TokenDirectory::hash(secret), now + kSessionLength},
              [secret](const server::Outcome& outcome) { return issued(outcome, secret); });
    });
  });
}

}  // namespace

std::vector<Route> access_routes() {
  return {
      {.method = "GET",
       .path = "/v1/whoami",
       .id = "whoami",
       .tag = "access",
       .summary = "Who this token speaks for",
       .gives = body<wire::Whoami>(),
       .handle = whoami},
      {.method = "GET",
       .path = "/v1/roles",
       .id = "list_roles",
       .tag = "access",
       .summary = "Roles that you may see",
       .gives = body<wire::RoleList>(),
       .query = {"at"},
       .handle = list_roles},
      {.method = "POST",
       .path = "/v1/roles",
       .id = "grant_role",
       .tag = "access",
       .summary = "Grant a role at a node of the tree",
       .takes = body<wire::RoleBinding>(),
       .gives = body<wire::RoleBinding>(),
       .status = 201,
       .handle = grant_role},
      {.method = "DELETE",
       .path = "/v1/roles",
       .id = "revoke_role",
       .tag = "access",
       .summary = "Take a role away",
       .status = 204,
       .query = {"at", "holder", "role"},
       .handle = revoke_role},
      {.method = "GET",
       .path = "/v1/tokens",
       .id = "list_tokens",
       .tag = "access",
       .summary = "Tokens of a party",
       .gives = body<wire::TokenList>(),
       .query = {"party"},
       .handle = list_tokens},
      {.method = "POST",
       .path = "/v1/tokens",
       .id = "issue_token",
       .tag = "access",
       .summary = "Issue a token; its secret is shown once",
       .takes = body<wire::NewToken>(),
       .gives = body<wire::IssuedToken>(),
       .status = 201,
       .handle = issue_token},
      {.method = "DELETE",
       .path = "/v1/tokens/{token}",
       .id = "revoke_token",
       .tag = "access",
       .summary = "Revoke a token",
       .status = 204,
       .handle = revoke_token},
      {.method = "PUT",
       .path = "/v1/users/{party}/password",
       .id = "set_password",
       .tag = "access",
       .summary = "Set a user's password",
       .takes = body<wire::NewPassword>(),
       .status = 204,
       .handle = set_password},
      {.method = "POST",
       .path = "/v1/sessions",
       .id = "login",
       .tag = "access",
       .summary = "Log in with a password",
       .auth = Auth::kNone,
       .takes = body<wire::Login>(),
       .gives = body<wire::IssuedToken>(),
       .status = 201,
       .handle = login},
  };
}

}  // namespace tranche::api
