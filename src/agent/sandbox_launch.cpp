// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_launch.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/bubblewrap.hpp"
#include "agent/descriptor.hpp"
#include "agent/file_watch.hpp"
#include "agent/sandbox_rights.hpp"
#include "agent/sandbox_root.hpp"
#include "agent/sandbox_runtime.hpp"
#include "agent/seccomp_filter.hpp"
#include "agent/system_failure.hpp"

namespace tranche::agent {
namespace {

void put(int folder, const char* name, const std::string& value) {
  const Descriptor file(::openat(folder, name, O_WRONLY | O_CLOEXEC));
  if (!file.open() || ::write(file.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    fail(std::string("cannot write ") + name);
}

// One user of the node, one inside, and none that could be made of it.
void enter_user_namespace(std::uint32_t uid, int settings) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0)
    fail("cannot become the job's user");
  if (::unshare(CLONE_NEWUSER) != 0) fail("cannot make a user namespace");
  const std::string map = std::to_string(kUidInside) + " " + std::to_string(uid) + " 1";
  // A process that changed its user is closed to that user; it may open itself for the moment of these
  // writes, because nobody else is in its process namespace yet.
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  put(AT_FDCWD, "/proc/self/setgroups", "deny");
  put(AT_FDCWD, "/proc/self/uid_map", map);
  put(AT_FDCWD, "/proc/self/gid_map", map);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  put(settings, "user/max_user_namespaces", "0");
}

// Ends with its supervisor, also when that ended before the kernel was told so: then nobody reads `info`.
void follow_supervisor(int info) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  pollfd source{info, 0, 0};
  if (::poll(&source, 1, 0) > 0) ::_exit(125);
}

void wait_for_network(int go) {
  if (go < 0) return;
  char byte = 0;
  ssize_t got = -1;
  do got = ::read(go, &byte, 1);
  while (got < 0 && errno == EINTR);
  ::close(go);
  if (got != 1) ::_exit(125);  // The supervisor says why.
}

// Numbers are given out in order here: the next one tells how many came before.
void tell_processes(int info) {
  const int next = ::vfork();
  if (next == 0) ::_exit(0);
  char text[16];
  const int length = std::snprintf(text, sizeof text, "%d", next - 1);
  if (next > 0 && ::write(info, text, static_cast<std::size_t>(length)) != length) ::_exit(125);
}

// The first process of a namespace buries the others, and with it they all end.
[[noreturn]] void bury_until(int command, int info) {
  for (int status = 0;;) {
    const int pid = ::waitpid(-1, &status, 0);
    if (pid < 0 && errno != EINTR) ::_exit(125);
    if (pid != command) continue;
    tell_processes(info);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
}

// Beside what all jobs of the node share, and first of all while the node's own tree is in sight.
int enter_root(const SandboxLaunch& launch) {
  if (launch.prepared.mounts < 0) return enter_sandbox_root(launch.plan, launch.binds);
  const Descriptor prepared(launch.prepared.mounts);
  return enter_prepared_root(
      prepared.get(),
      {launch.binds.begin() + static_cast<std::ptrdiff_t>(launch.plan.binds_shared), launch.binds.end()});
}

// With the way to learn which files it opens, where there is one.
void tell_that_it_stands(int info, int files = -1) {
  const char stands = 1;
  iovec piece{const_cast<char*>(&stands), 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (files >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &files, sizeof files);
  }
  if (::sendmsg(info, &message, MSG_NOSIGNAL) != 1) ::_exit(125);
}

// Where the job may write, and what the platform itself puts there.
std::vector<std::string> own_places(const SandboxLaunch& launch) {
  std::vector<std::string> places{"/run"};
  for (const Bind& bind : launch.binds)
    if (bind.kind == BindKind::kWritable) places.push_back(bind.target);
  return places;
}

int files_watched = -1;  // Of this process, which is the first of one sandbox.

void set_up(const SandboxLaunch& launch) {
  if (!launch.enter_group()) throw std::runtime_error("cannot enter the control group");
  if (::unshare(CLONE_NEWCGROUP) != 0 && errno != EINVAL) fail("cannot hide control groups");
  constexpr std::string_view kHost = "job";
  if (::sethostname(kHost.data(), kHost.size()) != 0) fail("cannot set the host's name");
  if (launch.prepared.network >= 0) {
    const Descriptor prepared(launch.prepared.network);
    if (::setns(prepared.get(), CLONE_NEWNET) != 0) fail("cannot enter the network made for it");
  } else if (launch.plan.network != NetworkKind::kNode && !raise_loopback()) {
    fail("cannot raise the loopback");
  }
  const Descriptor settings(enter_root(launch));
  files_watched = FileWatch::begin(launch.plan.uid, own_places(launch)).release();
  limit_resources(launch.plan);
  enter_user_namespace(launch.plan.uid, settings.get());
  if (!drop_capabilities()) fail("cannot give up capabilities");
  follow_supervisor(launch.descriptors.info);
  if (::chdir(launch.plan.directory.c_str()) != 0) fail("cannot enter " + launch.plan.directory);
}

void set_up_or_end(const SandboxLaunch& launch, void (*set_up)(const SandboxLaunch&)) {
  try {
    set_up(launch);
  } catch (const std::exception& error) {
    ::dprintf(2, "tranche: %s\n", error.what());
    ::_exit(125);
  }
}

// Until the runtime has started the job, or has given up.
void wait_for_job(int runtime, int info) {
  constexpr useconds_t kLook = 1000;
  siginfo_t ended{};
  while (!runtime_started_job()) {
    ::waitid(P_PID, static_cast<id_t>(runtime), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (ended.si_pid != 0 && !runtime_started_job()) {
      ::dprintf(2, "tranche: the container runtime did not start the job\n");
      ::_exit(125);
    }
    ::usleep(kLook);
  }
  tell_that_it_stands(info);
}

void prepare_for_runtime(const SandboxLaunch& launch) {
  if (!launch.enter_group()) throw std::runtime_error("cannot enter the control group");
  if (launch.plan.network != NetworkKind::kNode && !raise_loopback()) fail("cannot raise the loopback");
  set_up_for_runtime(launch);
  follow_supervisor(launch.descriptors.info);
}

// The first process stays outside of the container, as root without rights, and ends it with itself.
[[noreturn]] void start_runtime(const SandboxLaunch& launch) {
  const int info = launch.descriptors.info;
  set_up_or_end(launch, prepare_for_runtime);
  wait_for_network(launch.descriptors.go);
  const int pid = ::fork();
  if (pid == 0) become_runtime(launch.runtime);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (pid < 0 || !drop_capabilities() || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(125);
  ::close(kReadyDescriptor);
  wait_for_job(pid, info);
  for (int descriptor = 0; descriptor < kReadyDescriptor; ++descriptor) ::close(descriptor);
  bury_until(pid, info);
}

[[noreturn]] void become_first_process(const SandboxLaunch& launch) {
  if (!launch.runtime.empty()) start_runtime(launch);
  std::vector<std::string> command = launch.command;
  std::vector<std::string> environment;
  for (const auto& [name, value] : launch.plan.environment) environment.push_back(name + "=" + value);
  std::vector<char*> argv = exec_words(command);
  std::vector<char*> envp = exec_words(environment);
  const int info = launch.descriptors.info;
  set_up_or_end(launch, set_up);
  if (!load_seccomp_program(launch.filter)) {
    ::dprintf(2, "tranche: the kernel refused the filter of calls\n");
    ::_exit(126);
  }
  wait_for_network(launch.descriptors.go);
  tell_that_it_stands(info, files_watched);
  if (files_watched >= 0) ::close(files_watched);
  const int pid = ::vfork();  // Nothing is copied: the parent waits until the command has replaced us.
  if (pid == 0) {
    ::execve(argv[0], argv.data(), envp.data());
    ::dprintf(2, "tranche: cannot start %s: %s\n", argv[0], std::strerror(errno));
    ::_exit(127);
  }
  if (pid < 0) ::_exit(125);
  for (int descriptor = 0; descriptor <= kReadyDescriptor; ++descriptor) ::close(descriptor);
  bury_until(pid, info);
}

}  // namespace

bool raise_loopback() {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq wish{};
  std::snprintf(wish.ifr_name, sizeof wish.ifr_name, "lo");
  wish.ifr_flags = IFF_UP | IFF_RUNNING;
  return socket.open() && ::ioctl(socket.get(), SIOCSIFFLAGS, &wish) == 0;
}

int launch_sandbox(const SandboxLaunch& launch) {
  unsigned long flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD;
  if (launch.prepared.mounts < 0) flags |= CLONE_NEWNS;
  if (launch.prepared.network < 0 && launch.plan.network != NetworkKind::kNode) flags |= CLONE_NEWNET;
  const int pid = static_cast<int>(::syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr));
  if (pid != 0) return pid;
  unblock_signals();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::setsid();
  // Away from the numbers given out next, then to the places the command expects.
  LaunchDescriptors ends = launch.descriptors;
  for (int* end : {&ends.output, &ends.errors, &ends.info, &ends.ready, &ends.go})
    if (*end >= 0) *end = ::fcntl(*end, F_DUPFD_CLOEXEC, 16);
  ::dup2(ends.errors, 2);
  ::dup2(ends.output, 1);
  ::dup2(ends.ready, kReadyDescriptor);
  {
    const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(null.get(), 0);
  }
  std::vector<int> kept{kReadyDescriptor, ends.info};
  for (const int other : {ends.go, launch.prepared.mounts, launch.prepared.network})
    if (other >= 0) kept.push_back(other);
  close_others(kept);
  for (std::size_t i = 1; i < kept.size(); ++i) ::fcntl(kept[i], F_SETFD, FD_CLOEXEC);
  SandboxLaunch mine = launch;
  mine.descriptors = ends;
  become_first_process(mine);
}

}  // namespace tranche::agent
