// SPDX-License-Identifier: Apache-2.0
// What the gateway learns from the journal: the services there are, who may call them, and what each may use
// in a period.
#include <algorithm>

#include "base/wall_clock.hpp"
#include "engine/unit_quota.hpp"
#include "gateway/gateway.hpp"
#include "wire/codec.hpp"

namespace tranche::gateway {
namespace {

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

}  // namespace tranche::gateway
