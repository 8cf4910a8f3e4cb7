// SPDX-License-Identifier: Apache-2.0
#include "api/api.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sodium.h>

#include "api/openapi.hpp"
#include "api/party_zones.hpp"
#include "api/problem.hpp"
#include "api/recurring_plan.hpp"
#include "base/wall_clock.hpp"

namespace tranche::api {
namespace {

std::vector<std::string_view> segments(std::string_view path) {
  std::vector<std::string_view> parts;
  if (path.starts_with('/')) path.remove_prefix(1);
  for (;;) {
    const auto slash = path.find('/');
    parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

bool is_parameter(std::string_view segment) {
  return segment.starts_with('{');
}

// Whether the path is the route's; its parameters are decoded on the way.
bool matches(const Route& route,
             const std::vector<std::string_view>& path,
             std::vector<std::string>& parameters) {
  const auto pattern = segments(route.path);
  parameters.clear();
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!is_parameter(pattern[i])) {
      if (pattern[i] != path[i]) return false;
      continue;
    }
    auto value = net::percent_decode(path[i]);
    if (!value || value->empty()) return false;
    parameters.push_back(std::move(*value));
  }
  return true;
}

std::string_view bearer(const net::Request& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view header = request.header("Authorization");
  return header.starts_with(kScheme) ? header.substr(kScheme.size()) : std::string_view{};
}

template <std::size_t N>
std::array<unsigned char, N> digest(std::initializer_list<std::string_view> parts) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, N);
  for (const std::string_view part : parts) {
    const std::uint64_t size = part.size();
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&size), sizeof size);
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  }
  std::array<unsigned char, N> out{};
  crypto_generichash_final(&state, out.data(), N);
  return out;
}

// The same key means the same request only for the same caller on the same route.
void stamp_idempotency(Call& call) {
  const std::string_view key = call.request.header("Idempotency-Key");
  if (key.empty()) return;
  const std::string actor = std::to_string(call.envelope.actor.value);
  const auto scope = digest<16>({actor, call.request.method, call.request.path, key});
  std::memcpy(&call.envelope.idempotency, scope.data(), sizeof call.envelope.idempotency);
  const auto body = digest<16>({call.request.query, call.request.body});
  std::memcpy(&call.envelope.body_hash, body.data(), sizeof call.envelope.body_hash);
}

bool is_plain_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

}  // namespace

std::string_view Call::query_value(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return {};
}

std::uint64_t if_version(const Call& call) {
  std::string_view text = call.request.header("If-Match");
  if (text.size() < 3 || text.front() != '"' || text.back() != '"') return 0;
  text = text.substr(1, text.size() - 2);
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  // An ETag that is not one of ours matches no version.
  return error == std::errc{} && end == text.data() + text.size() && version != 0 ? version : UINT64_MAX;
}

Result<Page, wire::Problem> page_of(const Call& call) {
  constexpr std::size_t kLimitMax = 10'000;
  Page page;
  const auto number = [](std::string_view text, auto& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
  };
  if (const auto limit = call.query_value("limit"); !limit.empty()) {
    if (!number(limit, page.limit) || page.limit == 0 || page.limit > kLimitMax) {
      return refuse(wire::Problem{"limit", "a page holds 1 to 10000 items", "leave it out for 100"});
    }
  }
  if (const auto cursor = call.query_value("cursor"); !cursor.empty() && !number(cursor, page.after)) {
    return refuse(wire::Problem{"cursor", "this is no cursor", "use the `next` of the page before"});
  }
  return page;
}

namespace {

Catalogue catalogue_of(const engine::State& state) {
  Catalogue out{.skus = state.skus, .settings = state.settings};
  for (const auto& [id, device] : state.devices) {
    const std::int64_t vram = device.facts.vram.count;
    if (!device.facts.soft_capable || vram <= 0) continue;
    std::int64_t& largest = device.facts.simulated ? out.largest_simulated_vram : out.largest_vram;
    largest = std::max(largest, vram);
    if (!device.facts.simulated) out.smallest_vram = std::min(out.smallest_vram, vram);
  }
  return out;
}

}  // namespace

Api::Api(server::Loop& loop, ApiOptions options)
    : loop_(loop),
      options_(std::move(options)),
      sealer_(options_.seal_key),
      events_(loop),
      catalogue_(std::make_shared<Catalogue>()),
      forecaster_(loop) {
  for (auto* make : {&party_routes,        &access_routes,  &quota_routes,
                     &job_routes,          &node_routes,    &booking_routes,
                     &log_routes,          &exec_routes,    &audit_routes,
                     &system_routes,       &market_routes,  &market_data_routes,
                     &market_quote_routes, &volume_routes,  &workdir_routes,
                     &telemetry_routes,    &money_routes,   &price_routes,
                     &ledger_routes,       &tax_routes,     &health_routes,
                     &receipt_routes,      &service_routes, &recurring_routes,
                     &level_routes,        &invoice_routes, &recurring_listing_routes,
                     &forecast_routes}) {
    for (Route& route : make()) routes_.push_back(std::move(route));
  }
  for (const Route& route : routes_) by_depth_[segments(route.path).size()].push_back(&route);
  openapi_ = make_openapi(routes_, options_.version);
  loop_.follow([this](const server::Durable& durable) { follow(durable); });
  loop_.read([this](const engine::State& state) { keep_catalogue(catalogue_of(state)); });
}

void Api::keep_catalogue(Catalogue catalogue) {
  const std::lock_guard lock(catalogue_mutex_);
  catalogue_ = std::make_shared<const Catalogue>(std::move(catalogue));
}

void Api::follow(const server::Durable& durable) {
  events_.publish(durable);
  for (const engine::Event& event : *durable.events) {
    if (const auto* ended = std::get_if<engine::JobEnded>(&event)) {
      const std::lock_guard lock(job_followers_mutex_);
      const auto [from, to] = job_followers_.equal_range(ended->id);
      for (auto at = from; at != to; ++at) at->second(true);
      job_followers_.erase(from, to);
    }
    if (std::holds_alternative<engine::SkuSet>(event) ||
        std::holds_alternative<engine::SettingsChanged>(event) ||
        std::holds_alternative<engine::NodeReported>(event))
      keep_catalogue(catalogue_of(*durable.state));
    // Before anybody can ask for a month of theirs.
    if (const auto* created = std::get_if<engine::PartyCreated>(&event);
        created && !created->time_zone.empty())
      resolve_party_zone(loop_, *durable.state, created->time_zone);
    if (const auto* changed = std::get_if<engine::PartyChanged>(&event);
        changed && !changed->time_zone.empty())
      resolve_party_zone(loop_, *durable.state, changed->time_zone);
  }
}

std::shared_ptr<const Catalogue> Api::catalogue() const {
  const std::lock_guard lock(catalogue_mutex_);
  return catalogue_;
}

void Api::pulse() {
  events_.pulse();
  plan_recurring(loop_);
  resolve_party_zones(loop_);
  const std::lock_guard lock(job_followers_mutex_);
  std::erase_if(job_followers_, [](const auto& entry) { return !entry.second(false); });
}

void Api::follow_until_over(JobId job, std::function<bool(bool)> follower) {
  const std::lock_guard lock(job_followers_mutex_);
  job_followers_.emplace(job, std::move(follower));
}

std::string Api::next_request_id() {
  const std::uint64_t number = ++requests_;
  return id_text("req_", (options_.seed << 32U) ^ number);
}

const Route* Api::find(Call& call, bool& path_known) const {
  path_known = false;
  const auto path = segments(call.request.path);
  const auto candidates = by_depth_.find(path.size());
  if (candidates == by_depth_.end()) return nullptr;
  for (const Route* route : candidates->second) {
    if (!matches(*route, path, call.parameters)) continue;
    path_known = true;
    if (route->method == call.request.method || (route->method == "GET" && call.request.method == "HEAD"))
      return route;
  }
  return nullptr;
}

bool Api::authenticate(Call& call) {
  const std::string_view secret = bearer(call.request);
  if (secret.empty()) return false;
  const auto known = loop_.tokens().find(secret);
  if (!known) return false;
  call.envelope.actor = known->party;
  call.envelope.token = known->token;
  return !known->has_expired(wall_clock());
}

void Api::handle(net::Request&& request, net::Reply reply) {
  Call call{std::move(request), std::move(reply), {}};
  call.envelope.origin = call.request.peer;
  const std::string_view given = call.request.header("X-Request-Id");
  const std::string own = next_request_id();
  call.envelope.request_id = is_plain_id(given) ? std::string(given) : own;
  const std::string& id = call.envelope.request_id;

  bool path_known = false;
  const Route* route = find(call, path_known);
  if (route == nullptr) {
    const ProblemKind kind = path_known ? ProblemKind{405, "method-not-allowed", "No such method here"}
                                        : ProblemKind{404, "not-found", "Not found"};
    call.reply.send(problem(
        kind, call.request.method + ' ' + call.request.path + " is no route", "see /openapi.json", id));
    return;
  }
  if (route->auth == Auth::kToken && !authenticate(call)) {
    const bool ran_out = call.envelope.token != TokenId{};  // Known, and so no guess.
    if (!bearer(call.request).empty()) {
      if (!ran_out && !limiter_.may_try(call.envelope.origin)) {
        call.reply.send(
            problem({429, "too-many-requests", "Too many wrong tokens"}, "", "wait a minute", id));
        return;
      }
      if (!ran_out) limiter_.failed(call.envelope.origin);
      note_denial(call.envelope,
                  std::string(route->id),
                  {.reason = wire::Reason::kForbidden,
                   .rule = "token",
                   .message = ran_out ? "the token has run out" : "unknown token"});
    }
    call.reply.send(unauthenticated(id));
    return;
  }
  const auto query = net::parse_query(call.request.query);
  if (!query) {
    call.reply.send(problem(wire::Problem{"", "the query has a bad escape", ""}, id));
    return;
  }
  for (const auto& [name, value] : *query) {
    if (std::find(route->query.begin(), route->query.end(), name) == route->query.end()) {
      call.reply.send(problem(wire::Problem{name, "unknown query parameter", "see /openapi.json"}, id));
      return;
    }
  }
  call.query = *query;
  stamp_idempotency(call);
  route->handle(*this, std::move(call));
}

void Api::run(Call call, engine::Command command, Render render) {
  Envelope envelope = call.envelope;
  auto answer = [call = std::move(call), render = std::move(render)](const server::Outcome& outcome) mutable {
    const std::string& id = call.envelope.request_id;
    net::Response response;
    if (outcome.fault != server::Fault::kNone) {
      response = problem(outcome.fault, id);
    } else if (outcome.refusal != nullptr) {
      response = problem(*outcome.refusal, id);
    } else {
      response = render(outcome);
    }
    if (outcome.replayed) response.headers.emplace_back("Idempotent-Replayed", "true");
    response.headers.emplace_back("X-Request-Id", id);
    call.reply.send(std::move(response));
  };
  loop_.submit(std::move(envelope), std::move(command), std::move(answer));
}

void Api::rehearse(Call call, engine::Command command, Rehearsed render) {
  loop_.read([call = std::move(call), command = std::move(command), render = std::move(render)](
                 const engine::State& state) mutable {
    call.envelope.at = clock_at_least(state.now);
    const engine::Decision decision = engine::decide(state, call.envelope, command);
    net::Response response = render(state, decision, call.envelope.at);
    response.headers.emplace_back("X-Request-Id", call.envelope.request_id);
    call.reply.send(std::move(response));
  });
}

void Api::view(Call call, View view) {
  loop_.read([this, call = std::move(call), view = std::move(view)](const engine::State& state) mutable {
    const std::string id = call.envelope.request_id;
    call.envelope.at = clock_at_least(state.now);
    const auto actor = engine::actor_of(state, call.envelope);
    if (!actor) {
      call.reply.send(unauthenticated(id));
      return;
    }
    Result<net::Response, wire::Refusal> response = net::Response{};
    try {
      response = view(state, *actor);
    } catch (const std::exception& error) {  // A report that cannot be made ends nothing but itself.
      return call.reply.send(problem({500, "internal", "Internal error"}, error.what(), "", id));
    }
    if (!response) {
      note_denial(call.envelope, call.request.method + ' ' + call.request.path, response.error());
      call.reply.send(problem(response.error(), id));
      return;
    }
    response->headers.emplace_back("X-Request-Id", id);
    call.reply.send(std::move(*response));
  });
}

void Api::with_party(Call call, std::string name, WithParty then) {
  if (const auto id = parse_party_id(name)) {
    then(std::move(call), *id);
    return;
  }
  loop_.read([call = std::move(call), name = std::move(name), then = std::move(then)](
                 const engine::State& state) mutable {
    const PartyId party = engine::find_path(state, name);
    then(std::move(call), party);
  });
}

void Api::later(Call call, UniqueFunction<void(Call)> then) {
  // Shared, because the call must survive a worker that has no room for it.
  auto held = std::make_shared<Call>(std::move(call));
  if (worker_.post([held, then = std::move(then)]() mutable { then(std::move(*held)); })) return;
  held->reply.send(problem(server::Fault::kBusy, held->envelope.request_id));
}

void Api::note_denial(Envelope envelope, std::string action, wire::Refusal refusal) {
  envelope.idempotency = {};
  loop_.submit(std::move(envelope),
               engine::NoteDenial{std::move(action), std::move(refusal)},
               [](const server::Outcome&) {});
}

}  // namespace tranche::api
