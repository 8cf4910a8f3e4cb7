// SPDX-License-Identifier: Apache-2.0
// What an agent does about what its jobs save.
#include "agent/agent_send.hpp"
#include "agent/checkpoint_carrier.hpp"

namespace tranche::agent {

// Its digest takes as long as it is large, so it is taken beside; the end of the lease waits for it.
void Agent::register_checkpoints(Job& job, const std::vector<wire::CheckpointNote>& said) {
  const wire::LeaseGrant& grant = job.folder.grant;
  for (wire::CheckpointNote note : said) {
    note.at = wall_time();
    note.unit = job.told_unit;
    note.done = job.told_done;
    ++job.registering;
    chores_->add(
        "checkpoints",
        [this, lease = grant.lease, saved = Checkpoints(options_.rules.data, grant.job), note]() mutable {
          bool is_there = false;
          try {
            is_there = saved.keep(note);
          } catch (const std::exception& error) { options_.log(error.what()); }
          return Chores::After([this, lease, note, is_there] { registered(lease, note, is_there); });
        });
  }
}

void Agent::registered(LeaseId lease, const wire::CheckpointNote& note, bool is_there) {
  Job* job = job_of(lease);
  if (job == nullptr) return;
  if (is_there) {
    job->folder.page().last_sequence = send_surely(wire::ProgressReport{
        .lease = lease, .epoch = job->folder.grant.epoch, .at = wall_time(), .checkpoints = {note}});
  } else {
    say(*job, "tranche: there is no file or folder " + note.name + " among the checkpoints");
  }
  if (--job->registering > 0 || !job->settling) return;
  if (std::exchange(job->owes_later, false)) return owe_wipe(*job);
  if (job->owes) return;
  if (job->wiping == 0) return conclude(*job);
  if (!job->told_end) tell_before_wipe(*job);
}

// Before anything else of it is prepared: where it goes on from, wherever that is.
void Agent::gather(Job& job, SandboxPlan plan) {
  const wire::LeaseGrant& grant = job.folder.grant;
  if (grant.attempt <= 1) return prepare(job, std::move(plan));
  GatherWish wish{.lease = grant.lease,
                  .attempt = grant.attempt,
                  .sources = grant.resume,
                  .owner = job_user(options_.rules, grant)};
  net::ClientOptions where;
  {
    const std::lock_guard lock(identity_mutex_);
    where = client_options(identity_);
  }
  job.fetching = true;
  const auto wanted = std::make_shared<std::atomic<bool>>(true);
  job.gathering = wanted;
  chores_->add(
      "gather", [this, where, wish, wanted, saved = Checkpoints(options_.rules.data, grant.job), plan] {
        Gathered found = gather_checkpoints(where, saved, wish, [&] { return wanted->load() && !stopping_; });
        return Chores::After([this, lease = wish.lease, plan, found] { gathered(lease, plan, found); });
      });
}

void Agent::gathered(LeaseId lease, SandboxPlan plan, const Gathered& found) {
  Job* job = job_of(lease);
  if (job == nullptr || !std::exchange(job->fetching, false)) return;
  if (job->ended_by)
    return end_before_start(
        *job, static_cast<wire::EndReason>(job->ended_by->reason), "ended before it was started");
  if (!found.problem.empty()) return end_before_start(*job, wire::EndReason::kPlatformFault, found.problem);
  for (const std::string& line : found.lines) say(*job, "tranche: " + line);
  if (!found.resume.empty())
    plan.environment.set("TRANCHE_RESUME",
                         *plan.environment.find("TRANCHE_CHECKPOINT_DIR") + "/" + found.resume);
  try {
    prepare(*job, std::move(plan));
  } catch (const std::exception& error) {
    end_before_start(*job, wire::EndReason::kPlatformFault, error.what());
  }
}

std::set<JobId> Agent::live_jobs() const {
  std::set<JobId> live;
  for (const auto& [lease, job] : jobs_)
    if (!job.told_end) live.insert(job.folder.grant.job);
  return live;
}

// A member of a gang that is done says nothing of the others, which may be here or elsewhere, or begin again.
void Agent::ask_what_to_keep() {
  keeps_next_ = boot_time() + nanoseconds(std::chrono::minutes(1));
  if (options_.simulated) return;
  const std::set<JobId> live = live_jobs();
  wire::SavedJobs kept;
  for (const auto& entry : std::filesystem::directory_iterator(options_.rules.data / "checkpoints")) {
    const auto id = parse_id("job_", entry.path().filename().string());
    if (!id || live.contains({*id})) continue;
    kept.jobs.push_back({*id});
    if (kept.jobs.size() == wire::kSavedJobsAsked) break;
  }
  if (!kept.jobs.empty()) send_now(kept);
}

void Agent::forget_checkpoints(const wire::SavedInVain& needless) {
  const std::set<JobId> live = live_jobs();
  for (const JobId job : needless.jobs) {
    if (live.contains(job)) continue;
    chores_->add("checkpoints", [saved = Checkpoints(options_.rules.data, job)] {
      saved.forget();
      return Chores::After([] {});
    });
  }
}

void Agent::take_checkpoint_wish(const wire::CheckpointWish& wish) {
  net::ClientOptions where;
  {
    const std::lock_guard lock(identity_mutex_);
    where = client_options(identity_);
  }
  chores_->add("checkpoints", [this, where, wish, saved = Checkpoints(options_.rules.data, wish.job)] {
    const std::string problem = send_checkpoint(where, saved, wish.lease);
    return Chores::After([this, wish, problem] {
      if (!problem.empty()) options_.log("the checkpoint of " + text(wish.job) + " was not sent: " + problem);
    });
  });
}

}  // namespace tranche::agent
