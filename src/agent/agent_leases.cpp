// SPDX-License-Identifier: Apache-2.0
// What an agent does about its leases.
#include <algorithm>
#include <csignal>
#include <sys/syscall.h>

#include "agent/agent_send.hpp"
#include "agent/cdi_spec.hpp"
#include "agent/files.hpp"
#include "agent/sandbox_rights.hpp"
#include "wire/health_codes.hpp"

namespace tranche::agent {
namespace {

using wire::EndReason;
using wire::LeaseState;

Instant instant(std::uint64_t microseconds) {
  return Instant(Duration(static_cast<std::int64_t>(microseconds)));
}

std::optional<Instant> newest_checkpoint(const std::filesystem::path& folder) {
  std::optional<Instant> newest;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const auto written = std::chrono::time_point_cast<Duration>(
        std::chrono::file_clock::to_sys(entry.last_write_time(ignored)));
    if (!newest || written > *newest) newest = written;
  }
  return newest;
}

}  // namespace

void Agent::take_grant(wire::LeaseGrant grant) {
  const BootTime now = boot_time();
  const BootTime expires = now + nanoseconds(grant.expires_in);
  switch (table_.offer(grant.lease, grant.epoch, now, expires)) {
    case Offer::kStale:
      return refuse_grant(grant, EndReason::kNone, "this node has seen a newer epoch of the lease");
    case Offer::kKnown:
      return;
    case Offer::kNewEpoch:
      if (Job* job = job_of(grant.lease)) {
        job->folder.grant.epoch = grant.epoch;
        job->folder.page().expires_at = expires;
        job->folder.page().reported = 0;
        look(*job);
      }
      return;
    case Offer::kTake:
      break;
  }
  try {
    start(grant);
  } catch (const std::exception& error) {
    const std::string why = error.what();
    abandon(grant.lease);
    refuse_grant(grant, EndReason::kPlatformFault, why);
  }
}

void Agent::refuse_grant(const wire::LeaseGrant& grant, EndReason reason, const std::string& message) {
  options_.log("refused " + text(grant.lease) + ": " + message);
  if (reason != EndReason::kNone) table_.end(grant.lease);
  send_surely(wire::LeaseReport{.lease = grant.lease,
                                .epoch = grant.epoch,
                                .state = LeaseState::kRefused,
                                .at = wall_time(),
                                .reason = reason,
                                .message = message});
}

void Agent::start(const wire::LeaseGrant& grant) {
  const std::uint32_t uid = options_.simulated ? 0 : job_user(options_.rules, grant);
  Job& job = jobs_.emplace(grant.lease, LeaseFolder::create(options_.rules.data / "leases", grant, uid))
                 .first->second;
  job.folder.page().expires_at = table_.expiry_of(grant.lease).value_or(0);
  for (const wire::SliceGrant& slice : grant.slices) {
    const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const Device& device) {
      return device.facts.uuid == slice.uuid;
    });
    if (found == devices_.end()) throw std::runtime_error("this node has no device " + slice.uuid);
    if (const LeaseId before = wiped_after_expiry(slice.uuid); before != LeaseId{})
      throw std::runtime_error(slice.uuid + " is still being wiped after " + text(before));
    job.physical.push_back(static_cast<std::uint32_t>(found - devices_.begin()));
  }
  shares_->set_up(grant, shared_devices(job), job.folder.path());
  if (options_.simulated) return start_simulated(job);
  std::string socket;
  if (!grant.slices.empty() && home_->has_guard()) socket = guard_->open(grant, job.physical);
  const std::filesystem::path checkpoints = checkpoint_folder(options_.rules, grant.job);
  make_folder(checkpoints, 0700);
  if (uid != 0 && ::chown(checkpoints.c_str(), uid, uid) != 0)
    throw std::runtime_error("cannot hand the checkpoint folder to the job's user");
  auto plan = plan_job(grant, job.folder.path(), options_.rules, *home_, devices_of(job), socket);
  if (!plan) {
    const PlanRefusal refusal = plan.error();
    abandon(grant.lease);
    return refuse_grant(grant, refusal.reason, refusal.message);
  }
  show_daemon(job, *plan);
  attach_volumes(grant, *plan);
  report(job, LeaseState::kAccepted);
  if (!grant.slices.empty()) write_whole(job.folder.path() / "cdi.json", cdi_specification(*plan), 0600);
  gather(job, std::move(*plan));
}

void Agent::launch(Job& job, const SandboxPlan& plan) {
  if (waits_for_wipe(job, plan)) return;
  const int pid = spawner_->start(plan);
  job.supervisor.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void Agent::take_renewal(const wire::LeaseRenewal& renewal) {
  const BootTime expires = boot_time() + nanoseconds(renewal.expires_in);
  Job* job = job_of(renewal.lease);
  if (job == nullptr || !table_.renew(renewal.lease, renewal.epoch, expires)) return;
  job->folder.page().expires_at = *table_.expiry_of(renewal.lease);
  take_units(*job, renewal.units);
  if (renewal.milli || renewal.vram) take_change(*job, renewal);
}

void Agent::take_revoke(const wire::LeaseRevoke& revoke) {
  Job* job = job_of(revoke.lease);
  // A stale order must not end a newer run; an order for what is not here has nothing to end.
  if (job == nullptr || table_.door(revoke.lease, revoke.epoch) != Door::kOpen) return;
  const auto reason = static_cast<std::uint32_t>(revoke.reason);
  if (!revoke.message.empty()) job->stop_message = revoke.message;
  switch (revoke.way) {
    case wire::RevokeWay::kPause:
      return park(*job, revoke.grace);
    case wire::RevokeWay::kResume:
      return unpark(*job);
    case wire::RevokeWay::kCheckpoint: {
      const BootTime grace = nanoseconds(revoke.grace);
      const BootTime last = boot_time() + grace + nanoseconds(std::chrono::seconds(10));
      table_.revoke(revoke.lease, last);
      job->folder.page().expires_at = last;
      return order(*job, {.kind = OrderKind::kStop, .reason = reason, .grace_ns = grace});
    }
    case wire::RevokeWay::kKill:
      table_.revoke(revoke.lease, boot_time() + nanoseconds(std::chrono::seconds(10)));
      return order(*job, {.kind = OrderKind::kKill, .reason = reason});
  }
}

void Agent::order(Job& job, const ShimOrder& order) {
  if (is_over(phase_of(job.folder.page()))) return;
  if (options_.simulated) return simulate_order(job, order);
  if (job.fetching) {
    if (order.kind == OrderKind::kStop || order.kind == OrderKind::kKill) job.ended_by = order;
    if (job.ended_by && job.gathering) job.gathering->store(false);
    return;
  }
  job.unheard.reset();
  if (send_datagram(notes_.get(), job.folder.path().string(), kShimSocket, &order, sizeof order)) return;
  job.unheard = order;  // It may be a moment from listening.
}

void Agent::report(Job& job, LeaseState state, const std::string& message) {
  const LeasePage& page = job.folder.page();
  wire::LeaseReport report{.lease = job.folder.grant.lease,
                           .epoch = job.folder.grant.epoch,
                           .state = state,
                           .at = wall_time(),
                           .message = message};
  if (state == LeaseState::kRunning) {
    report.at = instant(page.running_since);
    open_service(job);
    report.port = job.door.port;
    report.port_sealed = job.door.is_sealed();
  }
  if (state == LeaseState::kEnded) {
    report.at = instant(page.ended_at);
    report.reason = static_cast<EndReason>(page.reason.load());
    report.exit_code = page.exit_code;
    report.exit_signal = page.exit_signal;
    report.checkpoint = newest_checkpoint(checkpoint_folder(options_.rules, job.folder.grant.job));
  }
  job.folder.page().last_sequence = send_surely(report);
}

void Agent::look(Job& job) {
  LeasePage& page = job.folder.page();
  const JobPhase phase = phase_of(page);
  const std::uint32_t told = page.reported;
  const auto code = static_cast<std::uint32_t>(phase) + 1;
  if (page.settled == 0 && code != told && !held_back(job, phase)) {
    page.reported = code;
    if (phase == JobPhase::kPreparing) report(job, LeaseState::kPreparing);
    const bool running_told = page.running_told != 0;
    if (page.running_since != 0 && !running_told && phase != JobPhase::kPaused) {
      page.running_told = 1;
      report(job, LeaseState::kRunning);
    } else if (phase == JobPhase::kRunning) {
      report(job, LeaseState::kRunning);  // Again, after a pause.
    }
    if (page.running_since != 0 && job.meter_next == 0)
      job.meter_next = boot_time() + nanoseconds(options_.meter_every);
    if (phase == JobPhase::kPaused) report(job, LeaseState::kPaused);
    if (phase == JobPhase::kStopping) report(job, LeaseState::kStopping, job.stop_message);
    if ((phase == JobPhase::kPaused || phase == JobPhase::kRunning) && guard_ && !job.physical.empty()) {
      try {
        guard_->change(job.folder.grant, job.physical, phase == JobPhase::kPaused);
      } catch (const std::exception& error) { options_.log(error.what()); }
    }
    if (phase == JobPhase::kEnded) {
      send_logs(job);  // Whoever hears of the end and reads the log finds the last words in it.
      settle(job);
    }
    if (phase == JobPhase::kStuck && !std::exchange(job.stuck_told, true)) {
      for (const wire::SliceGrant& slice : job.folder.grant.slices)
        send_surely(wire::HealthSignal{.uuid = slice.uuid,
                                       .source = "agent",
                                       .code = wire::kLeaseStuck,
                                       .at = wall_time(),
                                       .text = text(job.folder.grant.lease) + " cannot be ended"});
      report(job, LeaseState::kStopping, "the job cannot be ended; its devices are out of service");
      table_.end(job.folder.grant.lease);
    }
  }
  send_logs(job);
}

void Agent::meter(Job& job, Instant now) {
  LeasePage& page = job.folder.page();
  if (page.running_since == 0 || job.folder.grant.slices.empty()) return;
  std::vector<DeviceReading> readings =
      guard_ ? guard_->read(job.folder.grant) : std::vector<DeviceReading>(job.folder.grant.slices.size());
  if (options_.simulated)
    for (std::size_t i = 0; i < readings.size(); ++i) {
      const wire::SliceGrant& slice = job.folder.grant.slices[i];
      const auto ran =
          static_cast<std::uint64_t>(std::max<std::int64_t>(0, (now - instant(page.running_since)).count()));
      readings[i] = {.device_nanoseconds = ran * slice.milli, .vram = slice.vram};
    }
  // Of what the device draws, the part that was granted: what idles on a device is paid for by its users.
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const wire::SliceGrant& slice = job.folder.grant.slices[i];
    const auto sample = samples_.find(slice.uuid);
    if (sample != samples_.end())
      readings[i].milliwatts = std::int64_t{sample->second.power_milliwatts} * slice.milli / 1000;
  }
  const auto records = take_meter(page, job.folder.grant, instant(page.running_since), now, readings);
  if (!records.empty()) page.last_sequence = send_surely(wire::MeterReport{records});
}

// In this order: what was used, that it is over, and that it was wiped; until then its slices stay taken. An
// agent that is killed in between begins again: meters go on from where they were, and wiping twice is
// wiping.
void Agent::settle(Job& job) {
  LeasePage& page = job.folder.page();
  const wire::LeaseGrant& grant = job.folder.grant;
  job.meter_next = 0;
  job.simulated_end = 0;
  job.settling = true;
  close_service_door(job.door, sealed_doors_.get());
  // Before the end: verdicts count only while the lease lives, and units are charged with it.
  if (!job.told_end) tell_progress(job);
  meter(job, instant(page.ended_at));
  job.receipts.behaviours = {behaviour_of(job)};
  if (guard_)
    job.receipts.limits = guard_->limits(grant, instant(page.running_since), instant(page.ended_at));
  if (grant.must_scrub && may_wait(job)) {
    job.owes_later = job.registering > 0;
    if (!job.owes_later) owe_wipe(job);
    return;
  }
  if (grant.must_scrub) begin_scrub(job);
  for (const wire::SliceGrant& slice : grant.slices)
    if (!in_use(slice.uuid)) pay_wipes(slice.uuid);
  if (job.wiping == 0) return conclude(job);
  if (job.registering == 0 && !job.told_end) tell_before_wipe(job);
}

// Whoever waits for the job need not wait for a wipe, which takes as long as the device takes. Not of one
// that ran out: the server may have given its slices to somebody else. Nor of one that was moved: it goes on
// as soon as its end is told, and would find less room than it left. And not before a partition is down.
void Agent::tell_before_wipe(Job& job) {
  const wire::LeaseGrant& grant = job.folder.grant;
  const auto reason = static_cast<EndReason>(job.folder.page().reason.load());
  const bool is_moved =
      reason == EndReason::kPreempted || reason == EndReason::kWindowClosed || reason == EndReason::kResized;
  const bool in_time =
      reason != EndReason::kLeaseExpired && table_.door(grant.lease, grant.epoch) == Door::kOpen;
  if (is_moved || !in_time || !is_plain_share(job)) return;
  wire::Receipts known;
  known.behaviours = std::exchange(job.receipts.behaviours, {});
  known.limits = std::exchange(job.receipts.limits, {});
  send_surely(known);
  tell_end(job);
}

void Agent::conclude(Job& job) {
  if (!shares_down(job)) return;    // Soon again.
  if (job.registering > 0) return;  // registered() goes on.
  if (guard_) {
    try {
      guard_->close(job.folder.grant.lease);
    } catch (const std::exception& error) { options_.log(error.what()); }
  }
  job.folder.page().last_sequence = send_surely(job.receipts);
  tell_end(job);
  close_books(job);
}

void Agent::tell_end(Job& job) {
  if (job.told_end) return;
  const wire::LeaseGrant& grant = job.folder.grant;
  const std::string message = job.stop_message.empty() ? job.folder.message() : job.stop_message;
  report(job, LeaseState::kEnded, message);
  table_.end(grant.lease);
  job.told_end = true;
  job.folder.page().end_told = 1;
  detach_volumes(grant);
}

void Agent::close_books(Job& job) {
  job.folder.page().settled = 1;
  job.settled_at = boot_time();
  keeps_next_ = std::min(keeps_next_, job.settled_at + nanoseconds(std::chrono::seconds(1)));
}

// The kernel ended the job together with its supervisor (the sandbox dies with its parent); make sure of it.
void Agent::bury(Job& job) {
  LeasePage& page = job.folder.page();
  const std::string group = text(job.folder.grant.lease);
  if (world_ != nullptr) {
    const BootTime patience = boot_time() + nanoseconds(world_->kill_patience);
    for (;;) {
      const std::vector<int> left = world_->cgroups->processes(group);
      if (left.empty()) break;
      for (const int pid : left) signal_process(pid, SIGKILL);
      if (boot_time() > patience) {
        page.phase = static_cast<std::uint32_t>(JobPhase::kStuck);
        return;
      }
      ::usleep(2000);
    }
    world_->cgroups->remove(group);
  }
  const bool wiped = remove_tree(job.folder.path() / "work");
  page.scratch_wiped = remove_tree(job.folder.path() / "tmp") && wiped ? 1 : 0;
  write_whole(job.folder.path() / "message", "the supervisor of the job was killed", 0600);
  page.exit_code = 137;
  page.exit_signal = SIGKILL;
  page.reason = static_cast<std::uint32_t>(EndReason::kNodeFault);
  page.ended_at = static_cast<std::uint64_t>(wall_time().time_since_epoch().count());
  page.phase = static_cast<std::uint32_t>(JobPhase::kEnded);
}

bool Agent::forgettable(const Job& job, BootTime now) const {
  const LeasePage& page = job.folder.page();
  if (page.settled == 0 || spool_.acknowledged() < page.last_sequence) return false;
  bool all_held = true;
  for (std::uint32_t stream = 0; stream < kStreams; ++stream)
    all_held = all_held && page.acknowledged[stream] >= page.written[stream];
  // A server that was replaced may not know the lease any more: its logs have nowhere to go.
  return all_held || (welcomed_ && now > job.settled_at + nanoseconds(std::chrono::minutes(10)));
}

}  // namespace tranche::agent
