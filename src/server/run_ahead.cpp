// SPDX-License-Identifier: Apache-2.0
#include "server/run_ahead.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "engine/attempt.hpp"
#include "engine/schedule.hpp"
#include "engine/slice_change.hpp"
#include "policy/forecast.hpp"
#include "policy/runtime_estimate.hpp"

namespace tranche::server {
namespace {

using engine::Job;
using engine::Lease;
using engine::State;
using std::chrono::seconds;

constexpr double kMiddle = 0.5;
constexpr Duration kStartup = seconds(1);

class Ahead {
 public:
  Ahead(State& state, Instant now, const RunAheadOptions& options)
      : state_(state), from_(now), clock_(now), options_(options) {
    learn();
    for (const auto& [id, job] : state_.jobs)
      if (!job.leases.empty() && !wire::is_over(job.state)) plan_end(job);
    free_old_slices();
  }

  std::optional<Duration> until_start(JobId asked) {
    for (std::uint32_t step = 0; step < options_.steps_max; ++step) {
      if (pass(asked)) return clock_ - from_;
      if (!advance()) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  engine::Events run(const engine::Command& command) {
    const Envelope envelope{.at = clock_, .seed = state_.sequence};
    auto decided = engine::decide(state_, envelope, command);
    if (!decided) return {};
    engine::apply_record(state_, state_.sequence + 1, envelope, *decided);
    return std::move(*decided);
  }

  [[nodiscard]] policy::RuntimeKind kind_of(const Job& job) {
    const auto tenant = engine::tenant_of(state_, job.owner).value;
    return history_.kind(static_cast<policy::GroupIndex>(tenant & 0x3FFFFFFFU),
                         static_cast<std::int32_t>(job.ask.gpu_milli()));
  }

  void learn() {
    for (const auto& [id, job] : state_.jobs) {
      const bool ran = job.state == wire::JobState::kSucceeded || job.state == wire::JobState::kFailed;
      if (ran && job.started != Instant{} && job.ended > job.started)
        history_.finished(kind_of(job), std::chrono::ceil<seconds>(job.ended - job.started).count());
    }
  }

  // What a job of this kind takes in all, given what it has run.
  Duration drawn(const Job& job, Duration elapsed) {
    const policy::RuntimeKind kind = kind_of(job);
    const double q =
        options_.runs == 0
            ? kMiddle
            : policy::draw_quantile(
                  options_.seed, options_.run, options_.runs, kind, static_cast<std::int32_t>(job.id.value));
    return seconds(history_.draw(kind,
                                 std::chrono::floor<seconds>(elapsed).count(),
                                 q,
                                 std::chrono::ceil<seconds>(job.ask.time).count()));
  }

  void plan_end(const Job& job) {
    bool revoked = false;
    Instant started = clock_;
    for (const LeaseId id : job.leases) {
      const Lease& lease = state_.leases.at(id);
      if (!lease.live()) continue;
      revoked = revoked || lease.revoked;
      if (lease.started != Instant{}) started = std::min(started, lease.started);
    }
    const Lease& first = state_.leases.at(job.leases.front());
    const bool off = first.live() && first.parking == engine::Parking::kParked;
    const Duration away = first.parked_for + (off ? clock_ - first.parked : Duration{});
    const Instant natural = std::max(started + away + drawn(job, clock_ - started - away), clock_ + kStartup);
    if (off && !revoked) {
      left_[job.id] = natural - clock_;
      return;
    }
    const Instant told = clock_ + engine::grace_of(job);
    const Instant end = revoked ? std::min(natural, told) : natural;
    const auto [at, fresh] = ends_by_job_.try_emplace(job.id, end);
    if (!fresh) {
      if (at->second <= end) return;
      ends_.erase({at->second, job.id});
      at->second = end;
    }
    ends_.emplace(end, job.id);
  }

  // Wipes that are under way end at once: what matters here takes minutes.
  void free_old_slices() {
    std::vector<LeaseId> dirty;
    for (const auto& [id, lease] : state_.leases)
      if (!lease.live() && lease.holds_slices()) dirty.push_back(id);
    for (const LeaseId id : dirty) wipe(id);
    std::vector<DeviceId> whole;
    for (const auto& [id, device] : state_.devices)
      if (device.state == wire::DeviceState::kScrubbing) whole.push_back(id);
    for (const DeviceId id : whole) wipe(id);
  }

  void wipe(LeaseId id) {
    const Lease& lease = state_.leases.at(id);
    wire::Receipts receipts;
    for (const engine::Slice& slice : lease.slices)
      receipts.scrubs.push_back(
          {.device = slice.device, .lease = id, .zeroed = {slice.vram}, .verified = {slice.vram}});
    run(engine::KeepReceipts{.node = lease.node, .receipts = std::move(receipts)});
  }

  void wipe(DeviceId id) {
    const engine::Device& device = state_.devices.at(id);
    for (const LeaseId owed : std::vector<LeaseId>(device.record.owed)) wipe(owed);
    if (device.record.left_by == LeaseId{}) return;
    wire::Receipts receipts;
    receipts.scrubs.push_back({.device = id,
                               .lease = device.record.left_by,
                               .zeroed = device.facts.vram,
                               .verified = device.facts.vram});
    run(engine::KeepReceipts{.node = device.node, .receipts = std::move(receipts)});
  }

  // After a planned window: what it was before the window it is held to be after it.
  void carry_out(const engine::DeviceOrdered& ordered) {
    if (ordered.task != wire::DeviceTask::kAccept) return wipe(ordered.device);
    const engine::Device& device = state_.devices.at(ordered.device);
    wire::Receipts receipts;
    receipts.outcomes.push_back({ordered.order, ordered.device, ordered.task, true, ""});
    receipts.acceptances.push_back({.device = ordered.device,
                                    .level = ordered.level,
                                    .verdict = wire::Verdict::kPass,
                                    .at = clock_,
                                    .tests = {{.name = "foretold", .verdict = wire::Verdict::kPass}}});
    receipts.scrubs.push_back(
        {.device = ordered.device, .zeroed = device.facts.vram, .verified = device.facts.vram});
    run(engine::KeepReceipts{.node = device.node, .receipts = std::move(receipts)});
  }

  // True when the job got its place.
  bool pass(JobId asked) {
    while (engine::schedule_due(state_, clock_)) {
      const engine::Events events = run(engine::Schedule{});
      if (events.empty()) break;
      for (const engine::Event& event : events) {
        if (const auto* granted = std::get_if<engine::LeaseGranted>(&event)) {
          if (granted->job == asked) return true;
          report(granted->id, wire::LeaseState::kRunning);
          plan_end(state_.jobs.at(granted->job));
        }
        if (const auto* revoked = std::get_if<engine::LeaseRevoked>(&event))
          if (const Lease* lease = state_.lease(revoked->id))
            if (const Job* job = state_.job(lease->job)) plan_end(*job);
        if (const auto* ordered = std::get_if<engine::DeviceOrdered>(&event)) carry_out(*ordered);
        if (const LeaseId changed = engine::lease_changed_by(event); changed != LeaseId{}) answer(changed);
      }
    }
    return false;
  }

  // Nodes do at once what they are asked: smaller and larger slices, off the devices and back.
  void answer(LeaseId id) {
    const Lease& lease = state_.leases.at(id);
    wire::LeaseReport said{
        .lease = id, .epoch = lease.epoch, .state = wire::LeaseState::kRunning, .at = clock_};
    if (lease.change) {
      said.milli = lease.change->milli;
      said.vram = Bytes{lease.change->vram};
    }
    if (lease.parking == engine::Parking::kAsked) {
      said.state = wire::LeaseState::kPaused;
      stop_clock(lease.job);
    }
    if (lease.parking == engine::Parking::kReturning) go_on(lease.job);
    run(engine::ReportLease{.node = lease.node, .report = said});
  }

  // A job that is off its devices has as much before it when it comes back.
  void stop_clock(JobId job) {
    const auto planned = ends_by_job_.find(job);
    if (planned == ends_by_job_.end()) return;
    left_[job] = std::max<Duration>(planned->second - clock_, kStartup);
    ends_.erase({planned->second, job});
    ends_by_job_.erase(planned);
  }
  void go_on(JobId job) {
    const auto left = left_.find(job);
    const Instant end = clock_ + (left == left_.end() ? Duration(kStartup) : left->second);
    if (ends_by_job_.emplace(job, end).second) ends_.emplace(end, job);
  }

  void report(LeaseId id, wire::LeaseState to) {
    const Lease& lease = state_.leases.at(id);
    const bool over = wire::is_over(to);
    run(engine::ReportLease{.node = lease.node,
                            .report = {.lease = id,
                                       .epoch = lease.epoch,
                                       .state = to,
                                       .at = clock_,
                                       .reason = !over           ? wire::EndReason::kNone
                                                 : lease.revoked ? lease.revoke_reason
                                                                 : wire::EndReason::kExited}});
  }

  bool advance() {
    Instant next = state_.index.calendar->wakes(clock_);
    if (!ends_.empty()) next = std::min(next, ends_.begin()->first);
    next = std::min(next, state_.index.capacity->next_delayed(clock_));
    if (next == Instant::max() || next > from_ + options_.look_ahead) return false;
    clock_ = std::max(next, clock_ + std::chrono::milliseconds(1));
    while (!ends_.empty() && ends_.begin()->first <= clock_) {
      const JobId id = ends_.begin()->second;
      ends_.erase(ends_.begin());
      ends_by_job_.erase(id);
      end(id);
    }
    return true;
  }

  void end(JobId id) {
    const auto found = state_.jobs.find(id);
    if (found == state_.jobs.end()) return;
    const std::vector<LeaseId> leases = found->second.leases;
    for (const LeaseId lease : leases) {
      if (!state_.leases.at(lease).live()) continue;
      report(lease, wire::LeaseState::kEnded);
      if (!state_.leases.at(lease).scrubbed) wipe(lease);
    }
  }

  State& state_;
  Instant from_;
  Instant clock_;
  RunAheadOptions options_;
  policy::RuntimeHistory history_;
  std::set<std::pair<Instant, JobId>> ends_;
  std::map<JobId, Instant> ends_by_job_;
  std::map<JobId, Duration> left_;
};

}  // namespace

std::optional<Duration> run_ahead(engine::State& state,
                                  Instant now,
                                  JobId job,
                                  const RunAheadOptions& options) {
  if (state.job(job) == nullptr) return std::nullopt;
  return Ahead(state, std::max(now, state.now), options).until_start(job);
}

}  // namespace tranche::server
