// SPDX-License-Identifier: Apache-2.0
#pragma once
// One run of one client command: where it goes, how it speaks to the server, how it shows the answer.
//
// Everything that goes wrong leaves as a Failure. Nothing here knows CLI11.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/config.hpp"
#include "cli/environment.hpp"
#include "cli/failure.hpp"
#include "cli/output.hpp"
#include "net/client.hpp"
#include "wire/codec.hpp"

namespace tranche::cli {

struct GlobalFlags {
  std::string output{};
  std::string server{};
  std::string context{};
  std::string subscriber{};
  std::string idempotency_key{};
  bool no_color = false;
  bool quiet = false;
  bool verbose = false;
  bool yes = false;
  bool explain_api = false;
};

// Whether --explain-api shows a call instead of making it. A change that must first read makes the reading.
enum class Explain { kShow, kPreparation };
struct Call {
  std::string method = "GET";
  std::string path{};
  std::string body{};
  std::uint64_t if_match = 0;  // Version; zero: none.
  Explain explain = Explain::kShow;
  std::string content_type = "application/json";
};

template <class T>
struct Answer {
  T value{};
  std::string body{};  // As the server sent it: what -o json shows.
};

struct Follow {
  std::string last_id{};  // Of the last event seen; empty: from now on.
  // Ends after this much silence; zero: never.
  std::chrono::milliseconds until_silent_for{0};
};

// How one answer looks in each form. JSON, JSON Lines and YAML come from the body.
struct View {
  std::function<Table()> table{};
  std::function<std::string()> text{};  // Instead of the table, for people; CSV still takes the table.
  std::function<std::string()> names{};
};

class Session {
 public:
  Session(GlobalFlags flags, Environment environment);

  [[nodiscard]] const GlobalFlags& flags() const { return flags_; }
  [[nodiscard]] const Environment& environment() const { return environment_; }
  [[nodiscard]] Output output() const { return output_; }
  [[nodiscard]] const Target& target();
  [[nodiscard]] bool colours() const;
  void use_target(Target target);  // For `login`, which talks to a server before it is in any context.

  // The answer of a call that succeeded; any other, and a server that cannot be reached, is a Failure.
  net::Response call(const Call& call);
  template <class T>
  Answer<T> ask(const Call& request) {
    net::Response response = call(request);
    return {parsed<T>(response.body), std::move(response.body)};
  }
  template <class T>
  Answer<T> get(std::string path, Explain explain = Explain::kShow) {
    return ask<T>({.path = std::move(path), .explain = explain});
  }
  // All pages of a list; `path` already says how long a page is.
  template <class T>
  Answer<T> get_all(const std::string& path, std::size_t most = SIZE_MAX) {
    Answer<T> all = get<T>(path);
    bool joined = false;
    while (!all.value.next.empty() && all.value.items.size() < most) {
      const char separator = path.find('?') == std::string::npos ? '?' : '&';
      Answer<T> page = get<T>(path + separator + "cursor=" + net::percent_encode(all.value.next));
      all.value.items.insert(all.value.items.end(),
                             std::make_move_iterator(page.value.items.begin()),
                             std::make_move_iterator(page.value.items.end()));
      all.value.next = page.value.next;
      joined = true;
    }
    if (all.value.items.size() > most) {
      all.value.items.resize(most);
      joined = true;
    }
    if (joined) all.body = wire::to_json(all.value);
    return all;
  }
  // Server-sent events until `on_event` returns false. A lost connection is made again, without a gap.
  void follow(const std::string& path,
              Follow how,
              const std::function<bool(const net::ServerEvent&)>& on_event);

  // For what is no request: a WebSocket to the same server, with the same token.
  [[nodiscard]] net::ClientOptions client_options();
  [[nodiscard]] net::HeaderList authorization();
  // Why a WebSocket was refused: the answer that a plain request to the same place gets says it better.
  Failure exec_failure(const std::string& job, const net::ClientFault& fault);

  // One step of `doctor`: the answer whatever its status, or the fault.
  Result<net::Response, net::ClientFault> try_call(const Call& call);

  void print(std::string_view body, const View& view) const;
  void say(std::string_view line) const;  // Talk on stderr; silent with -q.
  // Returns when the person agrees or said so before (-y); otherwise a Failure.
  void confirm(const std::string& question) const;

  // The party a command is about: as given, or --subscriber, or a usage failure that names the argument.
  std::string party_or_default(const std::string& given, std::string_view argument);

  template <class T>
  static T parsed(std::string_view body) {
    auto value = wire::from_json<T>(body, kAnswerLimits);
    if (!value) throw unreadable(value.error());
    return std::move(*value);
  }
  static Failure unreadable(const wire::Problem& problem);

 private:
  static constexpr wire::JsonLimits kAnswerLimits{
      .bytes_max = std::size_t{1} << 30, .depth_max = 64, .unknown_keys = wire::UnknownKeys::kIgnored};
  net::Client& client();
  [[nodiscard]] net::HeaderList headers_of(const Call& call);
  void note(const Call& call, std::string_view outcome, std::chrono::steady_clock::time_point began) const;

  GlobalFlags flags_;
  Environment environment_;
  Output output_ = Output::kTable;
  std::unique_ptr<Target> target_;
  std::unique_ptr<net::Client> client_;
};

// The failure that an answer other than 2xx is; problem+json or not.
Failure failure_of_response(const net::Response& response);
// `curl` with the same effect. The token is named, never shown.
std::string curl_text(const Target& target, const Call& call, const net::HeaderList& headers);
std::string new_idempotency_key();

}  // namespace tranche::cli
