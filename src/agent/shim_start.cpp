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
#include <sched.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/bubblewrap.hpp"
#include "agent/files.hpp"
#include "agent/sandbox_launch.hpp"
#include "agent/sandbox_rights.hpp"
#include "agent/sandbox_runtime.hpp"
#include "agent/seccomp_filter.hpp"
#include "agent/shim.hpp"

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

Pipe make_socket_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("cannot make a pair of sockets");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::string nul_separated(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out.append(word).push_back('\0');
  return out;
}

ssize_t receive_with(int socket, void* data, std::size_t bytes, int& passed) {
  iovec piece{data, bytes};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr) std::memcpy(&passed, CMSG_DATA(header), sizeof passed);
  return got;
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
  std::vector<char*> words = exec_words(command);
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

std::vector<Bind> Supervisor::binds_of_step() const {
  std::vector<Bind> binds = plan_.binds;
  binds.insert(binds.begin() + static_cast<std::ptrdiff_t>(plan_.binds_shared),
               {{plan_.folder + "/work", "/work", BindKind::kWritable},
                {plan_.folder + "/tmp", "/tmp", BindKind::kWritable}});
  return binds;
}

void Supervisor::start(const std::string& text) {
  Descriptor out = stdout_.open_pipe();
  Descriptor err = stderr_.open_pipe();
  Pipe info = make_socket_pair();  // Descriptors come through it, too.
  Pipe ready = make_pipe();
  const bool networked = plan_.network == NetworkKind::kPrivate || plan_.network == NetworkKind::kGang;
  Pipe go = networked ? make_pipe() : Pipe{};
  info_text_.clear();
  page_->init = 0;
  const SandboxLaunch launch{
      .plan = plan_,
      .binds = binds_of_step(),
      .filter = world_.seccomp,
      .command = shell_command(text, plan_.checkpoint_signal),
      .descriptors = {.output = out.get(),
                      .errors = err.get(),
                      .info = info.write.get(),
                      .ready = ready.write.get(),
                      .go = go.read.get()},
      .enter_group = [this] { return world_.cgroups->enter(group_); },
      .prepared = in_container() ? PreparedNamespaces{} : prepared_,
      .runtime = in_container() ? std::string_view(world_.runtime) : std::string_view()};
  child_ = launched_by_root() ? launch_sandbox(launch) : ::fork();
  if (child_ < 0) throw std::runtime_error("the node has no room for another process");
  if (child_ == 0) become_bubblewrap(launch);
  info_ = std::move(info.read);
  ready_ = std::move(ready.read);
  ::fcntl(info_.get(), F_SETFL, O_NONBLOCK);
  if (networked) begin_network(std::move(go.write));
}

// The sandbox stands meanwhile, and its command waits for the word.
void Supervisor::begin_network(Descriptor go) {
  try {
    if (!world_.network.missing.empty() || !launched_by_root())
      throw std::runtime_error(world_.network.missing);
    const auto enter_group = [this] { return world_.cgroups->enter(group_); };
    if (plan_.network == NetworkKind::kGang)
      network_.begin_gang(child_, plan_.gang, enter_group);
    else
      network_.begin(world_.network, child_, plan_.networks_allowed, enter_group);
    if (::write(go.get(), "1", 1) != 1)
      throw std::runtime_error("the sandbox ended before its network stood");
  } catch (const std::exception&) {
    signal_process(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
    throw;
  }
}

void Supervisor::end_network() {
  note_peers();
  network_before_ += network_.bytes_carried();
  page_->network_bytes = network_before_;
  network_.end();
}

void Supervisor::become_bubblewrap(const SandboxLaunch& launch) {
  try {
    unblock_signals();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    LaunchDescriptors ends = launch.descriptors;
    for (int* end : {&ends.output, &ends.errors, &ends.info, &ends.ready})
      *end = ::fcntl(*end, F_DUPFD_CLOEXEC, 16);  // Away from the numbers given out next.
    ::dup2(ends.ready, kReadyDescriptor);         // What was there is the supervisor's, and not needed here.
    const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(ends.errors, 2);
    if (!launch.enter_group()) throw std::runtime_error("cannot enter the control group");
    Descriptor filter = memory_file("seccomp", launch.filter);
    std::vector<std::string> options = bubblewrap_options(plan_, launch.binds, {filter.get(), ends.info});
    Descriptor arguments = memory_file("options", nul_separated(options));
    ::lseek(filter.get(), 0, SEEK_SET);
    ::lseek(arguments.get(), 0, SEEK_SET);
    ::dup2(null.get(), 0);
    ::dup2(ends.output, 1);
    limit_resources(plan_);
    std::vector<std::string> words{"bwrap", "--args", std::to_string(arguments.get()), "--"};
    words.insert(words.end(), launch.command.begin(), launch.command.end());
    std::vector<char*> argv = exec_words(words);
    close_others({kReadyDescriptor, ends.info, filter.get(), arguments.get()});
    char* const no_environment[] = {nullptr};
    ::execve(world_.bubblewrap.c_str(), argv.data(), no_environment);
    throw std::runtime_error("cannot start " + world_.bubblewrap + ": " + std::strerror(errno));
  } catch (const std::exception& error) {
    ::dprintf(2, "tranche: %s\n", error.what());
    ::_exit(125);
  }
}

// A byte when root launched it, with a descriptor; from bubblewrap {"child-pid": 4711, ...}
void Supervisor::take_info() {
  char piece[512];
  while (info_.open()) {
    int passed = -1;
    const ssize_t got = receive_with(info_.get(), piece, sizeof piece, passed);
    if (passed >= 0) files_.follow(Descriptor(passed), child_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    if (got == 0) info_.reset();
    info_text_.append(piece, static_cast<std::size_t>(got));
  }
  if (launched_by_root() && !info_text_.empty() && child_ > 0)
    page_->init = static_cast<std::uint64_t>(child_);
  const auto at = info_text_.find("\"child-pid\":");
  if (page_->init.load() == 0 && at != std::string::npos && info_text_.find('}', at) != std::string::npos)
    page_->init = std::strtoull(info_text_.c_str() + at + 12, nullptr, 10);
  if (killed_at_ != 0) signal_process(static_cast<int>(page_->init.load()), SIGKILL);
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
  int wanted = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
  if (plan_.network != NetworkKind::kNode) wanted |= CLONE_NEWNET;
  if (!in_container()) wanted |= CLONE_NEWUSER;  // The first process of a container is outside of it.
  if (!world_.cgroups->enter(group_) || (plan_.uid != 0 && ::setgroups(0, nullptr) != 0) ||
      ::setns(home.get(), wanted) != 0) {
    ::dprintf(2, "tranche: cannot enter the sandbox: %s\n", std::strerror(errno));
    ::_exit(125);
  }
  limit_resources(plan_);
  const int inside = ::fork();  // Only children are in the new process namespace.
  if (inside == 0 && in_container() && !enter_runtime_job()) ::_exit(125);
  if (inside == 0) become_session(command, plan_, world_.seccomp, order.terminal != 0);
  close_others({});
  for (int fd = 0; fd < 3; ++fd) ::close(fd);  // The session's end is seen when its own copies close.
  int status = 0;
  ::waitpid(inside, &status, 0);
  if (WIFSIGNALED(status)) ::_exit(128 + WTERMSIG(status));
  ::_exit(WEXITSTATUS(status));
}

}  // namespace tranche::agent
