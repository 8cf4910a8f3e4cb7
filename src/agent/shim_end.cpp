// SPDX-License-Identifier: Apache-2.0
// How a supervisor ends, pauses and cleans up after its job.
#include <algorithm>
#include <csignal>
#include <dirent.h>
#include <map>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/files.hpp"
#include "agent/sandbox_rights.hpp"
#include "agent/shim.hpp"

namespace tranche::agent {
namespace {

using wire::EndReason;

ino_t namespace_of(const std::string& process, const char* kind) {
  struct stat info{};
  return ::stat(("/proc/" + process + "/ns/" + kind).c_str(), &info) == 0 ? info.st_ino : 0;
}

// Every process of the sandbox but its first, by the namespace they share. A container runtime is in it, too,
// but not as a user of the job.
std::vector<int> processes_beside(int init) {
  std::vector<int> found;
  const ino_t home = namespace_of(std::to_string(init), "pid");
  const ino_t own_users = namespace_of("self", "user");
  if (home == 0) return found;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return found;
  while (const dirent* entry = ::readdir(proc)) {
    const int pid = std::atoi(entry->d_name);
    if (pid > 0 && pid != init && namespace_of(entry->d_name, "pid") == home &&
        namespace_of(entry->d_name, "user") != own_users)
      found.push_back(pid);
  }
  ::closedir(proc);
  return found;
}

constexpr std::uint64_t kJustBegun = 1'000'000;  // Microseconds.

// Which program each of them runs.
using Programs = std::map<int, ino_t>;

Programs programs_beside(int init) {
  Programs found;
  for (const int pid : processes_beside(init)) {
    struct stat image{};
    if (::stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &image) == 0) found[pid] = image.st_ino;
  }
  return found;
}

// A shell alone, or with a child that is still the same shell.
bool is_shell_alone(const Programs& programs) {
  return !programs.empty() && programs.size() <= 2 && programs.begin()->second == programs.rbegin()->second;
}

// Whoever appears beside those who heard it, and whoever became another program since, while a job has just
// begun: its shell was on the way to start the program, which would never know. A shell that has just forked
// may have heard it in vain, too, by the trap that it forgets when it becomes the program.
void signal_program(int init, Programs heard, int signal, BootTime until) {
  constexpr int kEachMilliseconds = 10;
  const ino_t shell = heard.begin()->second;
  until = std::min(until, boot_time() + nanoseconds(std::chrono::seconds(3)));
  while (boot_time() < until) {
    const Programs now = programs_beside(init);
    bool found = now.empty();
    for (const auto& [pid, image] : now) {
      const auto known = heard.find(pid);
      if (known != heard.end() && known->second == image) continue;
      signal_process(pid, signal);
      heard[pid] = image;
      found |= image != shell;
    }
    if (found) return;
    ::poll(nullptr, 0, kEachMilliseconds);
  }
}

}  // namespace

bool Supervisor::signal_all(int signal) {
  const int init = static_cast<int>(page_->init.load());
  if (init <= 0) return false;
  const std::vector<int> others = processes_beside(init);
  for (const int pid : others) signal_process(pid, signal);
  return !others.empty();
}

void Supervisor::stop_job(EndReason reason, BootTime grace, const std::string& why) {
  if (kill_at_ != 0 || killed_at_ != 0) return;  // It was asked already; its grace stands.
  reason_ = reason;
  message_ = why;
  if (grace == 0) return kill_job(reason, why);
  kill_at_ = boot_time() + grace;
  if (paused_) pause(false);
  set_phase(JobPhase::kStopping);
  const int signal = plan_.checkpoint_signal > 0 ? plan_.checkpoint_signal : SIGTERM;
  const int init = static_cast<int>(page_->init.load());
  const Programs before = init > 0 ? programs_beside(init) : Programs{};
  const bool heard = signal_all(signal);
  const std::uint64_t since = page_->running_since;
  // Its command has not begun, would never hear of it, and has nothing to save.
  if (!heard && since == 0) return kill_job(reason, why);
  const auto now = static_cast<std::uint64_t>(wall_time().time_since_epoch().count());
  if (is_shell_alone(before) && (since == 0 || now < since + kJustBegun))
    signal_program(init, before, signal, kill_at_);
}

void Supervisor::kill_job(EndReason reason, const std::string& why) {
  if (killed_at_ != 0) return;
  if (reason_ == EndReason::kNone) {
    reason_ = reason;
    message_ = why;
  }
  say(why);
  killed_at_ = boot_time();
  if (child_ <= 0) return;
  world_.cgroups->kill(group_);
  // With its first process the kernel ends the whole namespace. Before that one is known: the launcher.
  const int init = static_cast<int>(page_->init.load());
  signal_process(init > 0 ? init : child_, SIGKILL);
  if (paused_) world_.cgroups->freeze(group_, false);  // The frozen hear no signal, on old kernels.
}

void Supervisor::pause(bool paused) {
  if (paused == paused_ || killed_at_ != 0 || (paused && kill_at_ != 0)) return;
  if (!world_.cgroups->freeze(group_, paused)) signal_all(paused ? SIGSTOP : SIGCONT);
  paused_ = paused;
  if (paused) {
    paused_since_ = boot_time();
  } else {
    began_ += boot_time() - paused_since_;
  }
  set_phase(paused                      ? JobPhase::kPaused
            : page_->running_since != 0 ? JobPhase::kRunning
                                        : JobPhase::kPreparing);
}

// Nothing of the job may live on. The namespace's end normally saw to that; this makes sure.
bool Supervisor::end_leftovers() {
  const BootTime patience = boot_time() + nanoseconds(world_.kill_patience);
  std::uint32_t ended = 0;
  for (int wait = 1;; wait = std::min(wait * 2, 100)) {
    const std::vector<int> left = world_.cgroups->processes(group_);
    if (left.empty()) break;
    if (ended == 0) ended = static_cast<std::uint32_t>(left.size());
    for (const int pid : left) signal_process(pid, SIGKILL);
    if (boot_time() > patience) return false;
    ::poll(nullptr, 0, wait);
  }
  page_->processes_ended = ended;
  return true;
}

bool Supervisor::clean_up(int status, bool setup_failed) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const bool out_of_memory = world_.cgroups->memory_kills(group_) > 0;
  note_behaviour();
  note_files();
  if (!end_leftovers()) {
    say("processes of the job are left that cannot be ended");
    set_phase(JobPhase::kStuck);
    return false;
  }
  set_phase(JobPhase::kCleaning);
  world_.cgroups->remove(group_);
  const bool wiped = remove_tree(plan_.folder + "/work");
  page_->scratch_wiped = remove_tree(plan_.folder + "/tmp") && wiped ? 1 : 0;
  if (reason_ == EndReason::kNone) {
    const bool memory = out_of_memory && code != 0;
    reason_ = memory ? EndReason::kMemoryLimit : setup_failed ? EndReason::kSetupFailed : EndReason::kExited;
    if (memory) message_ = "the job used more memory than granted, and the kernel ended it";
    if (!memory && setup_failed) message_ = "the setup step ended with code " + std::to_string(code);
  }
  if (!message_.empty()) write_whole(plan_.folder + "/message", message_, 0600);
  page_->exit_code = code;
  page_->exit_signal = code > 128 && code <= 128 + 64 ? code - 128 : 0;
  page_->reason = static_cast<std::uint32_t>(reason_);
  page_->ended_at = static_cast<std::uint64_t>(wall_time().time_since_epoch().count());
  for (std::uint32_t stream = 0; stream < 2; ++stream)
    if (const std::uint64_t dropped = page_->dropped[stream].load(); dropped != 0)
      say((stream == 0 ? "stdout" : "stderr") + std::string(" was cut at its quota: ") +
          std::to_string(dropped) + " bytes are missing");
  set_phase(JobPhase::kEnded);
  return true;
}

void Supervisor::set_phase(JobPhase phase) {
  page_->phase.store(static_cast<std::uint32_t>(phase), std::memory_order_release);
  tell({.kind = NoteKind::kPhase, .lease = plan_.lease.value});
}

void Supervisor::tell(const ShimNote& note) {
  send_datagram(orders_.get(), plan_.agent_socket, kAgentSocket, &note, sizeof note);
}

void Supervisor::ring_for_output() {
  if (page_->bell.exchange(1) != 0) return;
  const ShimNote note{.kind = NoteKind::kOutput, .lease = plan_.lease.value};
  const bool heard = send_datagram(orders_.get(), plan_.agent_socket, kAgentSocket, &note, sizeof note);
  if (!heard) page_->bell = 0;  // The next output rings again.
}

void Supervisor::say(const std::string& line) {
  platform_.note("tranche: " + line);
  ring_for_output();
}

}  // namespace tranche::agent
