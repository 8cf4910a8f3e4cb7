// SPDX-License-Identifier: Apache-2.0
// How a service is at this moment, for whoever asks: its replicas, and how long its answers take.
#include "gateway/gateway.hpp"

namespace tranche::gateway {

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
  for (const LiveService::Copy& copy : picture.copies) {
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
