// SPDX-License-Identifier: Apache-2.0
#include "engine/service.hpp"

#include <algorithm>

#include "engine/admission.hpp"
#include "engine/decide.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kVersionsMax = 16;
constexpr std::uint32_t kReplicasMax = 1000;
// Requests stand for the time between two counts of them, and not for a night without any.
constexpr Duration kIdleForgiven = std::chrono::minutes(1);

const Service* find_service(const State& state, const ServiceKey& key) {
  const auto found = state.work.services.find(key);
  return found == state.work.services.end() ? nullptr : &found->second;
}

Refusal gone() {
  return {
      .reason = Reason::kStale, .rule = "service", .message = "there is no such service any more", .fix = ""};
}

}  // namespace

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const SetService& command) {
  const PartyId owner = command.owner == PartyId{} ? actor.party : command.owner;
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, owner)) return refuse(*refusal);
  if (owner.kind() != PartyKind::kUser && owner.kind() != PartyKind::kService)
    return refuse(invalid("owner", "a service belongs to a user or a service account", "name one"));
  if (command.versions.empty() || command.versions.size() > kVersionsMax || command.name.empty() ||
      command.replicas_max == 0 || command.replicas_max > kReplicasMax)
    return refuse(
        invalid("service", "a service has a name, 1 to 16 versions and 1 to 1000 replicas", "see docs"));
  const ServiceKey key{tenant_of(state, owner), command.name};
  if (const Service* before = find_service(state, key); before != nullptr && before->owner != owner) {
    if (auto refusal = check_access(state, actor, Action::kStopJob, before->owner)) return refuse(*refusal);
  }
  for (const ServiceShape& version : command.versions)
    if (const auto admitted = admit(state, owner, version.ask, envelope.at); !admitted)
      return refuse(admitted.error());
  return Events{ServiceSet{key, owner, command.replicas_max, command.spec, command.versions}};
}

void apply(State& state, const Envelope&, const ServiceSet& event) {
  Service& service = state.work.services[event.key];
  service.key = event.key;
  service.owner = event.owner;
  service.replicas_max = event.replicas_max;
  service.spec = event.spec;
  service.versions = event.versions;
  service.revision = state.sequence;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const RemoveService& command) {
  const Service* service = find_service(state, command.key);
  if (service == nullptr || !may(state, actor, Action::kViewJob, service->owner)) return refuse(not_found());
  if (auto refusal = check_access(state, actor, Action::kStopJob, service->owner)) return refuse(*refusal);
  Events events{ServiceRemoved{command.key, service->owner}};
  for (const Replica& replica : service->replicas) {
    const Job* job = state.job(replica.job);
    if (job != nullptr && !is_over(job->state)) append_stop(state, *job, events);
  }
  return events;
}

void apply(State& state, const Envelope&, const ServiceRemoved& event) {
  state.work.services.erase(event.key);
  std::erase_if(state.index.work->service_of, [&](const auto& entry) { return entry.second == event.key; });
}

Decision decide(const State& state, const Envelope& envelope, const AddReplica& command) {
  const Service* service = find_service(state, command.key);
  if (service == nullptr) return refuse(gone());
  const auto version = std::find_if(service->versions.begin(), service->versions.end(), [&](const auto& one) {
    return one.name == command.version;
  });
  if (version == service->versions.end()) return refuse(gone());
  const auto live = std::count_if(
      service->replicas.begin(), service->replicas.end(), [](const Replica& one) { return !one.retiring; });
  // A rolling update runs one more for a while; so do versions beside each other.
  const auto most = static_cast<std::ptrdiff_t>(service->replicas_max + service->versions.size());
  if (live >= most) return refuse(invalid("replicas", "the service has all the replicas that it may", ""));
  const auto admitted = admit(state, service->owner, version->ask, envelope.at);
  if (!admitted) return refuse(admitted.error());
  const JobId id{state.next_job};
  JobSubmitted submitted{.id = id,
                         .owner = service->owner,
                         .admission = admitted->admission,
                         .hold = admitted->hold,
                         .name = command.key.name + "-" + command.version,
                         .ask = version->ask,
                         .spec = version->spec};
  submitted.ask.time = admitted->time;
  submitted.ask.spend = admitted->spend;
  return Events{std::move(submitted), ReplicaAdded{command.key, service->owner, id, command.version}};
}

void apply(State& state, const Envelope&, const ReplicaAdded& event) {
  const auto found = state.work.services.find(event.key);
  if (found == state.work.services.end()) return;
  found->second.replicas.push_back(
      {.job = event.job, .version = event.version, .revision = found->second.revision});
  state.index.work->service_of.emplace(event.job, event.key);
}

Decision decide(const State& state, const Envelope&, const RetireReplica& command) {
  const Service* service = find_service(state, command.key);
  if (service == nullptr) return refuse(gone());
  const auto replica = std::find_if(service->replicas.begin(), service->replicas.end(), [&](const auto& one) {
    return one.job == command.job;
  });
  if (replica == service->replicas.end()) return refuse(gone());
  Events events;
  if (!replica->retiring) events.push_back(ReplicaRetired{command.key, service->owner, command.job});
  const Job* job = state.job(command.job);
  if (job != nullptr && !is_over(job->state) && !job->stop_requested) append_stop(state, *job, events);
  return events;
}

void apply(State& state, const Envelope&, const ReplicaRetired& event) {
  const auto found = state.work.services.find(event.key);
  if (found == state.work.services.end()) return;
  for (Replica& replica : found->second.replicas)
    if (replica.job == event.job) replica.retiring = true;
}

Decision decide(const State& state, const Envelope& envelope, const CountRequests& command) {
  const Service* service = find_service(state, command.key);
  if (service == nullptr) return refuse(gone());
  Events events;
  if (hour_start(envelope.at) != service->hour.from) events = judge_levels(state, *service);
  events.push_back(ServiceUsed{command.key, service->owner, command.use});
  return events;
}

void charge_service(State& state, JobId replica, Money amount) {
  const auto key = state.index.work->service_of.find(replica);
  if (key == state.index.work->service_of.end()) return;
  ServiceHour& hour = state.work.services.at(key->second).hour;
  hour.charged.micros += amount.micros;
  hour.job = replica;
}

void apply(State& state, const Envelope& envelope, const ServiceUsed& event) {
  const auto found = state.work.services.find(event.key);
  if (found == state.work.services.end()) return;
  ServiceUse& use = found->second.use;
  use.requests += event.use.requests;
  use.failed += event.use.failed;
  use.tokens_in += event.use.tokens_in;
  use.tokens_out += event.use.tokens_out;
  use.judged += event.use.judged;
  use.in_time += event.use.in_time;
  ServiceHour& hour = found->second.hour;
  if (hour.from != hour_start(envelope.at)) hour = {.from = hour_start(envelope.at), .job = hour.job};
  hour.judged += event.use.judged;
  hour.in_time += event.use.in_time;
  // They are charged with the lease of a replica that lives; which one makes no difference to the bill.
  const auto& replicas = found->second.replicas;
  const auto live =
      std::find_if(replicas.begin(), replicas.end(), [](const Replica& one) { return !one.retiring; });
  if (live == replicas.end()) return;
  CountedUnits counted{.jobs = {live->job}, .at = envelope.at, .in_place_of = kIdleForgiven};
  for (const Replica& replica : replicas)
    if (!replica.retiring && replica.job != live->job) counted.jobs.push_back(replica.job);
  for (const auto& [unit, count] : {std::pair("requests", event.use.requests),
                                    std::pair("tokens_in", event.use.tokens_in),
                                    std::pair("tokens_out", event.use.tokens_out)}) {
    counted.unit = unit;
    counted.count = static_cast<std::int64_t>(count);
    count_units(state, counted);
  }
}

}  // namespace tranche::engine
