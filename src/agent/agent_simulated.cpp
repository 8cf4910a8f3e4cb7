// SPDX-License-Identifier: Apache-2.0
// Leases of a simulated node: they last as long as they declare, and nothing executes.
#include <fstream>
#include <utility>

#include "agent/agent_send.hpp"
#include "base/text.hpp"

namespace tranche::agent {
namespace {

constexpr std::uint32_t kPlatformStream = 2;

Duration declared_length(const wire::JobSpec& spec) {
  if (const std::string* declared = spec.labels.find("sim.duration"))
    if (const auto length = parse_duration(*declared)) return *length;
  return spec.limits.time.value_or(std::chrono::seconds(60));
}

std::uint64_t wall_microseconds() {
  return static_cast<std::uint64_t>(wall_time().time_since_epoch().count());
}

void set_phase(LeasePage& page, JobPhase phase) {
  page.phase.store(static_cast<std::uint32_t>(phase), std::memory_order_release);
}

}  // namespace

void Agent::say(Job& job, const std::string& line) {
  std::ofstream file(job.folder.path() / "platform", std::ios::app | std::ios::binary);
  file << line << '\n';
  file.close();
  job.folder.page().written[kPlatformStream].fetch_add(line.size() + 1);
}

void Agent::start_simulated(Job& job) {
  LeasePage& page = job.folder.page();
  if (is_over(phase_of(page))) return look(job);
  const Duration length = declared_length(job.folder.grant.spec);
  if (page.running_since == 0) {
    report(job, wire::LeaseState::kAccepted);
    say(job, "SIMULATED: nothing executes; this job lasts " + text(length) + " as declared");
    page.running_since = wall_microseconds();
    set_phase(page, JobPhase::kRunning);
  }
  const auto ran = static_cast<std::int64_t>(wall_microseconds() - page.running_since.load());
  const std::int64_t left = std::max<std::int64_t>(0, length.count() - ran);
  job.simulated_end = boot_time() + nanoseconds(Duration(left)) + 1;
  look(job);
}

void Agent::step_simulated(Job& job, BootTime now) {
  LeasePage& page = job.folder.page();
  if (now < job.simulated_end || is_over(phase_of(page)) || phase_of(page) == JobPhase::kPaused) return;
  if (page.reason == 0) page.reason = static_cast<std::uint32_t>(wire::EndReason::kExited);
  page.ended_at = wall_microseconds();
  page.scratch_wiped = 1;
  say(job, "SIMULATED: the job ended");
  set_phase(page, JobPhase::kEnded);
  look(job);
}

void Agent::simulate_order(Job& job, const ShimOrder& order) {
  LeasePage& page = job.folder.page();
  if (order.kind == OrderKind::kPause) {
    const BootTime now = boot_time();
    job.simulated_left = job.simulated_end > now ? job.simulated_end - now : 1;
    set_phase(page, JobPhase::kPaused);
    return look(job);
  }
  if (order.kind == OrderKind::kResume) {
    if (job.simulated_left != 0) job.simulated_end = boot_time() + std::exchange(job.simulated_left, 0);
    set_phase(page, JobPhase::kRunning);
    return look(job);
  }
  if (order.kind != OrderKind::kStop && order.kind != OrderKind::kKill) return;
  page.reason = order.reason;
  set_phase(page, JobPhase::kStopping);
  job.simulated_end = 1;  // It obeys at once: there is nothing to save.
  step_simulated(job, boot_time());
}

}  // namespace tranche::agent
