// SPDX-License-Identifier: Apache-2.0
// Slices that become smaller or larger while their job runs, and jobs that go off their devices for others
// and come back. The server is told what holds, and only when it does: what is given back is free from then
// on.
#include "agent/agent_send.hpp"
#include "guard/broker_pause.hpp"
#include "wire/job_spec.hpp"

namespace tranche::agent {
namespace {

using wire::LeaseState;

// Beside the agent's own thread: a driver may take seconds to move a job's memory.
template <class Change>
std::string at_broker(const std::string& socket, Change change) {
  try {
    guard::BrokerClient broker(socket);
    return change(broker);
  } catch (const std::exception& problem) { return problem.what(); }
}

}  // namespace

bool Agent::has_region(const Job& job) const {
  return guard_ && !job.physical.empty() && guard_->has(job.folder.grant.lease);
}

void Agent::take_change(Job& job, const wire::LeaseRenewal& renewal) {
  if (is_over(phase_of(job.folder.page())) || job.folder.grant.slices.empty()) return;
  job.change = renewal;
  job.change_until = boot_time() + nanoseconds(renewal.grace);
  if (options_.simulated) return end_change(job, true, {});
  const bool daemon = !shares_->view(job.folder.grant.lease, 0).daemon_folder.empty();
  if (!has_region(job) || daemon)
    return end_change(job, false, "nothing on this node can change the limits of a running job");
  wire::LeaseGrant wanted = job.folder.grant;
  for (wire::SliceGrant& slice : wanted.slices) {
    slice.milli = renewal.milli.value_or(slice.milli);
    slice.vram = renewal.vram.value_or(slice.vram);
  }
  try {
    guard_->change(wanted, job.physical, false);
  } catch (const std::exception& problem) { return end_change(job, false, problem.what()); }
  const auto& resize = job.folder.grant.spec.resize;
  if (resize && !resize->signal.empty())
    order(job,
          {.kind = OrderKind::kResize,
           .reason = static_cast<std::uint32_t>(wire::signal_number(resize->signal))});
  check_change(job, boot_time());
}

// Smaller is done when the job holds no more memory than it may; until then nobody else may have it.
void Agent::check_change(Job& job, BootTime now) {
  if (is_over(phase_of(job.folder.page()))) {
    job.change.reset();
    return;
  }
  const Bytes most = job.change->vram.value_or(job.folder.grant.slices.front().vram);
  bool fits = true;
  for (const DeviceReading& reading : guard_->read(job.folder.grant)) fits = fits && reading.vram <= most;
  if (fits) return end_change(job, true, {});
  if (now < job.change_until) return;
  try {
    guard_->change(job.folder.grant, job.physical, false);
  } catch (const std::exception& problem) { options_.log(problem.what()); }
  end_change(job, false, "it holds more memory than its smaller slice would have");
}

void Agent::end_change(Job& job, bool done, const std::string& message) {
  const wire::LeaseRenewal change = *std::exchange(job.change, std::nullopt);
  wire::LeaseGrant& grant = job.folder.grant;
  if (!done) return tell_declined(job, LeaseState::kRunning, message);
  const Instant now = wall_time();
  meter(job, now);  // Until now by the old size.
  for (wire::SliceGrant& slice : grant.slices) {
    slice.milli = change.milli.value_or(slice.milli);
    slice.vram = change.vram.value_or(slice.vram);
  }
  job.folder.keep_grant();
  job.folder.page().last_sequence = send_surely(wire::LeaseReport{.lease = grant.lease,
                                                                  .epoch = grant.epoch,
                                                                  .state = LeaseState::kRunning,
                                                                  .at = now,
                                                                  .milli = grant.slices.front().milli,
                                                                  .vram = grant.slices.front().vram});
}

void Agent::tell_declined(Job& job, LeaseState state, const std::string& why) {
  const wire::LeaseGrant& grant = job.folder.grant;
  options_.log(text(grant.lease) + " stays as it is: " + why);
  job.folder.page().last_sequence = send_surely(wire::LeaseReport{.lease = grant.lease,
                                                                  .epoch = grant.epoch,
                                                                  .state = state,
                                                                  .at = wall_time(),
                                                                  .message = why,
                                                                  .declined = true});
}

// First its memory goes from the device to the host, then its processes are frozen, then what it left is
// wiped.
void Agent::park(Job& job, Duration grace) {
  const JobPhase phase = phase_of(job.folder.page());
  if (is_over(phase) || phase == JobPhase::kPaused || job.way != Job::Way::kStays) return;
  if (options_.simulated || job.folder.grant.slices.empty()) return order(job, {.kind = OrderKind::kPause});
  if (!has_region(job) || !scrubber_ || phase != JobPhase::kRunning)
    return tell_declined(job, LeaseState::kRunning, "nothing on this node can take it off its devices");
  job.way = Job::Way::kLeaves;
  const std::string socket = guard_->socket();
  const LeaseId lease = job.folder.grant.lease;
  const auto patience = nanoseconds(grace);
  chores_->add("park " + job.folder.grant.slices.front().uuid, [this, socket, lease, patience] {
    std::string trouble = at_broker(socket, [&](guard::BrokerClient& broker) {
      const guard::PauseReport report = guard::pause_tenant(broker, text(lease), patience);
      if (report.trouble.empty()) return std::string();
      guard::resume_tenant(broker, text(lease));
      return report.trouble;
    });
    return Chores::After([this, lease, trouble] { left_device(lease, trouble); });
  });
}

void Agent::left_device(LeaseId lease, const std::string& trouble) {
  Job* job = job_of(lease);
  if (job == nullptr || is_over(phase_of(job->folder.page()))) return;
  if (!trouble.empty()) {
    job->way = Job::Way::kStays;
    return tell_declined(*job, LeaseState::kRunning, trouble);
  }
  job->way = Job::Way::kCleans;
  meter(*job, wall_time());
  job->meter_next = 0;  // It has nothing that could be metered now.
  order(*job, {.kind = OrderKind::kPause});
  wipe_parked(*job);
}

void Agent::wipe_parked(Job& job) {
  const wire::LeaseGrant& grant = job.folder.grant;
  job.receipts.scrubs.clear();
  job.wiping = grant.slices.size();
  for (std::size_t i = 0; i < grant.slices.size(); ++i) {
    const wire::SliceGrant& slice = grant.slices[i];
    wire::ScrubReceipt receipt{
        .device = slice.device, .lease = grant.lease, .tenant = grant.tenant, .at = wall_time()};
    receipt.scratch_wiped = true;  // It keeps its scratch: it goes on with it.
    job.receipts.scrubs.push_back(receipt);
    const wire::DeviceFacts& device = devices_[job.physical[i]].facts;
    chores_->add("wipe " + device.uuid,
                 [this, device, lease = grant.lease, i, bytes = slice.vram, receipt]() mutable {
                   scrubber_->scrub(device, bytes, receipt);
                   return Chores::After([this, lease, i, receipt] {
                     Job* parked = job_of(lease);
                     if (parked == nullptr || parked->way != Job::Way::kCleans) return;
                     parked->receipts.scrubs[i] = receipt;
                     if (--parked->wiping == 0) tell_parked(*parked);
                   });
                 });
  }
}

void Agent::tell_parked(Job& job) {
  for (const wire::ScrubReceipt& receipt : job.receipts.scrubs)
    if (!wire::is_clean(receipt)) {
      unpark(job);
      return tell_declined(job, LeaseState::kRunning, "what it left could not be wiped: " + receipt.method);
    }
  job.way = Job::Way::kStays;
  send_surely(std::exchange(job.receipts, {}));
  look(job);
}

// What the page says is not told while the way off the devices, or back to them, is not at its end.
bool Agent::held_back(Job& job, JobPhase phase) {
  if (is_over(phase)) {
    job.way = Job::Way::kStays;
    return false;
  }
  return job.way == Job::Way::kCleans || job.way == Job::Way::kReturns;
}

void Agent::unpark(Job& job) {
  const JobPhase phase = phase_of(job.folder.page());
  if (is_over(phase)) return;
  const bool plain = options_.simulated || job.folder.grant.slices.empty() || !has_region(job);
  if (!plain) job.way = Job::Way::kReturns;
  job.wiping = 0;
  if (phase == JobPhase::kPaused || plain) order(job, {.kind = OrderKind::kResume});
  LeasePage& page = job.folder.page();
  // What it did not have is in no record.
  page.metered_until = static_cast<std::uint64_t>(wall_time().time_since_epoch().count());
  if (plain) return;
  const std::string socket = guard_->socket();
  const LeaseId lease = job.folder.grant.lease;
  chores_->add("park " + job.folder.grant.slices.front().uuid, [this, socket, lease] {
    std::string trouble = at_broker(socket, [&](guard::BrokerClient& broker) {
      return guard::resume_tenant(broker, text(lease)).trouble;
    });
    return Chores::After([this, lease, trouble] { came_back(lease, trouble); });
  });
}

void Agent::came_back(LeaseId lease, const std::string& trouble) {
  Job* job = job_of(lease);
  if (job == nullptr || is_over(phase_of(job->folder.page()))) return;
  job->way = Job::Way::kStays;
  LeasePage& page = job->folder.page();
  if (!trouble.empty()) {
    order(*job, {.kind = OrderKind::kPause});
    return tell_declined(*job, LeaseState::kPaused, trouble);
  }
  page.metered_until = static_cast<std::uint64_t>(wall_time().time_since_epoch().count());
  job->meter_next = boot_time() + nanoseconds(options_.meter_every);
  page.reported = 0;  // Whatever was told last: it runs.
  look(*job);
}

}  // namespace tranche::agent
