// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_engine.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "engine/world.hpp"

namespace tranche::sim {
namespace {

constexpr Seconds kWipe = 1;
constexpr const char* kModel = "H100-SXM5-80GB";

enum class Due : std::uint8_t { kEnd, kStop, kWiped, kLook };

struct Moment {
  Seconds at = 0;
  Due due = Due::kLook;
  std::uint64_t what = 0;     // A job of the trace, or a lease.
  std::uint32_t segment = 0;  // Of the job: what was meant for an earlier one is void.
  auto key() const { return std::tuple(at, due, what); }
  bool operator>(const Moment& other) const { return key() > other.key(); }
};

struct Progress {
  Seconds remaining = 0;
  Seconds ready = 0;
  Seconds started = 0;
  std::uint32_t segment = 0;
  std::int32_t preemptions = 0;
  bool runs = false;
  bool leaves = false;  // It was told, and goes on through its grace.
  std::vector<LeaseId> leases{};
};

// A gang has equal members, as few as its nodes allow.
std::uint32_t members_of(std::int32_t gpus, std::int32_t gpus_per_node) {
  std::int32_t members = (gpus + gpus_per_node - 1) / gpus_per_node;
  while (gpus % members != 0) ++members;
  return static_cast<std::uint32_t>(members);
}

class EngineReplay {
 public:
  EngineReplay(const ReplayTrace& trace, const ReplayOptions& options)
      : trace_(trace), options_(options), jobs_(trace.jobs.size()), in_system_(trace.pools.size()) {
    run_.outcomes.resize(trace.jobs.size());
    if (trace.jobs.empty()) return;
    run_.began = trace.jobs.front().submit;
    horizon_ = trace.jobs.back().submit;
    began_ = engine_.clock;
    found_fleet();
    found_tenants();
  }

  ReplayRun replay() {
    std::size_t next = 0;
    while (next < trace_.jobs.size() || !moments_.empty()) {
      Seconds now = moments_.empty() ? trace_.jobs[next].submit : moments_.top().at;
      if (next < trace_.jobs.size()) now = std::min(now, trace_.jobs[next].submit);
      engine_.clock = began_ + std::chrono::seconds(now - run_.began);
      while (!moments_.empty() && moments_.top().at == now) {
        const Moment moment = moments_.top();
        moments_.pop();
        happen(moment);
      }
      for (; next < trace_.jobs.size() && trace_.jobs[next].submit == now; ++next) submit(next);
      pass(now);
    }
    return std::move(run_);
  }

 private:
  void found_fleet() {
    for (std::int32_t node = 0; node < trace_.nodes(); ++node)
      engine_.node("n" + std::to_string(node + 1), static_cast<std::uint32_t>(trace_.gpus_per_node), kModel);
  }

  void found_tenants() {
    for (std::size_t pool = 0; pool < trace_.pools.size(); ++pool) {
      const std::string name = "pool-" + std::to_string(pool + 1);
      const PartyId tenant = engine_.create(PartyKind::kTenant, kPlatform, name);
      wire::Quota quota;
      quota.gpu_milli.guaranteed = std::int64_t{guarantee_of(pool)} * 1000;
      TRANCHE_CHECK(engine_.limit(tenant, quota).has_value());
      users_.push_back(engine_.user(tenant, "user"));
    }
  }

  [[nodiscard]] std::int32_t guarantee_of(std::size_t pool) const {
    return trace_.pools[pool].nodes * trace_.gpus_per_node;
  }

  void happen(const Moment& moment) {
    switch (moment.due) {
      case Due::kWiped:
        if (engine_.state.leases.contains(LeaseId{moment.what})) (void)engine_.scrub(LeaseId{moment.what});
        return;
      case Due::kLook:
        looking_ = false;
        return;
      case Due::kEnd:
      case Due::kStop:
        if (jobs_[moment.what].runs && jobs_[moment.what].segment == moment.segment)
          leave(moment.what, moment.at, moment.due == Due::kEnd);
    }
  }

  void submit(std::size_t index) {
    const TraceJob& job = trace_.jobs[index];
    const JobId id{engine_.state.next_job};
    const wire::Ask ask{.isolation = wire::Isolation::kDedicated,
                        .instances = static_cast<std::uint32_t>(job.gpus),
                        .milli_each = 1000,
                        .nodes = members_of(job.gpus, trace_.gpus_per_node)};
    const auto pool = static_cast<std::size_t>(job.pool);
    if (!engine_.run(engine::SubmitJob{.ask = ask, .spec = "{}"}, users_[pool])) {
      run_.outcomes[index].impossible = true;
      return;
    }
    jobs_[index] = {.remaining = job.duration, .ready = job.submit};
    numbers_[id] = index;
    ++waiting_;
    run_.outcomes[index].entitled_at_submit = in_system_[pool] + job.gpus <= guarantee_of(pool);
    in_system_[pool] += job.gpus;
  }

  void pass(Seconds now) {
    ++run_.passes;
    while (engine::schedule_due(engine_.state, engine_.clock)) {
      const auto decision = engine_.run(engine::Schedule{});
      if (!decision || decision->empty()) break;
      for (const engine::Event& event : *decision) {
        if (const auto* granted = std::get_if<engine::LeaseGranted>(&event)) {
          begin(numbers_.at(granted->job), granted->id, now);
        } else if (const auto* revoked = std::get_if<engine::LeaseRevoked>(&event)) {
          tell(numbers_.at(engine_.state.leases.at(revoked->id).job), now);
        } else if (const auto* ordered = std::get_if<engine::DeviceOrdered>(&event)) {
          moments_.push({.at = now + kWipe, .due = Due::kWiped, .what = ordered->lease.value});
        }
      }
    }
    // Ageing and minimum run times change what a pass decides without anything else happening.
    if (waiting_ > 0 && !looking_ && !moments_.empty()) {
      looking_ = true;
      moments_.push({.at = now + options_.rules.wake_every, .due = Due::kLook});
    }
    if (options_.progress && run_.passes % 1024 == 0) options_.progress(now);
  }

  void begin(std::size_t index, LeaseId lease, Seconds now) {
    (void)engine_.report(lease, engine::LeaseState::kRunning);
    Progress& job = jobs_[index];
    job.leases.push_back(lease);
    if (job.runs) return;  // Another member of the gang.
    JobOutcome& outcome = run_.outcomes[index];
    if (outcome.first_start < 0) outcome.first_start = now;
    outcome.wait += now - job.ready;
    job.runs = true;
    job.leaves = false;
    job.started = now;
    --waiting_;
    ++job.segment;
    moments_.push(
        {.at = now + overhead(job) + job.remaining, .due = Due::kEnd, .what = index, .segment = job.segment});
  }

  void tell(std::size_t index, Seconds now) {
    Progress& job = jobs_[index];
    if (!job.runs || job.leaves) return;
    job.leaves = true;
    moments_.push(
        {.at = now + options_.rules.grace, .due = Due::kStop, .what = index, .segment = job.segment});
  }

  [[nodiscard]] Seconds overhead(const Progress& job) const {
    return job.preemptions > 0 ? options_.rules.restart : 0;
  }

  // At its end, or from its last checkpoint.
  void leave(std::size_t index, Seconds now, bool done) {
    Progress& job = jobs_[index];
    const TraceJob& asked = trace_.jobs[index];
    for (const LeaseId id : job.leases) {
      const engine::Lease& lease = engine_.state.leases.at(id);
      const auto reason = lease.revoked && !done ? lease.revoke_reason : engine::EndReason::kExited;
      (void)engine_.report(id, engine::LeaseState::kEnded, reason);
      moments_.push({.at = now + kWipe, .due = Due::kWiped, .what = id.value});
    }
    const Seconds held = now - job.started;
    const Seconds every = options_.rules.checkpoint_every;
    const Seconds safe = done ? job.remaining : std::max<Seconds>(0, held - overhead(job)) / every * every;
    job.leases.clear();
    job.runs = false;
    job.remaining -= safe;
    run_.lost_gpu_seconds += (held - safe) * asked.gpus;
    run_.allocated_gpu_seconds += held * asked.gpus;
    run_.busy_gpu_seconds += std::max<Seconds>(0, std::min(now, horizon_) - job.started) * asked.gpus;
    run_.note_held(asked.pool, asked.gpus, job.started, now);
    if (done) {
      run_.outcomes[index].end = now;
      in_system_[static_cast<std::size_t>(asked.pool)] -= asked.gpus;
      return;
    }
    job.ready = now;
    ++job.preemptions;
    ++run_.outcomes[index].preemptions;
    ++run_.preemptions;
    ++waiting_;
  }

  const ReplayTrace& trace_;
  const ReplayOptions& options_;
  engine::World engine_{};
  Instant began_{};
  Seconds horizon_ = 0;
  ReplayRun run_{};
  std::vector<PartyId> users_{};  // One of every pool.
  std::vector<Progress> jobs_;
  std::map<JobId, std::size_t> numbers_{};
  std::vector<std::int64_t> in_system_;  // Devices that jobs of each pool hold or wait for.
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_{};
  std::int64_t waiting_ = 0;
  bool looking_ = false;
};

}  // namespace

ReplayRun replay_engine(const ReplayTrace& trace, const ReplayOptions& options) {
  return EngineReplay(trace, options).replay();
}

}  // namespace tranche::sim
