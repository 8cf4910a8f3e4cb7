// SPDX-License-Identifier: Apache-2.0
#include "app/whatif_world.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "base/text.hpp"
#include "engine/engine.hpp"
#include "engine/record.hpp"
#include "journal/sqlite_store.hpp"
#include "sim/whatif_csv.hpp"

namespace tranche::app {
namespace {

std::int64_t seconds(Instant at) {
  return std::chrono::floor<std::chrono::seconds>(at.time_since_epoch()).count();
}

// Share of each of its devices that the job's meters saw at work; as asked where nothing was metered.
std::uint32_t busy_milli(const engine::State& state, const engine::Job& job, Instant ended) {
  std::int64_t nanoseconds = 0;
  for (const LeaseId id : job.leases) {
    const auto lease = state.leases.find(id);
    if (lease != state.leases.end()) nanoseconds += lease->second.use.device_nanoseconds;
  }
  const std::int64_t micro = std::max<std::int64_t>((ended - job.started).count(), 1);
  const std::int64_t devices = std::max<std::int64_t>(job.ask.instances, 1);
  if (nanoseconds == 0) return job.ask.milli_each;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(nanoseconds / devices / micro, 0, 1000));
}

// Memory on each of its devices, on average; zero where nothing was metered.
std::int64_t vram_used(const engine::State& state, const engine::Job& job, Instant ended) {
  std::int64_t byte_seconds = 0;
  for (const LeaseId id : job.leases) {
    const auto lease = state.leases.find(id);
    if (lease != state.leases.end()) byte_seconds += lease->second.use.vram_byte_seconds;
  }
  const std::int64_t ran = std::max<std::int64_t>(seconds(ended) - seconds(job.started), 1);
  return byte_seconds / ran / std::max<std::int64_t>(job.ask.instances, 1);
}

class Past {
 public:
  void record(std::uint64_t sequence, std::string_view body) {
    auto record = engine::decode_record(body);
    if (!record) throw std::runtime_error("record " + std::to_string(sequence) + ": " + record.error());
    for (const engine::Event& event : record->events) {
      if (const auto* ended = std::get_if<engine::JobEnded>(&event)) end(*ended, record->envelope.at);
      if (const auto* said = std::get_if<engine::LeaseReported>(&event))
        if (wire::is_over(said->report.state)) count(said->report.lease, record->envelope.at);
    }
    engine::apply_record(state_, sequence, record->envelope, record->events);
  }

  sim::WhatIfWorld world() && {
    std::map<std::pair<std::size_t, std::string>, std::uint32_t> racks;
    for (const auto& [id, node] : state_.nodes) {
      if (node.devices.empty()) continue;
      ++racks[{node.devices.size(), state_.devices.at(node.devices.front()).facts.model}];
    }
    for (const auto& [kind, nodes] : racks)
      world_.fleet.push_back(
          {.nodes = nodes, .devices = static_cast<std::uint32_t>(kind.first), .model = kind.second});
    for (const auto& [id, party] : state_.parties)
      if (id.kind() == PartyKind::kTenant) world_.quotas[party.name] = quota_of(party.quota);
    add_devices();
    std::stable_sort(world_.jobs.begin(), world_.jobs.end(), [](const auto& a, const auto& b) {
      return a.submit < b.submit;
    });
    return std::move(world_);
  }

 private:
  void end(const engine::JobEnded& ended, Instant at) {
    const auto found = state_.jobs.find(ended.id);
    if (found == state_.jobs.end() || found->second.attempts == 0) return;
    const engine::Job& job = found->second;
    sim::WhatIfJob out{.submit = seconds(job.submitted),
                       .duration = std::max<std::int64_t>(seconds(at) - seconds(job.started), 1),
                       .tenant = state_.parties.at(engine::tenant_of(state_, job.owner)).name,
                       .ask = job.ask,
                       .busy_milli = busy_milli(state_, job, at),
                       .vram_used = vram_used(state_, job, at)};
    out.ask.simulated = false;  // All nodes of a what-if are of one world.
    world_.jobs.push_back(std::move(out));
  }

  // What a tenant is guaranteed and may hold; money and the number of jobs are of another world.
  static wire::Quota quota_of(const wire::Quota& all) {
    wire::Quota quota;
    quota.gpu_milli = all.gpu_milli;
    quota.share_soft = all.share_soft;
    return quota;
  }

  struct Use {
    double held = 0;  // Milli-device-seconds.
    double busy = 0;  // Seconds.
  };

  void count(LeaseId id, Instant at) {
    const auto found = state_.leases.find(id);
    if (found == state_.leases.end() || found->second.started == Instant{}) return;
    const engine::Lease& lease = found->second;
    const double seconds = std::chrono::duration<double>(at - lease.started).count();
    if (first_ == Instant{}) first_ = lease.started;
    last_ = at;
    for (const engine::Slice& slice : lease.slices) {
      Use& use = uses_[slice.device];
      use.held += slice.milli * seconds;
      use.busy +=
          static_cast<double>(lease.use.device_nanoseconds) / 1e9 / static_cast<double>(lease.slices.size());
    }
  }

  void add_devices() {
    const double span = std::max(std::chrono::duration<double>(last_ - first_).count(), 1.0);
    for (const auto& [id, device] : state_.devices) {
      const engine::Node& node = state_.nodes.at(device.node);
      if (node.state == wire::NodeState::kRetired) continue;
      world_.devices.push_back({.name = text(id),
                                .node = node.name,
                                .model = device.facts.model,
                                .held_percent = uses_[id].held / span / 10.0,
                                .busy_percent = 100.0 * uses_[id].busy / span});
    }
  }

  engine::State state_{};
  sim::WhatIfWorld world_{};
  std::map<DeviceId, Use> uses_{};
  Instant first_{}, last_{};
};

}  // namespace

sim::WhatIfWorld journaled_world(const std::string& data_folder) {
  if (!std::filesystem::is_directory(data_folder))
    throw std::invalid_argument(data_folder + " is not a data folder of a server");
  const auto reader = journal::open_sqlite_reader(data_folder);
  Past past;
  reader->scan(1, reader->last_sequence(), [&](std::uint64_t sequence, std::string_view body) {
    past.record(sequence, body);
    return true;
  });
  return std::move(past).world();
}

static void keep_last(sim::WhatIfWorld& world, const std::string& text) {
  const auto length = parse_duration(text);
  if (!length || *length <= Duration{})
    throw std::invalid_argument("--last takes a duration such as 7d, not '" + text + "'");
  if (world.jobs.empty()) return;
  const std::int64_t from =
      world.jobs.back().submit - std::chrono::floor<std::chrono::seconds>(*length).count();
  std::erase_if(world.jobs, [&](const sim::WhatIfJob& job) { return job.submit < from; });
}

sim::WhatIfWorld world_of(const WhatIfSource& source) {
  if (source.jobs.empty() == source.data.empty())
    throw std::invalid_argument("give either --data FOLDER (a server's own past) or --jobs FILE.csv");
  sim::WhatIfWorld world = source.data.empty() ? sim::WhatIfWorld{.jobs = sim::read_workload(source.jobs)}
                                               : journaled_world(source.data);
  if (!source.fleet.empty()) world.fleet.clear();
  for (const std::string& text : source.fleet) world.fleet.push_back(sim::parse_fleet(text));
  for (const std::string& text : source.shares) sim::parse_share(text, world.quotas);
  if (!source.last.empty()) keep_last(world, source.last);
  if (world.fleet.empty())
    throw std::invalid_argument("no fleet: give --fleet NODESxDEVICESxMODEL, for example 8x8xH100-SXM5-80GB");
  if (world.jobs.empty())
    throw std::invalid_argument("not one job has run there yet; a past is needed to look at");
  return world;
}

}  // namespace tranche::app
