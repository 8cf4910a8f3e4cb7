// SPDX-License-Identifier: Apache-2.0
#include "agent/spawner.hpp"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/files.hpp"
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

[[noreturn]] void supervise(const ShimWorld& world, int link, Descriptor plan_file) {
  ::setsid();
  ::signal(SIGCHLD, SIG_DFL);
  ::prctl(PR_SET_NAME, "tranche-shim");
  int code = 0;
  try {
    const auto plan = wire::decode<SandboxPlan>(read_descriptor(plan_file.get()));
    if (!plan) throw std::runtime_error(plan.error());
    plan_file.reset();
    ::close(link);
    Supervisor(world, *plan).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tranche: a supervisor failed: %s\n", error.what());
    code = 1;
  }
  ::_exit(code);
}

[[noreturn]] void serve(const ShimWorld& world, int link) {
  ::setsid();
  ::prctl(PR_SET_NAME, "tranche-spawn");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    ::signal(signal, SIG_IGN);  // The link's end is the sign.
  ::signal(SIGCHLD, SIG_IGN);   // The kernel buries supervisors: what they have to say is on their pages.
  ::signal(SIGPIPE, SIG_IGN);
  for (;;) {
    Descriptor plan(receive_with(link));
    if (!plan.open()) ::_exit(0);
    Answer answer;
    answer.pid = ::fork();
    if (answer.pid == 0) supervise(world, link, std::move(plan));
    if (::send(link, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) ::_exit(0);
  }
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
