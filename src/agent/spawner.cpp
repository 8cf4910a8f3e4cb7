// SPDX-License-Identifier: Apache-2.0
#include "agent/spawner.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/files.hpp"
#include "agent/sandbox_pool.hpp"
#include "agent/sandbox_rights.hpp"

namespace tranche::agent {
namespace {

struct Ask {
  std::uint64_t lease = 0;
};
struct Answer {
  std::int32_t pid = -1;
};

bool send_with(int socket, const Ask& ask, int descriptor) {
  iovec piece{const_cast<Ask*>(&ask), sizeof ask};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof ask;
}

// The plan's descriptor; -1: the agent is gone.
int receive_with(int socket) {
  Ask ask;
  iovec piece{&ask, sizeof ask};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  ssize_t got = -1;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

// Clean: nothing of the job is left.
enum SupervisorCode { kClean = 0, kNotClean = 1 };

[[noreturn]] void supervise(const ShimWorld& world, SandboxPlan plan, PreparedNamespaces prepared) {
  ::setsid();
  ::prctl(PR_SET_NAME, "tranche-shim");
  std::vector<int> kept;  // Of all that was prepared, what is for this job.
  for (const int one : {prepared.mounts, prepared.network})
    if (one >= 0) kept.push_back(one);
  close_others(kept);
  for (const int one : kept) ::fcntl(one, F_SETFD, FD_CLOEXEC);
  int code = kNotClean;
  try {
    if (Supervisor(world, std::move(plan), prepared).run()) code = kClean;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tranche: a supervisor failed: %s\n", error.what());
  }
  ::_exit(code);
}

class Nursery {
 public:
  Nursery(const ShimWorld& world, int link) : world_(world), link_(link) {
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children, nullptr);
    ended_.reset(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  [[noreturn]] void serve() {
    for (;;) {
      std::array<pollfd, 2> sources{{{link_, POLLIN, 0}, {ended_.get(), POLLIN, 0}}};
      if (::poll(sources.data(), sources.size(), -1) < 0) continue;
      if (sources[1].revents != 0) bury();
      if (sources[0].revents != 0) start();
    }
  }

 private:
  void start() {
    const Descriptor file(receive_with(link_));
    if (!file.open()) ::_exit(0);
    Answer answer;
    auto plan = wire::decode<SandboxPlan>(read_descriptor(file.get()));
    if (plan) {
      SandboxPool::Taken taken;
      const PreparedNamespaces prepared = pool_.take(*plan, taken);
      answer.pid = ::fork();
      if (answer.pid == 0) supervise(world_, std::move(*plan), prepared);
      if (answer.pid > 0) taken_[answer.pid] = std::move(taken);
    }
    if (::send(link_, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) ::_exit(0);
  }

  // What supervisors have to say is on their pages.
  void bury() {
    signalfd_siginfo ignored{};
    while (::read(ended_.get(), &ignored, sizeof ignored) == sizeof ignored) {}
    for (int status = 0;;) {
      const int pid = ::waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      auto taken = taken_.extract(pid);
      if (!taken.empty() && WIFEXITED(status) && WEXITSTATUS(status) == kClean)
        pool_.give_back(std::move(taken.mapped()));
    }
  }

  const ShimWorld& world_;
  int link_;
  Descriptor ended_;
  SandboxPool pool_;
  std::map<int, SandboxPool::Taken> taken_;
};

[[noreturn]] void serve(const ShimWorld& world, int link) {
  ::setsid();
  ::prctl(PR_SET_NAME, "tranche-spawn");
  hide_arguments("tranche-shim");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    ::signal(signal, SIG_IGN);  // The link's end is the sign.
  ::signal(SIGPIPE, SIG_IGN);
  Nursery(world, link).serve();
}

}  // namespace

Spawner::Spawner(const ShimWorld& world) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("cannot make a link to the spawner");
  link_.reset(ends[0]);
  Descriptor other(ends[1]);
  process_ = ::fork();
  if (process_ < 0) throw std::runtime_error("cannot start the spawner");
  if (process_ == 0) {
    const int kept = other.release();
    close_others({kept});
    serve(world, kept);
  }
}

Spawner::~Spawner() {
  link_.reset();
  ::waitpid(process_, nullptr, 0);
}

int Spawner::start(const SandboxPlan& plan) {
  std::string bytes;
  wire::encode(bytes, plan);
  const Descriptor file = memory_file("plan", bytes);
  Answer answer;
  if (!send_with(link_.get(), {.lease = plan.lease.value}, file.get()) ||
      ::recv(link_.get(), &answer, sizeof answer, 0) != sizeof answer || answer.pid < 0)
    throw std::runtime_error("the spawner started no supervisor");
  return answer.pid;
}

}  // namespace tranche::agent
