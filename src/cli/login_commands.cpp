// SPDX-License-Identifier: Apache-2.0
// login, logout, whoami, context: which server, and as whom.
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "wire/api_party.hpp"
#include "wire/json_writer.hpp"

namespace tranche::cli {
namespace {

struct LoginOptions {
  std::string url{}, token{}, token_file{}, user{}, name{}, ca_file{}, subscriber{};
};

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

// The name of a context that is not given one: the server without its scheme.
std::string usual_name(const std::string& server) {
  const std::size_t scheme = server.find("://");
  return scheme == std::string::npos ? server : server.substr(scheme + 3);
}

std::string server_of_login(const LoginOptions& options, const Session& session, const Config& config) {
  std::string server = options.url;
  if (server.empty()) server = session.flags().server;
  if (server.empty()) server = session.environment().url;
  const auto current = config.contexts.find(options.name.empty() ? config.current : options.name);
  if (server.empty() && current != config.contexts.end()) server = current->second.server;
  if (server.empty()) server = kDefaultServer;
  if (server.find("://") == std::string::npos) server = "https://" + server;
  while (server.ends_with('/')) server.pop_back();
  return server;
}

Credential credential_of_login(const LoginOptions& options, Session& session) {
  if (!options.user.empty()) {
    const wire::Login body{.user = options.user,
                           .password = read_secret("Password of " + options.user + ": ")};
    const auto issued = session.ask<wire::IssuedToken>(
        {.method = "POST", .path = "/v1/sessions", .body = wire::to_json(body)});
    return {.token = issued.value.secret, .token_id = text(issued.value.token.id)};
  }
  if (!options.token_file.empty()) return {.token = trimmed(read_file_or_stdin(options.token_file))};
  if (!options.token.empty() && options.token != "-") return {.token = options.token};
  if (options.token.empty() && !session.environment().token.empty())
    return {.token = session.environment().token};
  return {.token = trimmed(read_secret("Token: "))};
}

View whoami_view(const wire::Whoami& who, const Target& target) {
  std::string roles;
  for (const wire::RoleBinding& binding : who.roles) {
    if (!roles.empty()) roles += ", ";
    roles += std::string(wire::name_of(binding.role)) + " at " + binding.at;
  }
  const auto table = [who, roles, target] {
    Table rows({{"PARTY"}, {"ID"}, {"SCOPE"}, {"ROLES"}, {"SERVER"}, {"VERSION"}});
    rows.add({who.party.path,
              text(who.party.id),
              wire::name_of(who.scope),
              roles.empty() ? "-" : std::string_view(roles),
              target.server,
              who.server_version});
    return rows;
  };
  return {.table = table, .names = [who] { return who.party.path + "\n"; }};
}

void login(const LoginOptions& options, Session& session) {
  const Environment& environment = session.environment();
  Config config = load_config(environment.config_file);
  Credentials credentials = load_credentials(environment.credentials_file);
  const std::string server = server_of_login(options, session, config);
  const std::string name = options.name.empty() ? usual_name(server) : options.name;
  Context context = config.contexts[name];
  context.server = server;
  if (!options.ca_file.empty()) context.ca_file = std::filesystem::absolute(options.ca_file).string();
  if (!session.flags().subscriber.empty()) context.subscriber = session.flags().subscriber;

  Target target{
      .context = name, .server = server, .subscriber = context.subscriber, .ca_file = context.ca_file};
  session.use_target(target);
  const Credential credential = credential_of_login(options, session);
  target.token = credential.token;
  session.use_target(target);
  const auto who = session.get<wire::Whoami>("/v1/whoami");

  config.contexts[name] = context;
  config.current = name;
  credentials[name] = credential;
  save_credentials(environment.credentials_file, credentials);
  save_config(environment.config_file, config);
  session.print(who.body, whoami_view(who.value, target));
  session.say("logged in; context '" + name + "' is current");
}

void logout(Session& session) {
  const Environment& environment = session.environment();
  Credentials credentials = load_credentials(environment.credentials_file);
  const std::string name = session.target().context;
  const auto found = credentials.find(name);
  if (name.empty() || found == credentials.end()) {
    throw Failure(kForbidden, {"not logged in to " + session.target().server});
  }
  if (!found->second.token_id.empty()) {  // A password login issued this token: nobody else has a use for it.
    const auto answer =
        session.try_call({.method = "DELETE", .path = "/v1/tokens/" + path_segment(found->second.token_id)});
    if (!answer || answer->status >= 300) {
      session.say("the server did not revoke the token; it runs out by itself");
    }
  }
  credentials.erase(found);
  save_credentials(environment.credentials_file, credentials);
  session.say("logged out of context '" + name + "'");
}

void add_login(const Command& root, Program& program) {
  const auto options = std::make_shared<LoginOptions>();
  const Command& command = add_command(
      root,
      {"login",
       "Check a token or password, and remember the server",
       "tranche login http://127.0.0.1:7878 --token-file data/operator.token\n"
       "tranche login https://tranche.example.org:7878 --ca-file ca.pem --user acme/research/ana"});
  command.add_option(
      "url", options->url, "Server; else that of the current context, else " + std::string(kDefaultServer));
  const Option token = command.add_option(
      "--token", options->token, "Token; '-' reads it from stdin (others see a command line)");
  const Option file =
      command.add_option("--token-file", options->token_file, "File with the token").type_name("FILE");
  command.add_option("--user", options->user, "Log in with a password, which is asked for")
      .type_name("PARTY")
      .excludes(token)
      .excludes(file);
  command.add_option("--name", options->name, "Name of the context; else host and port").type_name("NAME");
  command.add_option("--ca-file", options->ca_file, "Authority of the server, if the system does not know it")
      .type_name("FILE");
  command.callback([options, &program] { login(*options, program.session()); });
}

Table contexts_table(const Config& config, const Credentials& credentials) {
  Table table({{"CURRENT"}, {"NAME"}, {"SERVER"}, {"SUBSCRIBER"}, {"LOGGED IN"}});
  for (const auto& [name, context] : config.contexts) {
    table.add({name == config.current ? "*" : "",
               name,
               context.server,
               context.subscriber,
               credentials.contains(name) ? "yes" : "no"});
  }
  return table;
}

std::string contexts_json(const Config& config, const Credentials& credentials) {
  std::string json = R"({"items":[)";
  for (const auto& [name, context] : config.contexts) {
    if (json.back() == '}') json += ',';
    json += R"({"name":)";
    wire::append_json_string(json, name);
    json += R"(,"server":)";
    wire::append_json_string(json, context.server);
    json += R"(,"subscriber":)";
    wire::append_json_string(json, context.subscriber);
    json += name == config.current ? R"(,"current":true)" : R"(,"current":false)";
    json += credentials.contains(name) ? R"(,"logged_in":true})" : R"(,"logged_in":false})";
  }
  return json + "]}";
}

void add_contexts(const Command& root, Program& program) {
  const Command& group = add_group(root, {"context", "The servers you know", "tranche context list"});
  const Command& list = add_command(group, {"list", "List them", "tranche context list"});
  list.callback([&program] {
    const Session& session = program.session();
    const Config config = load_config(session.environment().config_file);
    const Credentials credentials = load_credentials(session.environment().credentials_file);
    session.print(contexts_json(config, credentials),
                  {.table = [&] { return contexts_table(config, credentials); },
                   .names =
                       [&] {
                         std::string names;
                         for (const auto& [name, context] : config.contexts) names += name + "\n";
                         return names;
                       }});
  });
  const auto name = std::make_shared<std::string>();
  const Command& use = add_command(group, {"use", "Make one current", "tranche context use 127.0.0.1:7878"});
  use.add_option("name", *name, "As `context list` shows it").required();
  use.callback([name, &program] {
    const Session& session = program.session();
    Config config = load_config(session.environment().config_file);
    if (!config.contexts.contains(*name)) {
      throw Failure(kNotFound, {"no context '" + *name + "'", "see: tranche context list"});
    }
    config.current = *name;
    save_config(session.environment().config_file, config);
    session.say("context '" + *name + "' is current");
  });
}

}  // namespace

void add_login_commands(const Command& root, Program& program) {
  add_login(root, program);
  const Command& out = add_command(root, {"logout", "Forget the token of the context", "tranche logout"});
  out.callback([&program] { logout(program.session()); });
  const Command& who = add_command(root, {"whoami", "Who you are to the server", "tranche whoami -o json"});
  who.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<wire::Whoami>("/v1/whoami");
    session.print(answer.body, whoami_view(answer.value, session.target()));
  });
  add_contexts(root, program);
}

}  // namespace tranche::cli
