// SPDX-License-Identifier: Apache-2.0
#include "agent/identity.hpp"

#include <charconv>
#include <cstdlib>
#include <stdexcept>

#include "agent/files.hpp"
#include "base/text.hpp"
#include "net/certificate_authority.hpp"
#include "net/pinned_authority.hpp"
#include "wire/api_job.hpp"
#include "wire/api_node.hpp"
#include "wire/codec.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kNodeFile = "node";

// For people: what is wrong and what to do, without the form that programs read.
std::string words_of(const std::string& body) {
  const auto problem =
      wire::from_json<wire::ProblemDetails>(body, {.unknown_keys = wire::UnknownKeys::kIgnored});
  if (!problem) return body;
  return (problem->detail.empty() ? problem->title : problem->detail) +
         (problem->fix.empty() ? "" : "; " + problem->fix);
}

std::string line_of(const std::string& text, std::size_t wanted) {
  std::size_t at = 0;
  for (std::size_t line = 0;; ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (line == wanted) return text.substr(at, end - at);
    if (end == text.size()) return {};
    at = end + 1;
  }
}

}  // namespace

ServerAddress parse_server(const std::string& url) {
  constexpr std::string_view kScheme = "https://";
  if (!url.starts_with(kScheme)) throw std::runtime_error("--server is https://HOST:PORT, not " + url);
  std::string rest = url.substr(kScheme.size());
  while (rest.ends_with('/')) rest.pop_back();
  const auto colon = rest.rfind(':');
  ServerAddress address;
  if (colon == std::string::npos) throw std::runtime_error("--server needs a port: https://HOST:PORT");
  const auto parsed = std::from_chars(rest.data() + colon + 1, rest.data() + rest.size(), address.port);
  if (parsed.ec != std::errc() || parsed.ptr != rest.data() + rest.size() || address.port == 0)
    throw std::runtime_error("not a port: " + rest.substr(colon + 1));
  address.host = rest.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  return address;
}

std::optional<Identity> load_identity(const std::filesystem::path& data) {
  const auto node = read_whole(data / kNodeFile);
  if (!node) return std::nullopt;
  Identity identity{.server = line_of(*node, 0), .name = line_of(*node, 1)};
  const auto id = parse_id("node_", line_of(*node, 2));
  if (!id)
    throw std::runtime_error((data / kNodeFile).string() + " is damaged: join again with an empty folder");
  identity.node = {*id};
  identity.since = std::strtoll(line_of(*node, 3).c_str(), nullptr, 10);
  identity.key_pem = read_whole(data / "node.key").value_or("");
  identity.certificate_pem = read_whole(data / "node.pem").value_or("");
  identity.authority_pem = read_whole(data / "ca.pem").value_or("");
  return identity;
}

void save_identity(const std::filesystem::path& data, const Identity& identity) {
  write_whole(data / "node.key", identity.key_pem, 0600, true);
  write_whole(data / "node.pem", identity.certificate_pem, 0600, true);
  write_whole(data / "ca.pem", identity.authority_pem, 0600, true);
  write_whole(data / kNodeFile,
              identity.server + "\n" + identity.name + "\n" + text(identity.node) + "\n" +
                  std::to_string(identity.since) + "\n",
              0600,
              true);
}

Identity join(const JoinWish& wish) {
  const ServerAddress address = parse_server(wish.server);
  net::ClientOptions where;
  where.host = address.host;
  where.port = address.port;
  const auto authority = net::fetch_pinned_authority(where, wish.pin);
  if (!authority) throw std::runtime_error(authority.error().message);
  const net::CertificateRequest request = net::make_certificate_request(wish.name);
  where.tls =
      net::TlsClientOptions{.ca_pem = *authority, .certificate_pem = {}, .key_pem = {}, .server_name = {}};
  net::Client client(where);
  const wire::NodeJoin body{
      .name = wish.name, .token = wish.token, .certificate_request = request.request_pem};
  const auto answer =
      client.request("POST", "/v1/nodes/join", {{"Content-Type", "application/json"}}, wire::to_json(body));
  if (!answer) throw std::runtime_error(answer.error().message);
  if (answer->status != 200 && answer->status != 201)
    throw std::runtime_error("the server did not let this node join: " + words_of(answer->body));
  const auto joined =
      wire::from_json<wire::NodeJoined>(answer->body, {.unknown_keys = wire::UnknownKeys::kIgnored});
  if (!joined) throw std::runtime_error("the server's answer could not be read: " + text(joined.error()));
  if (net::certificate_pin(joined->ca) != wish.pin)
    throw std::runtime_error("the server sent another authority than the pinned one: nothing was stored");
  return {.server = wish.server,
          .name = wish.name,
          .node = joined->id,
          .key_pem = request.key_pem,
          .certificate_pem = joined->certificate,
          .authority_pem = joined->ca,
          .since = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())};
}

net::ClientOptions client_options(const Identity& identity) {
  const ServerAddress address = parse_server(identity.server);
  net::ClientOptions options;
  options.host = address.host;
  options.port = address.port;
  options.tls = net::TlsClientOptions{.ca_pem = identity.authority_pem,
                                      .certificate_pem = identity.certificate_pem,
                                      .key_pem = identity.key_pem,
                                      .server_name = {}};
  return options;
}

bool has_run_out(const Identity& identity, std::chrono::system_clock::time_point now) {
  return std::chrono::system_clock::to_time_t(now) >=
         net::describe_certificate(identity.certificate_pem).not_after;
}

std::string run_out_words(const Identity& identity) {
  const Instant until{std::chrono::seconds(net::describe_certificate(identity.certificate_pem).not_after)};
  return "the certificate of " + identity.name + " ran out at " + text(until) +
         ", while no server could renew it; on the server: tranche node add " + identity.name +
         ", then start this agent with the printed line and the same --data: it goes on as the same node";
}

bool wants_renewal(const Identity& identity, std::chrono::system_clock::time_point now) {
  const std::int64_t until = net::describe_certificate(identity.certificate_pem).not_after;
  return std::chrono::system_clock::to_time_t(now) >= identity.since + (until - identity.since) / 2;
}

}  // namespace tranche::agent
