// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_runtime.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/cdi_spec.hpp"
#include "agent/files.hpp"
#include "agent/oci_config.hpp"
#include "agent/sandbox_rights.hpp"
#include "agent/sandbox_root.hpp"
#include "agent/system_failure.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kBundle = "/run/oci";  // On a memory file system that goes with the namespace.
constexpr const char* kState = "/run/oci/state";
constexpr const char* kJobFile = "/run/oci/job";
constexpr const char* kName = "job";

void mount_memory(const char* place) {
  if (::mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m") != 0)
    fail(std::string("cannot cover ") + place);
}

// Where the runtime finds them also as the job's user, whatever folders of the node they are in.
std::vector<Bind> within_reach(const std::vector<Bind>& binds) {
  std::vector<Bind> staged;
  for (const Bind& bind : binds) {
    const std::string place = std::string(kBundle) + "/mount-" + std::to_string(staged.size());
    if (std::filesystem::is_directory(bind.source))
      make_folder(place, 0755);
    else
      write_whole(place, "", 0644);
    if (::mount(bind.source.c_str(), place.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
      fail("cannot show " + bind.source);
    staged.push_back({place, bind.target, bind.kind});
  }
  return staged;
}

[[noreturn]] void become(std::vector<std::string> words) {
  std::vector<char*> argv = exec_words(words);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* const environment[] = {path, nullptr};
  ::execve(argv[0], argv.data(), environment);
  ::dprintf(2, "tranche: cannot start %s: %s\n", argv[0], std::strerror(errno));
  ::_exit(127);
}

}  // namespace

std::string find_container_runtime() {
  for (const char* place : {"/usr/bin/crun", "/usr/local/bin/crun", "/usr/sbin/crun"})
    if (::access(place, X_OK) == 0) return place;
  return {};
}

void set_up_for_runtime(const SandboxLaunch& launch) {
  if (::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) fail("cannot keep mounts to itself");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    fail("cannot mount /proc");
  const CdiEdits slice = cdi_edits(launch.plan);
  std::vector<Bind> of_slice = slice.mounts;
  of_slice.insert(of_slice.end(), slice.devices.begin(), slice.devices.end());
  std::vector<Bind> others;
  for (const Bind& bind : launch.binds)
    if (std::find(of_slice.begin(), of_slice.end(), bind) == of_slice.end()) others.push_back(bind);
  std::vector<Descriptor> held;  // Before anything is covered that they may be in.
  for (Bind& bind : of_slice) {
    held.emplace_back(::open(bind.source.c_str(), O_PATH | O_CLOEXEC));
    if (!held.back().open()) fail("cannot open " + bind.source);
    bind.source = "/proc/self/fd/" + std::to_string(held.back().get());
  }
  stage_sandbox_root(launch.plan, others, of_slice);
  // It looks there to learn what kind of control groups the machine has, and refuses those that have both.
  mount_memory("/sys/fs/cgroup");
  mount_memory("/run");
  make_folder(kBundle, 0755);
  const OciBundle bundle{
      .plan = launch.plan, .root = kStagedRoot, .command = launch.command, .mounts = within_reach(of_slice)};
  write_whole(std::string(kBundle) + "/config.json", oci_config(bundle), 0600);
}

void become_runtime(std::string_view runtime) {
  // Not /dev/null: the runtime gives what is its standard input to the job's user, the node's own file.
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0 || ::dup2(ends[0], 0) < 0) ::_exit(125);
  ::close(ends[1]);
  become({std::string(runtime),
          "--root",
          kState,
          "--cgroup-manager=disabled",
          "run",
          "--preserve-fds",
          "1",
          "--pid-file",
          kJobFile,
          "--bundle",
          kBundle,
          kName});
}

bool runtime_started_job() {
  return ::access(kJobFile, F_OK) == 0;
}

bool enter_runtime_job() {
  const int job = std::atoi(read_whole(kJobFile).value_or("").c_str());
  const Descriptor home(job > 1 ? static_cast<int>(::syscall(SYS_pidfd_open, job, 0)) : -1);
  return home.open() &&
         ::setns(home.get(), CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) ==
             0;
}

}  // namespace tranche::agent
