// SPDX-License-Identifier: Apache-2.0
#include "cli/session.hpp"

#include <array>
#include <stdexcept>
#include <sys/random.h>
#include <thread>

#include "base/check.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "wire/document.hpp"

namespace tranche::cli {
namespace {

bool changes_something(const Call& call) {
  return call.method != "GET" && call.method != "HEAD";
}

}  // namespace

std::string new_idempotency_key() {
  std::array<unsigned char, 16> random{};
  TRANCHE_CHECK(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()));
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string key = "cli-";
  for (const unsigned char byte : random) {
    key += kHex[byte >> 4U];
    key += kHex[byte & 15U];
  }
  return key;
}

Failure failure_of_response(const net::Response& response) {
  auto problem =
      wire::from_json<wire::ProblemDetails>(response.body, {.unknown_keys = wire::UnknownKeys::kIgnored});
  if (problem) {
    problem->status = response.status;
    return failure_of(*problem);
  }
  wire::ProblemDetails plain{.title = "the server answered " + std::to_string(response.status) + " " +
                                      std::string(net::reason_phrase(response.status)),
                             .status = response.status};
  plain.fix = "is this a Tranche server? check with: tranche doctor";
  return failure_of(plain);
}

// What is explained is made to be shown to others. The names are part of the form, the values are not.
std::string without_secrets(const Call& call) {
  auto body = wire::parse_json_document(call.body, {});
  if (!body) return call.body;  // A file as its author wrote it.
  for (std::uint32_t at = 0; at < body->size(); ++at) {
    const wire::Node& node = body->at(at);
    if (node.key != "secrets" || node.kind != wire::NodeKind::kObject) continue;
    for (std::uint32_t one = node.first_child; one != wire::Node::kNone; one = body->at(one).next)
      body->at(one).text = "...";
  }
  std::string text;
  wire::append_json(text, *body, body->root());
  return text;
}

std::string curl_text(const Target& target, const Call& call, const net::HeaderList& headers) {
  std::string text = "curl -sS";
  if (call.method != "GET") text += " -X " + call.method;
  if (!target.ca_file.empty()) text += " --cacert " + shell_quoted(target.ca_file);
  for (const auto& [name, value] : headers) {
    text += name == "Authorization" ? " -H \"Authorization: Bearer $TRANCHE_TOKEN\""
                                    : " -H " + shell_quoted(name + ": " + value);
  }
  if (!call.body.empty()) text += " --data " + shell_quoted(without_secrets(call));
  return text + ' ' + shell_quoted(target.server + call.path);
}

Session::Session(GlobalFlags flags, Environment environment)
    : flags_(std::move(flags)), environment_(std::move(environment)) {
  const std::string& wanted = flags_.output.empty() ? environment_.output : flags_.output;
  if (wanted.empty()) return;
  try {
    output_ = parse_output(wanted);
  } catch (const std::invalid_argument& error) { throw usage_failure(error.what()); }
}

const Target& Session::target() {
  if (target_) return *target_;
  const TargetWish wish{.server_flag = flags_.server,
                        .server_environment = environment_.url,
                        .token_environment = environment_.token,
                        .context_flag = flags_.context,
                        .context_environment = environment_.context,
                        .subscriber_flag = flags_.subscriber,
                        .subscriber_environment = environment_.subscriber};
  target_ = std::make_unique<Target>(choose_target(
      wish, load_config(environment_.config_file), load_credentials(environment_.credentials_file)));
  return *target_;
}

void Session::use_target(Target target) {
  client_.reset();
  target_ = std::make_unique<Target>(std::move(target));
}

bool Session::colours() const {
  return !flags_.no_color && environment_.no_color.empty() && stdout_is_terminal();
}

net::HeaderList Session::authorization() {
  if (target().token.empty()) return {};
  return {{"Authorization", "Bearer " + target().token}};
}

Failure Session::exec_failure(const std::string& job, const net::ClientFault& fault) {
  const auto answer = try_call({.path = "/v1/jobs/" + net::percent_encode(job) + "/exec"});
  if (answer && answer->status >= 400 && answer->status != 426) return failure_of_response(*answer);
  return {kUnreachable, {fault.message, "is the job running? tranche show " + job}};
}

net::ClientOptions Session::client_options() {
  const auto url = net::parse_url(target().server);
  if (!url) {
    throw usage_failure("'" + target().server + "' is not an address of a server",
                        "give one such as " + std::string(kDefaultServer));
  }
  net::ClientOptions options;
  options.host = url->host;
  options.port = url->port;
  options.body_bytes_max = std::size_t{1} << 30;
  if (url->tls) {
    options.tls.emplace();
    if (!target().ca_file.empty()) options.tls->ca_pem = read_file_or_stdin(target().ca_file);
  }
  return options;
}

net::Client& Session::client() {
  if (client_) return *client_;
  try {
    client_ = std::make_unique<net::Client>(client_options());
  } catch (const std::runtime_error& error) {
    throw usage_failure(error.what(), "the authority of the server is in " + target().ca_file);
  }
  return *client_;
}

net::HeaderList Session::headers_of(const Call& call) {
  net::HeaderList headers;
  if (!target().token.empty()) headers.emplace_back("Authorization", "Bearer " + target().token);
  if (!call.body.empty()) headers.emplace_back("Content-Type", call.content_type);
  if (call.if_match != 0) headers.emplace_back("If-Match", '"' + std::to_string(call.if_match) + '"');
  if (changes_something(call)) {
    headers.emplace_back("Idempotency-Key",
                         flags_.idempotency_key.empty() ? new_idempotency_key() : flags_.idempotency_key);
  }
  return headers;
}

void Session::note(const Call& call,
                   std::string_view outcome,
                   std::chrono::steady_clock::time_point began) const {
  if (!flags_.verbose) return;
  const auto taken =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began).count();
  write_stderr(call.method + ' ' + call.path + " -> " + std::string(outcome) + " in " +
               std::to_string(taken / 1000) + '.' + std::to_string(taken / 100 % 10) + " ms\n");
}

Result<net::Response, net::ClientFault> Session::try_call(const Call& call) {
  const net::HeaderList headers = headers_of(call);
  const auto began = std::chrono::steady_clock::now();
  auto answer = client().request(call.method, call.path, headers, call.body);
  // A lost connection leaves open whether the change was made: the key makes asking again safe.
  if (!answer && answer.error().kind == net::FaultKind::kBroken) {
    note(call, answer.error().message, began);
    answer = client().request(call.method, call.path, headers, call.body);
  }
  note(call, answer ? std::to_string(answer->status) : answer.error().message, began);
  return answer;
}

net::Response Session::call(const Call& call) {
  if (flags_.explain_api && call.explain == Explain::kShow) {
    write_stdout(curl_text(target(), call, headers_of(call)) + "\n");
    throw quiet_end(kOk);
  }
  auto answer = try_call(call);
  if (!answer) throw failure_of(answer.error(), target().server);
  if (answer->status < 200 || answer->status > 299) throw failure_of_response(*answer);
  return std::move(*answer);
}

void Session::follow(const std::string& path,
                     Follow how,
                     const std::function<bool(const net::ServerEvent&)>& on_event) {
  constexpr int kAttempts = 8;
  const bool for_ever = how.until_silent_for.count() == 0;
  const std::chrono::milliseconds patience = for_ever ? std::chrono::minutes{2} : how.until_silent_for;
  bool wanted = true;
  for (int attempt = 0; wanted && attempt < kAttempts; ++attempt) {
    const Call request{.path = path};
    net::HeaderList headers = headers_of(request);
    headers.emplace_back("Accept", "text/event-stream");
    if (!how.last_id.empty()) headers.emplace_back("Last-Event-ID", how.last_id);
    if (flags_.explain_api) {
      write_stdout(curl_text(target(), request, headers) + "\n");
      throw quiet_end(kOk);
    }
    const auto take = [&](const net::ServerEvent& event) {
      attempt = 0;
      how.last_id = event.id;
      return wanted = on_event(event);
    };
    const auto answer = client().stream(path, headers, take, patience);
    if (answer && answer->status != 200) throw failure_of_response(*answer);
    if (!wanted) return;
    if (!answer && answer.error().kind == net::FaultKind::kTimedOut && !for_ever) return;
    if (!answer && attempt + 1 == kAttempts) throw failure_of(answer.error(), target().server);
    say(answer ? "the server ended the stream; connecting again"
               : answer.error().message + "; connecting again");
    std::this_thread::sleep_for(std::chrono::milliseconds(200) * (1 << std::min(attempt, 4)));
  }
}

void Session::print(std::string_view body, const View& view) const {
  switch (output_) {
    case Output::kTable:
    case Output::kWide:
      if (view.text) return write_stdout(view.text());
      return write_stdout(view.table().text(output_ == Output::kWide ? Show::kWide : Show::kAlways));
    case Output::kCsv:
      return write_stdout(view.table().csv());
    case Output::kJson:
      return write_stdout(indented_json(body));
    case Output::kJsonl:
      return write_stdout(json_lines(body));
    case Output::kYaml:
      return write_stdout(yaml_of_json(body));
    case Output::kName:
      return write_stdout(view.names());
  }
}

void Session::say(std::string_view line) const {
  if (!flags_.quiet) write_stderr(std::string(line) + "\n");
}

void Session::confirm(const std::string& question) const {
  if (flags_.yes || flags_.explain_api) return;
  if (!stdin_is_terminal() || !stderr_is_terminal()) {
    throw usage_failure(question + " Nobody is at a terminal to be asked", "say -y to do it");
  }
  if (!confirmed_at_terminal(question)) throw Failure(kOther, {"nothing was changed"});
}

std::string Session::party_or_default(const std::string& given, std::string_view argument) {
  if (!given.empty()) return given;
  if (!target().subscriber.empty()) return target().subscriber;
  throw usage_failure(std::string(argument) + " is missing",
                      "give an id or a path such as acme/research, or --subscriber");
}

Failure Session::unreadable(const wire::Problem& problem) {
  return {kOther,
          {"the server's answer makes no sense to this client: " + wire::text(problem),
           "compare versions: tranche --version, tranche whoami -o json"}};
}

}  // namespace tranche::cli
