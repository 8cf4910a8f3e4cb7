// SPDX-License-Identifier: Apache-2.0
#include "gateway/gateway.hpp"

#include <algorithm>
#include <utility>

#include "base/wall_clock.hpp"
#include "gateway/sign_in.hpp"
#include "gateway/usage_reader.hpp"

namespace tranche::gateway {
namespace {

net::Response problem(int status, std::string_view detail) {
  net::Response response{
      .status = status, .content_type = "application/problem+json", .body = {}, .headers = {}};
  response.body = R"({"type":"about:blank","status":)" + std::to_string(status) + R"(,"title":")" +
                  std::string(net::reason_phrase(status)) + R"(","detail":")" + std::string(detail) + "\"}";
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

net::Response too_many(std::string_view detail, std::chrono::seconds wait) {
  net::Response response = problem(429, detail);
  response.headers.emplace_back("Retry-After", std::to_string(wait.count()));
  return response;
}

constexpr std::string_view kTokenNeeded = "call with a token: Authorization: Bearer ...";
constexpr std::string_view kSignInFirst =
    "open the address that `tranche notebook` says, or call with a token: Authorization: Bearer ...";

constexpr std::string_view kNoSuchService = "there is no such service: /TENANT/SERVICE/...";

net::Response moved_to(std::string address) {
  net::Response response{.status = 303, .content_type = {}, .body = {}, .headers = {}};
  response.headers.emplace_back("Location", std::move(address));
  response.headers.emplace_back("Referrer-Policy", "no-referrer");  // It may hold a token.
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

std::string path_and_query(const net::Request& request) {
  return request.query.empty() ? request.path : request.path + '?' + request.query;
}

std::chrono::seconds seconds_until(Instant at) {
  return std::max(std::chrono::seconds(1), std::chrono::ceil<std::chrono::seconds>(at - wall_clock()));
}

}  // namespace

struct Gateway::Flight final : Turnstile::Ticket, net::Errand, std::enable_shared_from_this<Flight> {
  Flight(Gateway& of, Turnstile& through, std::shared_ptr<const Directory> in, const Listed& under)
      : gateway(of), turnstile(through), directory(std::move(in)), listed(under), service(*under.service) {}
  ~Flight() override { leave_turnstile(); }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  void go() override {
    is_inside = true;
    gateway.take_off(shared_from_this());
  }
  void leave_turnstile() {
    if (std::exchange(is_inside, false)) turnstile.leave(service.key().tenant, *this);
  }

  [[nodiscard]] const net::Request& request() const override { return asked; }
  [[nodiscard]] std::string_view target_path() const override { return path; }
  void on_head(int status, std::string_view content_type, std::string& fields) override {
    usage.watch(content_type);
    service.observe(Clock::now() - arrived, status < 500);
    fields.append("X-Tranche-Version: ").append(pick.version).append("\r\n");
    if (status == 101) leave_turnstile();  // It may stay for hours, and say little.
  }
  void on_body(std::string_view piece) override { usage.read(piece); }
  void on_end(net::ForwardEnd end, int status, net::Reply* answer) override {
    gateway.land(shared_from_this(), end, status, answer);
  }

  Gateway& gateway;
  Turnstile& turnstile;
  bool is_inside = false;
  const std::shared_ptr<const Directory> directory;  // Holds what is below.
  const Listed& listed;
  LiveService& service;
  net::Request asked;
  std::string path;
  PartyId caller{};
  std::optional<net::Reply> reply;
  Clock::time_point arrived = Clock::now();
  Pick pick;  // Where it is now.
  Tried tried;
  UsageReader usage;
};

// One for each thread: what they share out is the thread's time.
Desk& Gateway::desk_of(const net::Reply& reply) {
  struct Last {
    std::uint64_t gateway = UINT64_MAX;
    Desk* desk = nullptr;
  };
  static thread_local Last last;
  if (last.gateway != number_) {
    net::Loop& thread = *net::Forwarder::thread_of(reply);
    const std::lock_guard lock(mutex_);
    auto& desk = desks_[&thread];
    if (!desk) desk = std::make_unique<Desk>(thread);
    last = {number_, desk.get()};
  }
  Desk& desk = *last.desk;
  if (desk.edition != edition_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    desk.directory = directory_;
    desk.edition = edition_.load(std::memory_order_relaxed);
  }
  return desk;
}

// A token that ran out is none, nor is one of somebody who is disabled.
std::optional<Gateway::Known> Gateway::known_by(std::string_view token) const {
  const auto bearer = loop_.tokens().find(token);
  if (!bearer || bearer->has_expired(wall_clock())) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto tenant = tenants_.find(bearer->party);
  if (tenant == tenants_.end()) return std::nullopt;
  return Known{bearer->party, tenant->second};
}

// Whoever may not call it may not know of it either.
Gateway::Caller Gateway::caller_of(const Listed* listed, const Place& place, net::Request& request) const {
  if (listed != nullptr && listed->callers == Callers::kOwner) return owner_of(*listed, place, request);
  const bool is_open = listed != nullptr && listed->callers == Callers::kEverybody;
  const std::string_view token = bearer_of(request);
  const auto known = is_open && token.empty() ? std::nullopt : known_by(token);
  if (!known) return is_open ? Caller{} : Caller{.answer = problem(401, kTokenNeeded)};
  const bool may_call =
      is_open ||
      (listed != nullptr &&
       std::find(listed->tenants.begin(), listed->tenants.end(), known->tenant) != listed->tenants.end());
  if (!may_call) return {.answer = problem(404, kNoSuchService)};
  return {.tenant = known->tenant};
}

// A browser signs in with its owner's token. Where the service has an origin of its own, only there: a cookie
// that all services of the gateway get belongs to none.
Gateway::Caller Gateway::owner_of(const Listed& listed, const Place& place, net::Request& request) const {
  const bool is_elsewhere = !listed.origin.empty() && !place.is_own_origin;
  const auto in_address = token_in_address(request);
  std::string_view token = in_address ? std::string_view(*in_address) : bearer_of(request);
  if (token.empty() && !is_elsewhere) token = token_in_cookie(request);
  const auto known = known_by(token);
  if (!known) return {.answer = problem(401, kSignInFirst)};
  if (known->party != listed.owner) return {.answer = problem(404, kNoSuchService)};
  if (in_address && is_elsewhere) return {.answer = moved_to(listed.origin + path_and_query(request))};
  if (in_address)
    return {.answer = signed_in(request, place.is_own_origin ? "/" : listed.prefix, *in_address)};
  hide_sign_in(request);
  return {.tenant = known->tenant};
}

void Gateway::handle(net::Request&& request, net::Reply reply) {
  Desk& desk = desk_of(reply);
  const Place place = place_of(request, options_.domain);
  const auto found = desk.directory->find(place.key);
  const Listed* listed = found == desk.directory->end() ? nullptr : &found->second;
  // A program that serves below its own path has nothing at the root of its own origin.
  if (listed != nullptr && listed->keeps_path && place.is_own_origin && request.method == "GET" &&
      !request.path.starts_with(listed->prefix))
    return reply.send(moved_to(listed->prefix + (request.query.empty() ? "" : "?" + request.query)));
  Caller caller = caller_of(listed, place, request);
  if (caller.answer) return reply.send(std::move(*caller.answer));
  if (const Allowance* used_up = take_request(listed->allowances))
    return reply.send(too_many(used_up->words(), seconds_until(used_up->until())));
  auto flight = std::make_shared<Flight>(*this, desk.turnstile, desk.directory, *listed);
  flight->path = listed->keeps_path ? request.path : place.rest.empty() ? "/" : std::string(place.rest);
  if (!request.query.empty()) flight->path += '?' + request.query;
  flight->caller = caller.tenant;
  ask_unpacked(request);
  flight->asked = std::move(request);
  flight->reply.emplace(std::move(reply));
  // By whom it is called is the service's business; here the tenant counts that has the service.
  switch (flight->turnstile.enter(flight->service.key().tenant, flight)) {
    case Turnstile::Entry::kGo:
      return flight->go();
    case Turnstile::Entry::kWaits:
      return;
    case Turnstile::Entry::kFull:
      return refuse(*flight, 503, "too many requests for services of this tenant wait", *flight->reply);
  }
}

void Gateway::take_off(std::shared_ptr<Flight> flight) {
  using Entry = LiveService::Entry;
  LiveService& service = flight->service;
  const auto granted = [this, flight](std::optional<Pick> pick) {
    if (pick) return fly(flight, std::move(*pick));
    refuse(*flight, 504, "no replica became ready in time", *flight->reply);
  };
  switch (service.enter(flight->caller, flight->tried, granted)) {
    case Entry::kGranted:
      return;
    case Entry::kWaits: {  // Somebody must look whether another replica is needed.
      const std::lock_guard lock(mutex_);
      changed_ = true;
      wake_.notify_one();
      return;
    }
    case Entry::kFull:
      return refuse(*flight, 503, "too many requests wait for this service", *flight->reply);
    case Entry::kTooFast: {
      const LiveService::TooFast why = service.why_too_fast(flight->caller);
      return flight->reply->send(too_many(why.words, why.wait));
    }
  }
}

void Gateway::fly(const std::shared_ptr<Flight>& flight, Pick pick) {
  flight->tried.add(pick.job);
  flight->pick = std::move(pick);
  net::Reply reply = std::move(*flight->reply);
  forwarder_.send(flight, flight->pick.target, flight->listed.forward, std::move(reply));
}

void Gateway::land(const std::shared_ptr<Flight>& flight,
                   net::ForwardEnd end,
                   int status,
                   net::Reply* reply) {
  using net::ForwardEnd;
  LiveService& service = flight->service;
  const bool good = end == ForwardEnd::kDone && status != 502 && status != 503;
  const bool neutral = end == ForwardEnd::kGone || end == ForwardEnd::kNoBody;
  service.leave(flight->pick, good ? Outcome::kGood : neutral ? Outcome::kNeutral : Outcome::kBad);
  if (end == ForwardEnd::kDone || reply == nullptr) {
    flight->usage.finish();
    const std::uint64_t in = flight->usage.tokens_in(), out = flight->usage.tokens_out();
    for (const auto& allowance : flight->listed.allowances) allowance->take_tokens(in, out);
    return service.count(end == ForwardEnd::kDone ? status : 502, flight->caller, in, out);
  }
  // Nobody has seen an answer. It is tried elsewhere when it reached nobody, or when twice is as good as
  // once.
  const bool may_retry =
      end == ForwardEnd::kNotSent || (end == ForwardEnd::kNoAnswer && net::is_retry_safe(flight->asked));
  if (may_retry && flight->tried.count() < kTriesMost) {
    flight->reply.emplace(std::move(*reply));
    return take_off(flight);
  }
  if (end == ForwardEnd::kNoBody)
    return refuse(*flight, 408, "the body of the request did not arrive in time", *reply);
  const bool is_late = end == ForwardEnd::kTimedOut;
  refuse(*flight,
         is_late ? 504 : 502,
         is_late ? "the replica did not answer in time" : "the replica ended the connection",
         *reply);
}

// Counted as a failure of the service, and as an answer that did not come in time.
void Gateway::refuse(const Flight& flight, int status, std::string_view why, net::Reply& reply) {
  flight.service.count(status, flight.caller, 0, 0);
  flight.service.observe(Clock::now() - flight.arrived, false);
  reply.send(problem(status, why));
}

}  // namespace tranche::gateway
