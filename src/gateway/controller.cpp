// SPDX-License-Identifier: Apache-2.0
// Keeps as many replicas as each service needs: starts, replaces, drains, retires.
#include <algorithm>

#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "engine/unit_quota.hpp"
#include "gateway/gateway.hpp"
#include "wire/codec.hpp"

namespace tranche::gateway {
namespace {

using namespace std::chrono_literals;
using Copy = LiveService::Copy;

constexpr auto kTurn = 100ms, kTurnWhileStarting = 10ms;
constexpr auto kCountEvery = 5s;
constexpr std::uint64_t kEnoughToJudge = 20;  // Requests, for a percentile to mean something.

bool concerns_services(const engine::Event& event) {
  return std::holds_alternative<engine::ServiceSet>(event) ||
         std::holds_alternative<engine::ServiceRemoved>(event) ||
         std::holds_alternative<engine::ReplicaAdded>(event) ||
         std::holds_alternative<engine::ReplicaRetired>(event) ||
         std::holds_alternative<engine::LeaseReported>(event) ||
         std::holds_alternative<engine::QuotaSet>(event) || std::holds_alternative<engine::JobEnded>(event) ||
         std::holds_alternative<engine::JobRequeued>(event);
}

bool is_disabled(const engine::State& state, PartyId id) {  // Or somebody above it.
  const engine::Party* at = state.party(id);
  while (at != nullptr && !at->disabled) at = state.party(at->parent);
  return at != nullptr;
}

std::string host_of(const std::string& peer) {
  return peer.empty() ? "127.0.0.1" : peer;
}

// Measured to about a tenth: more digits would only look exact.
Duration readable(Duration measured) {
  const Duration unit = measured >= 10ms ? Duration(1ms) : measured >= 1ms ? Duration(100us) : Duration(10us);
  return (measured + unit - Duration(1)) / unit * unit;
}

std::uint64_t next_gateway() {
  static std::atomic<std::uint64_t> next{0};
  return next.fetch_add(1);
}

std::vector<ReplicaFacts> replicas_of(const engine::State& state,
                                      const engine::Service& service,
                                      const server::AgentHub& hub) {
  std::vector<ReplicaFacts> facts;
  for (const engine::Replica& replica : service.replicas) {
    const engine::Job* job = state.job(replica.job);
    if (job == nullptr) continue;
    ReplicaFacts one{.job = replica.job, .version = replica.version, .retiring = replica.retiring};
    const auto shape = std::find_if(service.versions.begin(),
                                    service.versions.end(),
                                    [&](const auto& version) { return version.name == replica.version; });
    one.stale = shape == service.versions.end() || shape->spec != job->spec;
    if (!job->leases.empty() && job->state == wire::JobState::kRunning) {
      const auto door = state.work.doors.find(job->leases.front());
      const engine::Lease* lease = state.lease(job->leases.front());
      if (door != state.work.doors.end() && lease != nullptr)
        one.target = {host_of(hub.facts(lease->node).address),
                      door->second.port,
                      door->second.sealed ? text(lease->node) : std::string()};
    }
    facts.push_back(std::move(one));
  }
  return facts;
}

}  // namespace

Gateway::Gateway(server::Loop& loop, const server::AgentHub& hub, GatewayOptions options)
    : loop_(loop),
      hub_(hub),
      options_(std::move(options)),
      forwarder_(options_.sealed),
      number_(next_gateway()),
      prober_(std::make_unique<net::Prober>(options_.sealed)) {
  loop_.follow([this](const server::Durable& durable) { follow(durable); });
}

Gateway::~Gateway() {
  stop();
}

void Gateway::start(std::string url) {
  options_.url = std::move(url);
  loop_.read([this](const engine::State& state) {
    note_callers(state);
    learn(state);
  });
  thread_ = std::thread([this] { run(); });
}

void Gateway::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  prober_.reset();
  std::shared_ptr<const Directory> services;
  {
    const std::lock_guard lock(mutex_);
    services = directory_;
  }
  for (const auto& [name, listed] : *services) listed.service->close();
  forwarder_.close();
}

void Gateway::note_callers(const engine::State& state) {
  const std::lock_guard lock(mutex_);
  tenants_.clear();
  for (const auto& [id, party] : state.parties)
    if (!is_disabled(state, id)) tenants_.emplace(id, engine::tenant_of(state, id));
}

void Gateway::follow(const server::Durable& durable) {
  bool relevant = false;
  for (const engine::Event& event : *durable.events) {
    if (const auto* created = std::get_if<engine::PartyCreated>(&event)) {
      const std::lock_guard lock(mutex_);
      if (!is_disabled(*durable.state, created->id))
        tenants_[created->id] = engine::tenant_of(*durable.state, created->id);
    }
    if (const auto* changed = std::get_if<engine::PartyChanged>(&event))
      if (changed->disabled != changed->disabled_before) note_callers(*durable.state);
    if (const auto* removed = std::get_if<engine::ServiceRemoved>(&event)) ended_.insert(removed->key);
    relevant = relevant || concerns_services(event);
  }
  if (relevant && (!durable.state->work.services.empty() || !directory_->empty())) learn(*durable.state);
}

// On the loop's thread, which alone makes another directory.
void Gateway::learn(const engine::State& state) {
  auto directory = std::make_shared<Directory>();
  learn_at_ = INT64_MAX;
  for (const auto& [key, service] : state.work.services) {
    const std::string name = engine::path_of(state, key.tenant) + "/" + key.name;
    const auto before = directory_->find(name);
    auto live = before != directory_->end() && before->second.service->key() == key && !ended_.contains(key)
                    ? before->second.service
                    : std::make_shared<LiveService>(key, options_.seed + service.revision);
    if (live->revision() != service.revision)
      if (auto spec = wire::from_json<wire::ServiceSpec>(service.spec))
        live->configure(std::move(*spec), service.owner, service.revision);
    live->know(replicas_of(state, service, hub_));
    const bool is_known = before != directory_->end() && before->second.service == live &&
                          before->second.revision == service.revision;
    Listed& one =
        directory->emplace(name, is_known ? before->second : listed(state, service, live)).first->second;
    one.allowances = allowances_of(state, service.owner);
  }
  ended_.clear();
  std::erase_if(allowances_, [](const auto& entry) { return entry.second.use_count() == 1; });
  std::vector<std::shared_ptr<LiveService>> removed;
  for (const auto& [name, one] : *directory_) {
    const auto after = directory->find(name);
    if (after == directory->end() || after->second.service != one.service) removed.push_back(one.service);
  }
  {
    const std::lock_guard lock(mutex_);
    directory_ = std::move(directory);
    edition_.fetch_add(1, std::memory_order_release);
    changed_ = true;
    wake_.notify_one();
  }
  for (const auto& service : removed) service->close();
}

Listed Gateway::listed(const engine::State& state,
                       const engine::Service& service,
                       std::shared_ptr<LiveService> live) {
  const std::string tenant = engine::path_of(state, service.key.tenant);
  const wire::ServiceSpec spec = live->spec();
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(spec.timeout);
  Listed out{.service = std::move(live),
             .revision = service.revision,
             .callers = spec.personal ? Callers::kOwner
                        : spec.open   ? Callers::kEverybody
                                      : Callers::kTenants,
             .owner = service.owner,
             .tenants = {service.key.tenant},
             .keeps_path = spec.keep_path,
             .forward = {.first_byte = patience, .between_bytes = patience},
             .prefix = "/" + tenant + "/" + service.key.name + "/",
             .allowances = {}};
  for (const std::string& name : spec.callers)
    if (const PartyId caller = engine::find_path(state, name); caller.kind() == PartyKind::kTenant)
      out.tenants.push_back(caller);
  const std::string label = host_label(tenant, service.key.name);
  if (const auto scheme = options_.url.find("://"); !options_.domain.empty() && !label.empty()) {
    const auto port = options_.url.rfind(':');
    out.origin = options_.url.substr(0, scheme + 3) + label + "." + options_.domain +
                 (port > scheme ? options_.url.substr(port) : "");
  }
  return out;
}

// One that was made for the same limit goes on: what has passed since the journal counted is in it.
Allowances Gateway::allowances_of(const engine::State& state, PartyId owner) {
  static const std::map<std::string_view, Allowance::Unit> kUnits{
      {"requests", Allowance::Unit::kRequests},
      {"tokens", Allowance::Unit::kTokens},
      {"tokens_in", Allowance::Unit::kTokensIn},
      {"tokens_out", Allowance::Unit::kTokensOut}};
  Allowances out;
  for (const engine::UnitLimit& limit : engine::unit_limits(state, owner, wall_clock())) {
    const auto unit = kUnits.find(limit.unit);
    if (unit == kUnits.end()) continue;
    auto& allowance = allowances_[{limit.party, limit.unit, limit.limit, limit.until}];
    if (!allowance)
      allowance = std::make_shared<Allowance>(
          unit->second, limit.left(), limit.until, engine::used_up_text(state, limit));
    learn_at_ = std::min(learn_at_.load(), limit.until.time_since_epoch().count());
    out.push_back(allowance);
  }
  return out;
}

void Gateway::learn_again_when_due() {
  const std::int64_t now = wall_clock().time_since_epoch().count();
  if (learn_at_.load() > now) return;
  learn_at_ = INT64_MAX;
  loop_.read([this](const engine::State& state) { learn(state); });
}

void Gateway::run() {
  for (;;) {
    const bool starting = std::any_of(
        controls_.begin(), controls_.end(), [](const auto& one) { return !one.second.probes.empty(); });
    std::vector<std::shared_ptr<LiveService>> services;
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, starting ? kTurnWhileStarting : kTurn, [this] { return stopping_ || changed_; });
      changed_ = false;
      last = stopping_;
      for (const auto& [name, listed] : *directory_) services.push_back(listed.service);
    }
    learn_again_when_due();
    take_answers();
    take_probes();
    for (const auto& service : services) {
      if (last) {
        flush_counts(*service);
        continue;
      }
      service->expire_waiters();
      Control& control = controls_[service];
      steer(service, control);
      service->set_status(control.status.empty() ? control.waits : control.status);
    }
    if (last) return;
    std::erase_if(controls_, [&](const auto& entry) {
      return std::find(services.begin(), services.end(), entry.first) == services.end();
    });
    std::this_thread::sleep_for(1ms);  // However fast requests come, they do not make this a busy loop.
  }
}

std::chrono::milliseconds Gateway::backoff(std::uint32_t failures) {
  return std::min<std::chrono::milliseconds>(500ms * (1U << std::min(failures, 7U)), 60s);
}

void Gateway::take_answers() {
  std::vector<std::pair<std::shared_ptr<LiveService>, std::string>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [service, problem] : answers) {
    const auto found = controls_.find(service);
    if (found == controls_.end()) continue;  // Removed meanwhile.
    Control& control = found->second;
    control.adding = false;
    if (problem.empty()) continue;
    ++control.failures;
    control.status = "no replica: " + problem;
    control.not_before = Clock::now() + backoff(control.failures);
  }
}

// Replicas that ended without being asked to: after each that never served, a longer pause.
void Gateway::notice_ends(Control& control, const LiveService::Picture& picture) {
  std::set<JobId> known;
  for (const Copy& copy : picture.copies)
    if (!copy.facts.retiring && !copy.draining) known.insert(copy.facts.job);
  for (const JobId job : control.known) {
    const bool is_there = std::any_of(picture.copies.begin(), picture.copies.end(), [&](const Copy& copy) {
      return copy.facts.job == job;
    });
    if (is_there) continue;
    const bool served = control.seen_ready.erase(job) > 0;
    if (!served) ++control.failures;
    control.not_before = Clock::now() + (served ? 0ms : backoff(control.failures));
    control.status = text(job) + " ended; see: tranche logs " + text(job);
  }
  control.known = std::move(known);
}

// The latency objective against what was measured; the status says when it is missed.
bool Gateway::notice_lateness(Control& control, const LiveService::Picture& picture) {
  const auto& objective = picture.spec.objective;
  const bool is_late =
      objective && picture.latency.requests >= kEnoughToJudge && picture.latency.p99 > objective->p99;
  if (is_late)
    control.status =
        "p99 is " + text(readable(picture.latency.p99)) + ", the objective " + text(objective->p99);
  if (!is_late && control.is_late) control.status.clear();
  control.is_late = is_late;
  return is_late;
}

void Gateway::steer(const std::shared_ptr<LiveService>& service, Control& control) {
  probe(service, control, service->picture());
  const LiveService::Picture picture = service->picture();
  notice_ends(control, picture);
  const policy::ScalingBounds bounds{.min = picture.spec.replicas.min,
                                     .max = picture.spec.replicas.max,
                                     .concurrency = picture.spec.concurrency,
                                     .idle = picture.spec.idle,
                                     .delay = picture.spec.scale.target};
  policy::ScalingDemand demand{.in_flight = picture.active + picture.queued,
                               .last_request = picture.last_request,
                               .waited = picture.waited,
                               .is_late = notice_lateness(control, picture)};
  for (const Copy& copy : picture.copies)
    demand.ready += copy.ready && !copy.draining && !copy.facts.retiring ? 1U : 0U;
  const std::uint32_t wanted = control.scaling.wanted(bounds, demand, wall_clock());
  // Every version gets its part by weight, and one at least while there is anything.
  std::uint64_t weights = 0;
  for (const auto& version : picture.spec.versions) weights += version.weight;
  for (const wire::ServiceVersion& version : picture.spec.versions) {
    std::uint32_t part = 0;
    if (wanted > 0 && version.weight > 0)
      part = std::max<std::uint32_t>(
          1, static_cast<std::uint32_t>((std::uint64_t{wanted} * version.weight + weights / 2) / weights));
    steer_version(service, control, picture, version.name, part);
  }
  retire_drained(*service, picture);
  if (Clock::now() - control.counted > kCountEvery) {
    control.counted = Clock::now();
    flush_counts(*service);
  }
}

void Gateway::steer_version(const std::shared_ptr<LiveService>& service,
                            Control& control,
                            const LiveService::Picture& picture,
                            const std::string& version,
                            std::uint32_t part) {
  std::vector<const Copy*> current, stale;
  std::size_t ready = 0, live = 0;
  for (const Copy& copy : picture.copies) {
    live += copy.facts.retiring ? 0U : 1U;
    if (copy.facts.version != version || copy.facts.retiring || copy.draining) continue;
    (copy.facts.stale ? stale : current).push_back(&copy);
    ready += copy.ready && !copy.facts.stale ? 1U : 0U;
  }
  const bool room = live < picture.spec.replicas.max + picture.spec.versions.size();
  if (current.size() < part && room && !control.adding && Clock::now() >= control.not_before)
    add(service, version, control);
  if (current.size() > part) {  // The idlest goes first.
    const Copy* idlest = *std::min_element(current.begin(), current.end(), [](const Copy* a, const Copy* b) {
      return std::pair(a->ready, a->active) < std::pair(b->ready, b->active);
    });
    service->drain(idlest->facts.job);
  }
  // Those that run something older go one by one, as what replaces them becomes ready.
  for (std::size_t i = 0; i < stale.size() && ready + stale.size() - i > part; ++i)
    service->drain(stale[i]->facts.job);
}

void Gateway::retire_drained(LiveService& service, const LiveService::Picture& picture) {
  const auto now = Clock::now();
  for (const Copy& copy : picture.copies) {
    const auto& versions = picture.spec.versions;
    const bool named = std::any_of(
        versions.begin(), versions.end(), [&](const auto& one) { return one.name == copy.facts.version; });
    if (!named) service.drain(copy.facts.job);
    const bool over = copy.active == 0 || now - copy.draining_since > picture.spec.drain;
    if (copy.draining && !copy.facts.retiring && over) retire(service.key(), copy.facts.job);
  }
}

void Gateway::add(const std::shared_ptr<LiveService>& service, const std::string& version, Control& control) {
  control.adding = true;
  loop_.submit({.origin = "gateway"},
               engine::AddReplica{service->key(), version},
               [this, service](const server::Outcome& outcome) {
                 const bool refused = outcome.refusal != nullptr;
                 std::string problem = refused ? outcome.refusal->message : "";
                 if (outcome.fault != server::Fault::kNone) problem = "the server cannot write now";
                 const std::lock_guard lock(mutex_);
                 answers_.emplace_back(service, std::move(problem));
                 changed_ = true;
                 wake_.notify_one();
               });
}

void Gateway::retire(const engine::ServiceKey& key, JobId job) {
  loop_.submit({.origin = "gateway"}, engine::RetireReplica{key, job}, [](const server::Outcome&) {});
}

void Gateway::flush_counts(LiveService& service) {
  const engine::ServiceUse use = service.take_use();
  if (use.requests == 0 && use.judged == 0) return;
  loop_.submit(
      {.origin = "gateway"}, engine::CountRequests{service.key(), use}, [](const server::Outcome&) {});
}

void Gateway::describe(const engine::ServiceKey& key, wire::ServiceView& view) const {
  std::shared_ptr<LiveService> live;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, listed] : *directory_) {
      if (listed.service->key() != key) continue;
      live = listed.service;
      view.url = options_.url + "/" + name;
      view.origin = listed.origin;
    }
  }
  if (!live) return;
  const LiveService::Picture picture = live->picture();
  view.status = picture.status;
  view.queued = static_cast<std::uint32_t>(picture.queued);
  if (const auto& measured = picture.latency; measured.requests > 0) {
    view.latency = wire::ServiceLatency{.requests = measured.requests,
                                        .p50 = readable(measured.p50),
                                        .p99 = readable(measured.p99),
                                        .waited = readable(picture.waited)};
    if (picture.spec.objective) {
      view.latency->objective = picture.spec.objective->p99;
      view.latency->attained_per_mille =
          static_cast<std::uint32_t>(measured.in_time * 1000 / measured.requests);
    }
  }
  for (const Copy& copy : picture.copies) {
    wire::ReplicaView one{.job = copy.facts.job, .version = copy.facts.version, .active = copy.active};
    one.state = copy.draining || copy.facts.retiring ? wire::ReplicaState::kDraining
                : copy.ready && copy.resting         ? wire::ReplicaState::kFailing
                : copy.ready                         ? wire::ReplicaState::kReady
                : copy.facts.target.port != 0        ? wire::ReplicaState::kStarting
                                                     : wire::ReplicaState::kWaiting;
    if (copy.facts.target.port != 0)
      one.address = copy.facts.target.address + ":" + std::to_string(copy.facts.target.port);
    view.ready += one.state == wire::ReplicaState::kReady;
    view.copies.push_back(std::move(one));
  }
}

}  // namespace tranche::gateway
