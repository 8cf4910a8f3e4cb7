// SPDX-License-Identifier: Apache-2.0
#include "agent/shim.hpp"

#include <algorithm>
#include <csignal>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "agent/files.hpp"
#include "agent/misled_mount.hpp"
#include "base/text.hpp"

namespace tranche::agent {
namespace {

using wire::EndReason;

constexpr Duration kSilentFirst = std::chrono::milliseconds(20);

std::uint64_t wall_microseconds() {
  return static_cast<std::uint64_t>(wall_time().time_since_epoch().count());
}

}  // namespace

Supervisor::Supervisor(const ShimWorld& world, SandboxPlan plan, PreparedNamespaces prepared)
    : world_(world),
      plan_(std::move(plan)),
      prepared_(prepared),
      page_(plan_.folder + "/page"),
      group_(text(plan_.lease)),
      orders_(open_datagrams()),
      stdout_(plan_.folder + "/stdout", plan_.log_bytes, *page_, 0),
      stderr_(plan_.folder + "/stderr", plan_.log_bytes, *page_, 1),
      platform_(plan_.folder + "/platform", plan_.log_bytes, *page_, 2) {
  sigset_t watched;
  ::sigemptyset(&watched);
  // The agent's own signals (a Ctrl-C in its terminal, the service's stop) are not for the jobs.
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  signals_.reset(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  page_->supervisor_start = process_start(::getpid());
  page_->supervisor = static_cast<std::uint64_t>(::getpid());
}

bool Supervisor::run() {
  CgroupLimits limits{.cpu_milli = plan_.cpu_milli,
                      .memory_bytes = plan_.memory_bytes,
                      .processes = plan_.processes,
                      .devices = plan_.devices};
  began_ = boot_time();
  watch_volumes();
  disk_next_ = began_ + nanoseconds(world_.disk_watch_every);
  listen_at_ = began_ + nanoseconds(kSilentFirst);
  std::string problem;
  if (!world_.cgroups->create(group_, limits, problem)) {
    reason_ = EndReason::kPlatformFault;
    message_ = problem;
    return clean_up(0, false);
  }
  int status = 0;
  bool setup_failed = false;
  if (!plan_.setup.empty()) {
    status = run_step(plan_.setup, JobPhase::kPreparing);
    setup_failed = status != 0;
  }
  if (!setup_failed && reason_ == EndReason::kNone) status = run_step(plan_.run, JobPhase::kRunning);
  return clean_up(status, setup_failed);
}

int Supervisor::run_step(const std::string& text, JobPhase phase) {
  step_phase_ = phase;
  if (phase == JobPhase::kPreparing) set_phase(phase);
  if (const std::string place = misled_mount(binds_of_step()); !place.empty()) {
    kill_job(EndReason::kSetupFailed,
             "nothing can be shown at " + place + ": a link stands on the way there");
    return 0;
  }
  try {
    start(text);
  } catch (const std::exception& error) {
    kill_job(EndReason::kPlatformFault, error.what());
    return 0;
  }
  bool ended = false;
  int status = 0;
  while (!ended) {
    serve(ended, status);
    check_clocks();
  }
  child_ = -1;
  end_network();
  stdout_.take(SIZE_MAX);
  stderr_.take(SIZE_MAX);
  take_info();
  if (launched_by_root() && info_text_.size() > 1)
    page_->highest_process = std::strtoull(info_text_.c_str() + 1, nullptr, 10);
  ring_for_output();
  if (page_->init.load() == 0 && reason_ == EndReason::kNone) {
    reason_ = EndReason::kPlatformFault;
    message_ = "the sandbox could not be set up; its words are in stderr";
  }
  return status;
}

void Supervisor::serve(bool& ended, int& status) {
  std::array<pollfd, 6> sources{pollfd{signals_.get(), POLLIN, 0},
                                pollfd{orders_.get(), POLLIN, 0},
                                pollfd{stdout_.readable(), POLLIN, 0},
                                pollfd{stderr_.readable(), POLLIN, 0},
                                pollfd{info_.get(), POLLIN, 0},
                                pollfd{ready_.get(), POLLIN, 0}};
  if (::poll(sources.data(), sources.size(), wait_milliseconds()) <= 0) return;
  if (sources[4].revents != 0) take_info();
  // Its only writer closed it: the job's shell is at work. A container runtime keeps it open, and tells
  // otherwise.
  if (sources[5].revents != 0 || (in_container() && ready_.open() && page_->init.load() != 0))
    take_beginning();
  if ((sources[2].revents | sources[3].revents) != 0) take_output();
  if (sources[1].revents != 0) take_orders();
  if (sources[0].revents != 0) take_signals(ended, status);
}

void Supervisor::take_beginning() {
  ready_.reset();
  if (step_phase_ != JobPhase::kRunning || page_->init.load() == 0 || killed_at_ != 0) return;
  page_->running_since = wall_microseconds();
  set_phase(paused_ ? JobPhase::kPaused : kill_at_ != 0 ? JobPhase::kStopping : JobPhase::kRunning);
}

void Supervisor::take_output() {
  constexpr std::size_t kTurn = 1024 * 1024;   // Then the clocks get a look, however fast the job writes.
  constexpr std::uint32_t kFirstOutputs = 16;  // Short jobs end before the first look is due.
  if (!launched_by_root() && outputs_seen_++ < kFirstOutputs) watch_processes();
  stdout_.take(kTurn);
  stderr_.take(kTurn);
  ring_for_output();
}

void Supervisor::take_signals(bool& ended, int& status) {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {}
  for (int code = 0;;) {
    const int pid = ::waitpid(-1, &code, WNOHANG);
    if (pid <= 0) return;
    if (pid == child_) {
      ended = true;
      status = code;
      continue;
    }
    if (network_.carried_by(pid)) {
      network_.carrier_ended();
      if (!ended) kill_job(EndReason::kPlatformFault, "the network of the job broke down");
      continue;
    }
    const auto session =
        std::find_if(sessions_.begin(), sessions_.end(), [&](const Session& s) { return s.pid == pid; });
    if (session == sessions_.end()) continue;
    ShimNote note{.kind = NoteKind::kSessionEnd, .lease = plan_.lease.value, .session = session->id};
    note.exit_code = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    note.exit_signal = WIFSIGNALED(code) ? WTERMSIG(code) : 0;
    tell(note);
    sessions_.erase(session);
  }
}

void Supervisor::take_orders() {
  ShimOrder order;
  std::array<int, 4> descriptors{};
  while (receive_datagram(orders_.get(), &order, sizeof order, descriptors.data(), descriptors.size())) {
    follow(order, descriptors);
    for (const int descriptor : descriptors)
      if (descriptor >= 0) ::close(descriptor);
  }
}

void Supervisor::follow(const ShimOrder& order, std::array<int, 4>& descriptors) {
  const auto reason = static_cast<EndReason>(order.reason);
  switch (order.kind) {
    case OrderKind::kStop:
      return stop_job(reason, order.grace_ns, "asked to stop");
    case OrderKind::kKill:
      return kill_job(reason, "ended at once, as asked");
    case OrderKind::kPause:
      return pause(true);
    case OrderKind::kResume:
      return pause(false);
    case OrderKind::kSession:
      return open_session(order, descriptors);
    case OrderKind::kResize:  // Its slice became smaller or larger: it is told by the signal it asked for.
      if (order.reason != 0) signal_all(static_cast<int>(order.reason));
      return;
  }
}

// Only now has it a name at which orders reach it: most short jobs end without one. The agent asks again.
void Supervisor::listen(BootTime now) {
  if (listen_at_ == 0 || now < listen_at_) return;
  listen_at_ = 0;
  name_datagrams(orders_, plan_.folder, kShimSocket);
}

void Supervisor::check_clocks() {
  const BootTime now = boot_time();
  listen(now);
  const BootTime expires = page_->expires_at.load(std::memory_order_acquire);
  if (expires != 0 && now >= expires)
    kill_job(EndReason::kLeaseExpired, "nobody renewed the lease: the job was ended");
  const BootTime limit = nanoseconds(plan_.time_limit);
  if (limit != 0 && !paused_) {  // Its time stands still while it is paused.
    const BootTime grace = std::min(nanoseconds(plan_.checkpoint_grace), limit / 5);
    if (now >= began_ + limit) {
      kill_job(EndReason::kTimeLimit, "the time limit of " + text(plan_.time_limit) + " was reached");
    } else if (plan_.checkpoint_signal > 0 && !warned_ && now >= began_ + limit - grace) {
      warned_ = true;
      say("the time limit is near: the job was asked to checkpoint");
      signal_all(plan_.checkpoint_signal);
    }
  }
  if (kill_at_ != 0 && now >= kill_at_) kill_job(reason_, "the grace is over");
  if (now >= disk_next_) watch_disk(now);
  if (killed_at_ != 0 && now >= killed_at_ + nanoseconds(world_.kill_patience) &&
      phase_of(*page_) != JobPhase::kStuck) {
    say("the job does not end, although it was killed");
    set_phase(JobPhase::kStuck);
  }
}

int Supervisor::wait_milliseconds() const {
  const BootTime now = boot_time();
  BootTime next = now + 60'000'000'000U;
  const auto consider = [&](BootTime at) {
    if (at != 0) next = std::min(next, at);
  };
  // A renewal moves the expiry without a word: look again at the time it had.
  if (killed_at_ == 0) {
    consider(listen_at_);
    consider(page_->expires_at.load(std::memory_order_acquire));
    consider(kill_at_);
    consider(disk_next_);
    if (const BootTime limit = nanoseconds(plan_.time_limit); limit != 0 && !paused_) {
      const BootTime grace = std::min(nanoseconds(plan_.checkpoint_grace), limit / 5);
      consider(plan_.checkpoint_signal > 0 && !warned_ ? began_ + limit - grace : began_ + limit);
    }
  } else if (phase_of(*page_) != JobPhase::kStuck) {
    consider(killed_at_ + nanoseconds(world_.kill_patience));
  }
  return next <= now ? 0 : static_cast<int>((next - now) / 1'000'000U) + 1;
}

void Supervisor::watch_disk(BootTime now) {
  files_.take();
  watch_processes();
  watch_volumes();
  page_->network_bytes = network_before_ + network_.bytes_carried();
  const TreeSize enough{.bytes = plan_.disk_bytes == 0 ? UINT64_MAX : plan_.disk_bytes,
                        .files = plan_.files == 0 ? UINT64_MAX : plan_.files};
  const Descriptor folder = open_folder(plan_.folder);
  const TreeSize work = tree_size(folder.get(), "work", enough);
  const TreeSize tmp = tree_size(folder.get(), "tmp", enough);
  if (work.bytes + tmp.bytes > enough.bytes || work.files + tmp.files > enough.files) {
    kill_job(EndReason::kDiskLimit,
             "more scratch was used than the " + text(Bytes{static_cast<std::int64_t>(plan_.disk_bytes)}) +
                 " or " + std::to_string(plan_.files) + " files granted");
  }
  // Counting a large tree is work too: spend at most a twentieth of the time on it.
  const BootTime took = boot_time() - now;
  disk_next_ = boot_time() + std::max(nanoseconds(world_.disk_watch_every), took * 20);
}

}  // namespace tranche::agent
