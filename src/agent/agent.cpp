// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <poll.h>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "agent/agent_send.hpp"
#include "agent/cgroup_files.hpp"
#include "agent/files.hpp"

namespace tranche::agent {
namespace {

std::filesystem::path prepared(const std::filesystem::path& data) {
  std::filesystem::create_directories(data);
  make_folder(data / "leases", 0711);
  make_folder(data / "checkpoints", 0711);
  make_folder(data / "broker", 0711);
  make_folder(data / "workdirs", 0711);
  return data;
}

}  // namespace

Agent::Agent(AgentOptions options,
             Identity identity,
             std::vector<std::unique_ptr<gpu::DevicePort>> ports,
             Spawner* spawner,
             const ShimWorld* world,
             std::unique_ptr<Scrubber> scrubber)
    : options_(std::move(options)),
      identity_(std::move(identity)),
      ports_(std::move(ports)),
      spawner_(spawner),
      world_(world),
      scrubber_(std::move(scrubber)),
      spool_(prepared(options_.rules.data) / "spool"),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      notes_(bind_datagrams(options_.rules.data.string(), kAgentSocket)) {
  boot_id_ = get_control("/proc/sys/kernel/random/boot_id");
  while (!boot_id_.empty() && boot_id_.back() == '\n') boot_id_.pop_back();
  discover();
  shares_ = std::make_unique<DeviceShares>(SharingRules{.daemons = options_.rules.sharing_daemons,
                                                        .time_slice = options_.rules.time_slice,
                                                        .exclusive = options_.rules.exclusive_devices});
  if (!options_.simulated) {
    home_ = std::make_unique<SandboxHome>(options_.rules.data / "sandbox", options_.guard_library);
    guard_ = std::make_unique<GuardTenants>(options_.rules.data / "broker", options_.program);
    for (const std::string& shortcoming : world_->cgroups->shortcomings()) options_.log(shortcoming);
    if (!options_.volume_cipher.missing().empty())
      options_.log("volumes are not encrypted: " + options_.volume_cipher.missing());
    if (options_.rules.network == NetworkKind::kNone)
      options_.log("jobs that ask for a network are refused: " + options_.rules.no_network);
  }
  sessions_ = std::make_unique<Sessions>(
      Sessions::Out{.data = [this](const wire::SessionData& data) { send_now(data); },
                    .end = [this](const wire::SessionEnd& end) { send_now(end); }});
  orders_ = std::make_unique<DeviceOrders>(DeviceOrdersOptions{
      .program = options_.program, .scratch = options_.rules.data.string(), .ring = [this] {
        ::eventfd_write(bell_.get(), 1);
      }});
  open_volumes();
  images_ = std::make_unique<ImageStore>(images_folder(options_.rules), options_.rules.data / "image-cache");
  chores_ = std::make_unique<Chores>([this] { ::eventfd_write(bell_.get(), 1); });
  adopt_all();
  close_unused_volumes();
  LinkCallbacks callbacks;
  callbacks.on_open = [this] { arrived(Arrival::kOpened, {}); };
  callbacks.on_frame = [this](std::string frame) { arrived(Arrival::kFrame, std::move(frame)); };
  callbacks.on_close = [this](const std::string& why) { arrived(Arrival::kClosed, why); };
  const auto where = [this] {
    const std::lock_guard lock(identity_mutex_);
    if (has_run_out(identity_, std::chrono::system_clock::now()))
      throw std::runtime_error(run_out_words(identity_));
    return client_options(identity_);
  };
  link_ = std::make_unique<Link>(where, std::move(callbacks), LinkOptions{.seed = boot_time()});
}

Agent::~Agent() {
  orders_.reset();  // Before the bell that it rings.
  link_->close("");
  if (scrubber_) scrubber_->stop();  // The lease is not over: the next agent begins its wipe anew.
  chores_.reset();
  try {
    close_unused_volumes();
  } catch (const std::exception& problem) { options_.log(problem.what()); }
}

void Agent::discover() {
  for (const auto& port : ports_)
    for (wire::DeviceFacts& facts : port->discover()) devices_.push_back({std::move(facts), port.get()});
  for (const Device& device : devices_)
    options_.log("device " + device.facts.uuid + " " + device.facts.name + " through " + device.port->name() +
                 (device.facts.simulated ? " SIMULATED" : ""));
}

// Leases that an earlier agent left: those whose supervisor lives go on, the others are told about.
void Agent::adopt_all() {
  const std::filesystem::path marker = options_.rules.data / "boot_id";
  const bool same_boot = read_whole(marker).value_or("") == boot_id_;
  for (const auto& entry : std::filesystem::directory_iterator(options_.rules.data / "leases")) {
    auto folder = LeaseFolder::open(entry.path());
    if (!folder) {
      remove_tree(entry.path());
      continue;
    }
    const LeaseId lease = folder->grant.lease;
    Job& job = jobs_.emplace(lease, std::move(*folder)).first->second;
    LeasePage& page = job.folder.page();
    page.bell = 0;
    for (std::uint32_t stream = 0; stream < kStreams; ++stream) job.sent[stream] = page.acknowledged[stream];
    const BootTime expires = same_boot ? page.expires_at.load() : 0;
    table_.adopt(lease, job.folder.grant.epoch, expires);
    if (!same_boot && !is_over(phase_of(page))) {
      table_.end(lease);
      report(job, wire::LeaseState::kLost, "the machine was started anew");
      page.settled = 1;
      page.phase = static_cast<std::uint32_t>(JobPhase::kEnded);
      continue;
    }
    job.told_end = same_boot && page.end_told != 0;  // A machine that broke down may have lost the word.
    if (!same_boot) table_.end(lease);  // The server gives its slices away when it hears of the new boot.
    adopt(job);
  }
  write_whole(marker, boot_id_, 0600);
}

void Agent::adopt(Job& job) {
  LeasePage& page = job.folder.page();
  for (const wire::SliceGrant& slice : job.folder.grant.slices)
    for (std::uint32_t i = 0; i < devices_.size(); ++i)
      if (devices_[i].facts.uuid == slice.uuid) job.physical.push_back(i);
  if (page.settled != 0) {
    table_.end(job.folder.grant.lease);
    job.settled_at = boot_time();
    return;
  }
  if (job.told_end) table_.end(job.folder.grant.lease);
  shares_->adopt(job.folder.grant, shared_devices(job), job.folder.path());
  if (options_.simulated) {
    start_simulated(job);
    return;
  }
  const auto take_region = [&] {
    if (!guard_ || job.physical.size() != job.folder.grant.slices.size() || job.physical.empty()) return;
    try {
      guard_->open(job.folder.grant, job.physical);
    } catch (const std::exception& error) { options_.log(error.what()); }
  };
  if (!is_over(phase_of(page))) {
    const int pid = static_cast<int>(page.supervisor.load());
    const bool alive = pid > 0 && process_start(pid) == page.supervisor_start.load();
    if (alive) job.supervisor.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (alive) take_region();
    if (!alive && !is_over(phase_of(page))) bury(job);
    if (page.running_since != 0) job.meter_next = boot_time() + nanoseconds(options_.meter_every);
    if (job.folder.grant.spec.port != 0) page.reported = 0;  // Its door is another one now.
    options_.log("adopted " + text(job.folder.grant.lease));
  } else {
    take_region();
  }
  look(job);
  // Told, but not settled: the agent before this one ended in the middle of the wipe.
  if (phase_of(page) == JobPhase::kEnded && !job.settling) settle(job);
}

void Agent::run() {
  link_->start();
  while (!stopping_) turn();
  depart();
}

void Agent::stop() {
  stopping_ = true;
  ::eventfd_write(bell_.get(), 1);
}

void Agent::leave_jobs() {
  leaves_jobs_ = true;
}

void Agent::turn() {
  std::vector<pollfd> sources{{bell_.get(), POLLIN, 0}, {notes_.get(), POLLIN, 0}};
  sessions_->add_sources(sources);
  const std::size_t first = sources.size();
  std::vector<LeaseId> watched;
  for (const auto& [lease, job] : jobs_) {
    if (!job.supervisor.open()) continue;
    sources.push_back({job.supervisor.get(), POLLIN, 0});
    watched.push_back(lease);
  }
  ::poll(sources.data(), sources.size(), wait_milliseconds());
  if (sources[0].revents != 0) take_inbox();
  if (sources[1].revents != 0) take_notes();
  for (std::size_t i = 2; i < first; ++i)
    if (sources[i].revents != 0) sessions_->serve(sources[i]);
  for (std::size_t i = first; i < sources.size(); ++i) {
    if (sources[i].revents == 0) continue;
    Job* job = job_of(watched[i - first]);
    if (job == nullptr) continue;
    job->supervisor.reset();
    if (!is_over(phase_of(job->folder.page()))) bury(*job);
    look(*job);
  }
  check_time();
}

void Agent::arrived(Arrival kind, std::string text) {
  const std::lock_guard lock(inbox_.mutex);
  inbox_.arrivals.emplace_back(kind, std::move(text));
  ::eventfd_write(bell_.get(), 1);
}

void Agent::take_inbox() {
  std::uint64_t rings = 0;
  ::eventfd_read(bell_.get(), &rings);
  std::vector<std::pair<Arrival, std::string>> arrivals;
  {
    const std::lock_guard lock(inbox_.mutex);
    arrivals.swap(inbox_.arrivals);
  }
  for (const auto& [kind, text] : arrivals) {
    if (kind == Arrival::kOpened) opened();
    if (kind == Arrival::kFrame) take_frame(text);
    if (kind == Arrival::kClosed) broken(text);
  }
  chores_->finish();
  send_order_answers();
}

void Agent::take_notes() {
  ShimNote note;
  while (receive_datagram(notes_.get(), &note, sizeof note)) {
    if (note.kind == NoteKind::kSessionEnd) {
      sessions_->ended(note);
      continue;
    }
    if (Job* job = job_of({note.lease})) look(*job);
  }
}

void Agent::check_time() {
  const BootTime now = boot_time();
  for (const LeaseId lease : table_.expired(now)) {
    Job* job = job_of(lease);
    if (job == nullptr || is_over(phase_of(job->folder.page()))) {
      table_.end(lease);
      continue;
    }
    // The supervisor sees the same clock by itself; this is for one that missed it, and for simulated jobs.
    table_.revoke(lease, now + nanoseconds(std::chrono::seconds(5)));
    order(*job,
          {.kind = OrderKind::kKill, .reason = static_cast<std::uint32_t>(wire::EndReason::kLeaseExpired)});
  }
  // The kernel holds few notes of supervisors, and drops the others: what they were about is on the pages.
  const bool looks = now >= sync_next_;
  std::vector<LeaseId> done;
  for (auto& [lease, job] : jobs_) {
    if (looks && job.supervisor.open()) look(job);
    if (job.simulated_end != 0) step_simulated(job, now);
    if (job.unheard) order(job, ShimOrder(*job.unheard));
    if (job.shares_next != 0 && now >= job.shares_next) conclude(job);
    if (job.change) check_change(job, now);
    if (job.meter_next != 0 && now >= job.meter_next) {
      meter(job, wall_time());
      job.meter_next = now + nanoseconds(options_.meter_every);
    }
    if (job.meter_next != 0 && now >= job.progress.due()) {
      tell_progress(job);
      send_logs(job);
    }
    if (forgettable(job, now)) done.push_back(lease);
  }
  for (const LeaseId lease : done) {
    watch_.forget(lease);
    jobs_.at(lease).folder.forget();
    jobs_.erase(lease);
  }
  sessions_->try_again();
  tell_signals(now);
  watch_devices(now);
  if (welcomed_ && now >= beat_next_) beat();
  if (welcomed_ && now >= keeps_next_) ask_what_to_keep();
  if (now >= sync_next_) {
    spool_.sync();
    sync_next_ = now + nanoseconds(std::chrono::seconds(2));
  }
}

int Agent::wait_milliseconds() const {
  const BootTime now = boot_time();
  BootTime next = now + nanoseconds(std::chrono::seconds(2));
  if (welcomed_) next = std::min({next, beat_next_, signals_next_, keeps_next_});
  if (sessions_->waits()) next = std::min(next, now + nanoseconds(std::chrono::milliseconds(5)));
  if (watches_devices()) next = std::min(next, watch_next_);
  if (const auto expiry = table_.next_expiry()) next = std::min(next, *expiry);
  for (const auto& [lease, job] : jobs_) {
    if (job.simulated_end != 0 && phase_of(job.folder.page()) != JobPhase::kPaused)
      next = std::min(next, job.simulated_end);
    if (job.shares_next != 0) next = std::min(next, job.shares_next);
    if (job.unheard) next = std::min(next, now + nanoseconds(std::chrono::milliseconds(2)));
    if (job.change) next = std::min(next, now + nanoseconds(std::chrono::milliseconds(20)));
    if (job.meter_next != 0) next = std::min({next, job.meter_next, job.progress.due()});
  }
  return next <= now ? 0 : static_cast<int>((next - now) / 1'000'000U) + 1;
}

// Jobs stay with their supervisors, for the next agent; or end, when the operator said so.
void Agent::depart() {
  if (options_.end_jobs_on_exit && !leaves_jobs_) {
    const auto any_runs = [this] {
      return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
        return !is_over(phase_of(job.second.folder.page()));
      });
    };
    const auto any_wiped = [this] {
      return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
        return job.second.folder.page().settled == 0 && job.second.wiping != 0;
      });
    };
    for (auto& [lease, job] : jobs_)
      order(job,
            {.kind = OrderKind::kStop,
             .reason = static_cast<std::uint32_t>(wire::EndReason::kStopped),
             .grace_ns = nanoseconds(std::chrono::seconds(10))});
    const BootTime patience = boot_time() + nanoseconds(std::chrono::seconds(30));
    while (any_runs() && boot_time() < patience) turn();
    // A short wipe is waited for; a long one goes on with the next agent, and nobody gets the slice before.
    const BootTime wiped = boot_time() + nanoseconds(std::chrono::seconds(5));
    while (any_wiped() && boot_time() < wiped) turn();
  }
  send_now(wire::Parting{.reason = "shutdown", .message = "the agent ends"});
  spool_.sync();
  link_->close("shutdown");
}

Agent::Job* Agent::job_of(LeaseId lease) {
  const auto found = jobs_.find(lease);
  return found == jobs_.end() ? nullptr : &found->second;
}

}  // namespace tranche::agent
