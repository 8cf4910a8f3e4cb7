// SPDX-License-Identifier: Apache-2.0
#include "gateway/gateway.hpp"

#include <utility>

#include "gateway/sign_in.hpp"
#include "gateway/usage_reader.hpp"

namespace tranche::gateway {
namespace {

net::Response problem(int status, std::string_view detail) {
  net::Response response{
      .status = status, .content_type = "application/problem+json", .body = {}, .headers = {}};
  response.body = R"({"type":"about:blank","status":)" + std::to_string(status) + R"(,"title":")" +
                  std::string(net::reason_phrase(status)) + R"(","detail":")" + std::string(detail) + "\"}";
  if (status == 503 || status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

constexpr std::string_view kTokenNeeded = "call with a token: Authorization: Bearer ...";
constexpr std::string_view kSignInFirst =
    "open the address that `tranche notebook` says, or call with a token: Authorization: Bearer ...";

// "/acme/chat/v1/models" in its parts.
struct Address {
  std::string_view tenant{}, service{}, rest{};
};
Address address_of(std::string_view path) {
  Address address;
  path.remove_prefix(path.starts_with('/') ? 1 : 0);
  const auto first = path.find('/');
  if (first == std::string_view::npos) return address;
  address.tenant = path.substr(0, first);
  path.remove_prefix(first + 1);
  const auto second = std::min(path.find('/'), path.size());
  address.service = path.substr(0, second);
  address.rest = path.substr(second);
  return address;
}

std::string prefix_of(const Address& address) {
  return "/" + std::string(address.tenant) + "/" + std::string(address.service) + "/";
}

}  // namespace

struct Gateway::Flight final : Turnstile::Ticket, net::Errand, std::enable_shared_from_this<Flight> {
  Flight(Gateway& of, Turnstile& through) : gateway(of), turnstile(through) {}
  ~Flight() override { leave_turnstile(); }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  void go() override {
    is_inside = true;
    gateway.take_off(shared_from_this());
  }
  void leave_turnstile() {
    if (std::exchange(is_inside, false)) turnstile.leave(service->key().tenant);
  }

  [[nodiscard]] const net::Request& request() const override { return asked; }
  [[nodiscard]] std::string_view target_path() const override { return path; }
  void on_head(int status, std::string_view content_type, std::string& fields) override {
    usage.watch(content_type);
    service->observe(Clock::now() - arrived, status < 500);
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
  std::shared_ptr<LiveService> service;
  net::Request asked;
  std::string path;
  PartyId caller{};
  std::optional<net::Reply> reply;
  Clock::time_point arrived = Clock::now();
  Pick pick;  // Where it is now.
  Tried tried;
  UsageReader usage;
};

std::shared_ptr<LiveService> Gateway::find(std::string_view tenant, std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(std::pair(std::string(tenant), std::string(name)));
  return found == by_name_.end() ? nullptr : found->second;
}

PartyId Gateway::tenant_of(PartyId party) const {
  const std::lock_guard lock(mutex_);
  const auto tenant = tenants_.find(party);
  return tenant == tenants_.end() ? PartyId{} : tenant->second;
}

void Gateway::handle(net::Request&& request, net::Reply reply) {
  const Address address = address_of(request.path);
  auto service = find(address.tenant, address.service);
  const LiveService::Access access = service ? service->access() : LiveService::Access{};
  PartyId caller{};
  bool may_call = access.callers == LiveService::Callers::kEverybody;
  if (!may_call) {
    const bool personal = access.callers == LiveService::Callers::kOwner;
    const auto in_address = personal ? token_in_address(request) : std::nullopt;
    std::string_view token = in_address ? std::string_view(*in_address) : bearer_of(request);
    if (personal && token.empty()) token = token_in_cookie(request);
    const auto known = loop_.tokens().find(token);
    if (!known) return reply.send(problem(401, personal ? kSignInFirst : kTokenNeeded));
    caller = tenant_of(known->party);
    may_call = service && (personal ? known->party == access.owner : caller == service->key().tenant);
    if (may_call && in_address) return reply.send(signed_in(request, prefix_of(address), *in_address));
    if (personal) hide_sign_in(request);
  }
  // Whoever may not call it may not know of it either.
  if (!service || !may_call) return reply.send(problem(404, "there is no such service: /TENANT/SERVICE/..."));
  auto flight = std::make_shared<Flight>(*this, turnstile_of(reply));
  flight->service = std::move(service);
  flight->path = access.keeps_path ? request.path : address.rest.empty() ? "/" : std::string(address.rest);
  if (!request.query.empty()) flight->path += '?' + request.query;
  flight->caller = caller;
  flight->asked = std::move(request);
  flight->reply.emplace(std::move(reply));
  // By whom it is called is the service's business; here the tenant counts that has the service.
  switch (flight->turnstile.enter(flight->service->key().tenant, flight)) {
    case Turnstile::Entry::kGo:
      return flight->go();
    case Turnstile::Entry::kWaits:
      return;
    case Turnstile::Entry::kFull:
      return refuse(*flight, 503, "too many requests for services of this tenant wait", *flight->reply);
  }
}

// One for each thread: what they share out is the thread's time.
Turnstile& Gateway::turnstile_of(const net::Reply& reply) {
  net::Loop& thread = *net::Forwarder::thread_of(reply);
  const std::lock_guard lock(mutex_);
  auto& turnstile = turnstiles_[&thread];
  if (!turnstile)
    turnstile = std::make_unique<Turnstile>(
        [&thread](Turnstile& asks) { net::Forwarder::later(thread, [&asks] { asks.turn(); }); });
  return *turnstile;
}

void Gateway::take_off(std::shared_ptr<Flight> flight) {
  using Entry = LiveService::Entry;
  LiveService& service = *flight->service;
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
    case Entry::kTooFast:
      return flight->reply->send(problem(429, "more requests a second than a tenant may send"));
  }
}

void Gateway::fly(const std::shared_ptr<Flight>& flight, Pick pick) {
  flight->tried.add(pick.job);
  flight->pick = std::move(pick);
  net::Reply reply = std::move(*flight->reply);
  forwarder_.send(flight, flight->pick.target, flight->service->forward_options(), std::move(reply));
}

void Gateway::land(const std::shared_ptr<Flight>& flight,
                   net::ForwardEnd end,
                   int status,
                   net::Reply* reply) {
  using net::ForwardEnd;
  LiveService& service = *flight->service;
  const bool good = end == ForwardEnd::kDone && status != 502 && status != 503;
  const bool neutral = end == ForwardEnd::kGone;
  service.leave(flight->pick, good ? Outcome::kGood : neutral ? Outcome::kNeutral : Outcome::kBad);
  if (end == ForwardEnd::kDone || reply == nullptr) {
    flight->usage.finish();
    return service.count(
        end == ForwardEnd::kDone ? status : 502, flight->usage.tokens_in(), flight->usage.tokens_out());
  }
  // Nobody has seen an answer. It is tried elsewhere when it reached nobody, or when twice is as good as
  // once.
  const bool may_retry =
      end == ForwardEnd::kNotSent || (end == ForwardEnd::kNoAnswer && net::is_retry_safe(flight->asked));
  if (may_retry && flight->tried.count() < kTriesMost) {
    flight->reply.emplace(std::move(*reply));
    return take_off(flight);
  }
  const bool is_late = end == ForwardEnd::kTimedOut;
  refuse(*flight,
         is_late ? 504 : 502,
         is_late ? "the replica did not answer in time" : "the replica ended the connection",
         *reply);
}

// Counted as a failure of the service, and as an answer that did not come in time.
void Gateway::refuse(const Flight& flight, int status, std::string_view why, net::Reply& reply) {
  flight.service->count(status, 0, 0);
  flight.service->observe(Clock::now() - flight.arrived, false);
  reply.send(problem(status, why));
}

}  // namespace tranche::gateway
