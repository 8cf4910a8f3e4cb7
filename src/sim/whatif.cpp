// SPDX-License-Identifier: Apache-2.0
#include "sim/whatif.hpp"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

#include "engine/world.hpp"
#include "sim/whatif_tally.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/partition_geometry.hpp"

namespace tranche::sim {
namespace {

using engine::LeaseState;

enum class Due : std::uint8_t { kEnd, kWiped, kSubmit, kLook };

struct Moment {
  std::int64_t at = 0;
  Due due = Due::kLook;
  std::uint64_t what = 0;  // Of a job in the file, or a lease.
  std::uint32_t attempt = 0;
  // Ends before wipes before submissions: what frees capacity comes first.
  auto key() const { return std::tuple(at, due, what); }
  bool operator>(const Moment& other) const { return key() > other.key(); }
};

class Run {
 public:
  Run(const WhatIfWorld& world, const WhatIfOptions& options)
      : world_(world), options_(options), start_(engine_.clock), tally_(world, options) {
    prepare();
    build_fleet();
    for (const auto& job : world.jobs) tenant(job.tenant);
    for (std::size_t i = 0; i < world.jobs.size(); ++i)
      moments_.push({.at = world.jobs[i].submit, .due = Due::kSubmit, .what = i});
  }

  WhatIfReport run() {
    while (!moments_.empty()) {
      const std::int64_t now = moments_.top().at;
      engine_.clock = start_ + std::chrono::seconds(now - first());
      while (!moments_.empty() && moments_.top().at == now) {
        const Moment moment = moments_.top();
        moments_.pop();
        happen(moment);
      }
      pass(now);
    }
    return tally_.report();
  }

 private:
  std::int64_t first() const { return world_.jobs.empty() ? 0 : world_.jobs.front().submit; }

  void prepare() {
    wire::Settings settings = engine_.state.settings;
    settings.prepare_percent = options_.prepare_percent;
    settings.keep_ended_jobs = std::chrono::hours(24 * 365);  // What is learned is not forgotten on the way.
    TRANCHE_CHECK(engine_.run(engine::ChangeSettings{settings}, engine_.root).has_value());
  }

  void build_fleet() {
    std::uint32_t number = 0;
    for (const WhatIfNodes& rack : world_.fleet) {
      const wire::GpuModel* const known = wire::find_gpu_model(rack.model);
      for (std::uint32_t i = 0; i < rack.nodes; ++i) {
        const std::string name = "n" + std::to_string(++number);
        if (options_.sharing == Sharing::kPartitions && wire::find_geometry(rack.model) != nullptr) {
          engine_.partitionable(name, rack.devices, rack.model);
          continue;
        }
        const NodeId id = engine_.node(name, rack.devices, rack.model);
        if (known == nullptr || known->vram == Bytes{}) continue;
        wire::Hello hello = engine::World::hello(engine_.state.nodes.at(id).name, rack.devices, rack.model);
        for (wire::DeviceFacts& device : hello.devices) device.vram = known->vram;
        TRANCHE_CHECK(engine_.run(engine::ReportNode{id, hello}).has_value());
      }
    }
  }

  PartyId tenant(const std::string& name) {
    const auto known = users_.find(name);
    if (known != users_.end()) return known->second;
    const PartyId party = engine_.create(PartyKind::kTenant, kPlatform, name);
    const auto written = world_.quotas.find(name);
    wire::Quota quota = written == world_.quotas.end() ? wire::Quota{} : written->second;
    if (!quota.share_soft) quota.share_soft = true;
    TRANCHE_CHECK(engine_.limit(party, quota).has_value());
    return users_[name] = engine_.user(party, "user");
  }

  void happen(const Moment& moment) {
    switch (moment.due) {
      case Due::kSubmit:
        return submit(static_cast<std::size_t>(moment.what));
      case Due::kEnd:
        return end(LeaseId{moment.what}, moment.at);
      case Due::kWiped:
        if (engine_.state.leases.contains(LeaseId{moment.what})) (void)engine_.scrub(LeaseId{moment.what});
        return;
      case Due::kLook:
        looking_ = false;
        return;
    }
  }

  void submit(std::size_t index) {
    const WhatIfJob& job = world_.jobs[index];
    const JobId id{engine_.state.next_job};
    wire::Ask ask = job.ask;
    ask.may_burst = true;  // What cannot run is counted as unfinished, not as refused.
    if (options_.sharing == Sharing::kDedicated && ask.instances > 0) {
      ask.milli_each = 1000;
      ask.isolation = wire::Isolation::kDedicated;
      ask.range.reset();
    }
    if (options_.sharing == Sharing::kPartitions) cut_to_measure(ask);
    const auto answer =
        engine_.run(engine::SubmitJob{.ask = std::move(ask), .spec = "{}"}, users_.at(job.tenant));
    if (answer) {
      files_[id] = index;
      ++open_;
    } else {
      tally_.refused(answer.error().message);
    }
  }

  // The smallest partition, of any device of the fleet, that has the memory and the compute.
  void cut_to_measure(wire::Ask& ask) const {
    if (ask.instances == 0 || ask.isolation != wire::Isolation::kSoft || ask.milli_each >= 1000) return;
    const wire::PartitionProfile* best = nullptr;
    for (const WhatIfNodes& rack : world_.fleet) {
      const wire::PartitionGeometry* geometry = wire::find_geometry(rack.model);
      if (geometry == nullptr) continue;
      for (const wire::PartitionProfile& profile : geometry->profiles) {
        const std::uint32_t milli = profile.compute_slices * 1000U / geometry->compute_slices;
        const bool holds = !profile.media && profile.memory.count >= ask.vram_each && milli >= ask.milli_each;
        if (holds && (best == nullptr || profile.memory < best->memory)) best = &profile;
      }
    }
    if (best == nullptr) return;
    ask.isolation = wire::Isolation::kHard;
    ask.profile = best->name;
    ask.range.reset();
  }

  // What every device that is cut is cut into, now.
  void note_layouts() {
    std::map<DeviceId, std::multiset<std::string>> parts;
    for (const auto& [id, lease] : engine_.state.leases) {
      if (!lease.holds_slices()) continue;
      const std::string& profile = engine_.state.jobs.at(lease.job).ask.profile;
      if (profile.empty()) continue;
      for (const engine::Slice& slice : lease.slices) parts[slice.device].insert(profile);
    }
    std::map<std::string, std::uint32_t> layouts;
    for (const auto& [device, profiles] : parts) {
      std::string layout;
      for (const std::string& profile : profiles) layout += (layout.empty() ? "" : " + ") + profile;
      ++layouts[layout];
    }
    tally_.cut(layouts);
  }

  void end(LeaseId id, std::int64_t now) {
    const auto found = engine_.state.leases.find(id);
    if (found == engine_.state.leases.end() || !found->second.live()) return;
    const engine::Lease lease = found->second;
    tally_.held_until(id, now);
    const bool preempted = lease.revoked;
    (void)engine_.report(
        id, LeaseState::kEnded, preempted ? lease.revoke_reason : engine::EndReason::kExited);
    if (!preempted) tally_.worked(id);
    moments_.push({.at = now + options_.wipe_seconds, .due = Due::kWiped, .what = id.value});
    const auto job = engine_.state.jobs.find(lease.job);
    if (!preempted && (job == engine_.state.jobs.end() || engine::is_over(job->second.state))) {
      --open_;
      tally_.ended(now);
    }
  }

  void pass(std::int64_t now) {
    while (engine_.state.index.capacity->due(engine_.clock)) {
      const auto decision = engine_.run(engine::Schedule{});
      if (!decision || decision->empty()) break;
      for (const engine::Event& event : *decision) {
        if (const auto* granted = std::get_if<engine::LeaseGranted>(&event)) {
          grant(*granted, now);
        } else if (const auto* revoked = std::get_if<engine::LeaseRevoked>(&event)) {
          tally_.preempted();
          moments_.push({.at = now + 1, .due = Due::kEnd, .what = revoked->id.value});
        } else if (const auto* ordered = std::get_if<engine::DeviceOrdered>(&event)) {
          moments_.push(
              {.at = now + options_.wipe_seconds, .due = Due::kWiped, .what = ordered->lease.value});
        }
      }
    }
    if (options_.sharing == Sharing::kPartitions) note_layouts();
    // Ageing and minimum run times change what a pass decides without anything else happening.
    if (open_ > 0 && !looking_ && !moments_.empty()) {
      looking_ = true;
      moments_.push({.at = now + 60, .due = Due::kLook});
    }
  }

  void grant(const engine::LeaseGranted& lease, std::int64_t now) {
    const std::size_t index = files_.at(lease.job);
    (void)engine_.report(lease.id, LeaseState::kRunning);
    std::int64_t milli = 0;
    for (const engine::Slice& slice : lease.slices) milli += slice.milli;
    tally_.started(index, lease, milli, now);
    moments_.push({.at = now + world_.jobs[index].duration, .due = Due::kEnd, .what = lease.id.value});
  }

  const WhatIfWorld& world_;
  const WhatIfOptions& options_;
  engine::World engine_{};
  Instant start_;
  WhatIfTally tally_;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_{};
  std::map<std::string, PartyId> users_{};
  std::map<JobId, std::size_t> files_{};
  std::int64_t open_ = 0;
  bool looking_ = false;
};

}  // namespace

std::string_view sharing_name(Sharing sharing) {
  if (sharing == Sharing::kDedicated) return "dedicated";
  return sharing == Sharing::kPartitions ? "partitions" : "as-asked";
}

WhatIfReport what_if(const WhatIfWorld& world, const WhatIfOptions& options) {
  return Run(world, options).run();
}

}  // namespace tranche::sim
