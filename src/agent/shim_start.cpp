// SPDX-License-Identifier: Apache-2.0
// How a supervisor starts a step of its job, and commands beside it.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/bubblewrap.hpp"
#include "agent/files.hpp"
#include "agent/seccomp_filter.hpp"
#include "agent/shim.hpp"
#include "agent/staging.hpp"

namespace tranche::agent {
namespace {

struct Pipe {
  Descriptor read, write;
};
Pipe make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::string nul_separated(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out.append(word).push_back('\0');
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

void unblock_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // What the agent's processes ignore, a job must hear: an ignored signal cannot even be trapped by a shell.
  for (int signal = 1; signal < NSIG; ++signal)
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
}

void limit_resources(const SandboxPlan& plan) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (plan.disk_bytes != 0) {
    std::uint64_t most = plan.disk_bytes;
    for (const VolumeWatch& volume : plan.volumes) most = std::max(most, volume.bytes);
    const rlimit file{most, most};  // Between two looks at the disk, one file's worth.
    ::setrlimit(RLIMIT_FSIZE, &file);
  }
}

bool drop_capabilities() {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

// Into every namespace of the sandbox, as its user, with its filter. Ends in exec.
[[noreturn]] void become_session(std::vector<std::string> command,
                                 const SandboxPlan& plan,
                                 const std::string& filter,
                                 bool terminal) {
  ::setsid();
  if (terminal) ::ioctl(0, TIOCSCTTY, 0);
  const bool ready = ::setresgid(kUidInside, kUidInside, kUidInside) == 0 &&
                     ::setresuid(kUidInside, kUidInside, kUidInside) == 0 && drop_capabilities() &&
                     ::chdir("/work") == 0;
  close_others({});
  ::clearenv();
  for (const auto& [name, value] : plan.environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (terminal) ::setenv("TERM", "xterm", 0);
  if (!ready || !load_seccomp_program(filter)) ::_exit(126);
  std::vector<char*> words = pointers(command);
  ::execvp(words[0], words.data());
  std::perror(words[0]);
  ::_exit(127);
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace

void Supervisor::start(const std::string& text) {
  Descriptor out = stdout_.open_pipe();
  Descriptor err = stderr_.open_pipe();
  Pipe info = make_pipe();
  Pipe ready = make_pipe();
  info_text_.clear();
  page_->init = 0;
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error("the node has no room for another process");
  if (child_ == 0) become_job(text, {out.get(), err.get(), info.write.get(), ready.write.get()});
  info_ = std::move(info.read);
  ready_ = std::move(ready.read);
  ::fcntl(info_.get(), F_SETFL, O_NONBLOCK);
}

void Supervisor::become_job(const std::string& text, std::array<int, 4> ends) {
  try {
    unblock_signals();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int& end : ends) end = ::fcntl(end, F_DUPFD_CLOEXEC, 16);  // Away from the numbers given out next.
    ::dup2(ends[3], kReadyDescriptor);  // What was there is the supervisor's, and not needed here.
    const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(ends[1], 2);
    if (!world_.cgroups->enter(group_)) throw std::runtime_error("cannot enter the control group");
    std::vector<Bind> binds{{plan_.folder + "/work", "/work", BindKind::kWritable},
                            {plan_.folder + "/tmp", "/tmp", BindKind::kWritable}};
    binds.insert(binds.end(), plan_.binds.begin(), plan_.binds.end());
    if (plan_.uid != 0) binds = stage(std::move(binds));
    Descriptor filter = memory_file("seccomp", world_.seccomp);
    std::vector<std::string> options = bubblewrap_options(plan_, binds, {filter.get(), ends[2]});
    Descriptor arguments = memory_file("options", nul_separated(options));
    ::lseek(filter.get(), 0, SEEK_SET);
    ::lseek(arguments.get(), 0, SEEK_SET);
    ::dup2(null.get(), 0);
    ::dup2(ends[0], 1);
    limit_resources(plan_);
    if (!become_user(plan_.uid)) throw std::runtime_error("cannot become the job's user");
    std::vector<std::string> words{"bwrap", "--args", std::to_string(arguments.get()), "--"};
    for (std::string& word : shell_command(text, plan_.checkpoint_signal)) words.push_back(std::move(word));
    std::vector<char*> argv = pointers(words);
    close_others({kReadyDescriptor, ends[2], filter.get(), arguments.get()});
    char* const no_environment[] = {nullptr};
    ::execve(world_.bubblewrap.c_str(), argv.data(), no_environment);
    throw std::runtime_error("cannot start " + world_.bubblewrap + ": " + std::strerror(errno));
  } catch (const std::exception& error) {
    ::dprintf(2, "tranche: %s\n", error.what());
    ::_exit(125);
  }
}

// {"child-pid": 4711, ...}
void Supervisor::take_info() {
  char piece[512];
  while (info_.open()) {
    const ssize_t got = ::read(info_.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    if (got == 0) info_.reset();
    info_text_.append(piece, static_cast<std::size_t>(got));
  }
  const auto at = info_text_.find("\"child-pid\":");
  if (page_->init.load() == 0 && at != std::string::npos && info_text_.find('}', at) != std::string::npos)
    page_->init = std::strtoull(info_text_.c_str() + at + 12, nullptr, 10);
  if (killed_at_ != 0 && page_->init.load() != 0) ::kill(static_cast<int>(page_->init.load()), SIGKILL);
}

void Supervisor::open_session(const ShimOrder& order, std::array<int, 4>& descriptors) {
  const int init = static_cast<int>(page_->init.load());
  ShimNote refused{
      .kind = NoteKind::kSessionEnd, .exit_code = 125, .lease = plan_.lease.value, .session = order.session};
  if (init <= 0 || child_ <= 0 || descriptors[3] < 0) return tell(refused);
  const std::vector<std::string> command = split_words(read_descriptor(descriptors[0]));
  const int pid = command.empty() ? -1 : ::fork();
  if (pid < 0) return tell(refused);
  if (pid > 0) {
    sessions_.push_back({order.session, pid});
    page_->sessions.fetch_add(1);
    return;
  }
  unblock_signals();
  for (int fd = 0; fd < 3; ++fd) ::dup2(descriptors[static_cast<std::size_t>(fd) + 1], fd);
  const Descriptor home(static_cast<int>(::syscall(SYS_pidfd_open, init, 0)));
  constexpr int kAll =
      CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  const int wanted = plan_.share_network ? kAll & ~CLONE_NEWNET : kAll;
  if (!world_.cgroups->enter(group_) || (plan_.uid != 0 && ::setgroups(0, nullptr) != 0) ||
      ::setns(home.get(), wanted) != 0) {
    ::dprintf(2, "tranche: cannot enter the sandbox: %s\n", std::strerror(errno));
    ::_exit(125);
  }
  limit_resources(plan_);
  const int inside = ::fork();  // Only children are in the new process namespace.
  if (inside == 0) become_session(command, plan_, world_.seccomp, order.terminal != 0);
  close_others({});
  for (int fd = 0; fd < 3; ++fd) ::close(fd);  // The session's end is seen when its own copies close.
  int status = 0;
  ::waitpid(inside, &status, 0);
  if (WIFSIGNALED(status)) ::_exit(128 + WTERMSIG(status));
  ::_exit(WEXITSTATUS(status));
}

}  // namespace tranche::agent
