// SPDX-License-Identifier: Apache-2.0
// A child has a frozen copy of the state for free (copy on write), so the parent need not stop to encode it.
#include <cerrno>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.hpp"
#include "journal/durable_file.hpp"
#include "journal/error.hpp"
#include "journal/snapshot.hpp"

namespace tranche::journal {
namespace {

[[noreturn]] void run_in_child(const std::filesystem::path& folder,
                               pid_t parent,
                               const SnapshotLabel& label,
                               const std::function<std::string()>& encode) noexcept {
  // A snapshot is worth nothing to a dead parent, and must not outlive it to race with the next server's.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::setpriority(PRIO_PROCESS, 0, 5);
  try {
    write_snapshot(folder, label, encode());
    ::_exit(0);
  } catch (...) { ::_exit(1); }
}

SnapshotChild::Outcome outcome_of(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? SnapshotChild::Outcome::kWritten
                                                       : SnapshotChild::Outcome::kFailed;
}

}  // namespace

SnapshotChild::~SnapshotChild() {
  if (child_ == 0) return;
  ::kill(child_, SIGKILL);
  static_cast<void>(wait());
}

void SnapshotChild::start(const std::filesystem::path& folder,
                          Store& store,
                          const SnapshotLabel& label,
                          const std::function<std::string()>& encode) {
  TRANCHE_CHECK(child_ == 0);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw_disk_error(errno, "fork for a snapshot in", folder);
  if (child == 0) {
    store.abandon_in_child();
    run_in_child(folder, parent, label, encode);
  }
  child_ = child;
}

SnapshotChild::Outcome SnapshotChild::poll() {
  if (child_ == 0) return Outcome::kNone;
  int status = 0;
  if (::waitpid(child_, &status, WNOHANG) == 0) return Outcome::kRunning;
  child_ = 0;
  return outcome_of(status);
}

SnapshotChild::Outcome SnapshotChild::wait() {
  if (child_ == 0) return Outcome::kNone;
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {}
  child_ = 0;
  return outcome_of(status);
}

}  // namespace tranche::journal
