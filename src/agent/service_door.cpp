// SPDX-License-Identifier: Apache-2.0
#include "agent/service_door.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/capability.h>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <vector>

#include "agent/bubblewrap.hpp"
#include "agent/descriptor.hpp"

namespace tranche::agent {
namespace {

constexpr int kListenerInside = 3;
constexpr std::size_t kPiece = 64 * 1024;
constexpr std::size_t kPairsMost = 4096;
constexpr std::uint32_t kIn = EPOLLIN, kOut = EPOLLOUT, kBad = EPOLLERR | EPOLLHUP;

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw std::runtime_error("not an address for services: " + host);
  return address;
}

// Two ends and what is on its way between them.
struct Pair {
  struct End {
    Descriptor socket{};
    std::string out{};      // Read from the other end, not yet written here.
    bool finished = false;  // It sends no more.
    bool told = false;      // The other end's finish was passed on to it.
    bool deaf = false;      // It takes no more: what is for it is dropped.
    std::uint32_t events = 0;
  };
  End ends[2];
  bool connecting = true;
  bool dead = false;
};

class DoorLoop {
 public:
  DoorLoop(int listener, int init_descriptor, std::uint16_t port)
      : listener_(listener),
        init_(init_descriptor),
        inside_(address_of("127.0.0.1", port)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    watch(listener_, kIn, 0, EPOLL_CTL_ADD);
    watch(init_, kIn, 1, EPOLL_CTL_ADD);
  }

  int run() {
    epoll_event events[64];
    for (;;) {
      const int count = ::epoll_wait(epoll_.get(), events, 64, -1);
      if (count < 0 && errno != EINTR) return 1;
      for (int i = 0; i < count; ++i) {
        const std::uint64_t key = events[i].data.u64;
        if (key == 1) return 0;  // The sandbox is gone.
        if (key == 0) {
          accept_all();
          continue;
        }
        const auto found = pairs_.find(key / 2);
        if (found != pairs_.end()) serve(*found->second, key / 2, key % 2, events[i].events);
      }
    }
  }

 private:
  void watch(int descriptor, std::uint32_t what, std::uint64_t key, int how) {
    epoll_event event{.events = what, .data = {.u64 = key}};
    ::epoll_ctl(epoll_.get(), how, descriptor, &event);
  }

  void accept_all() {
    for (;;) {
      Descriptor outer(::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!outer.open()) return;
      if (pairs_.size() >= kPairsMost) continue;  // Closed at once: the caller goes elsewhere.
      Descriptor inner(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const int on = 1;
      ::setsockopt(outer.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ::setsockopt(inner.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const int failed = ::connect(inner.get(), reinterpret_cast<const sockaddr*>(&inside_), sizeof inside_);
      if (failed != 0 && errno != EINPROGRESS) continue;
      auto pair = std::make_unique<Pair>();
      pair->ends[0].socket = std::move(outer);
      pair->ends[1].socket = std::move(inner);
      const std::uint64_t number = ++last_;
      for (std::uint64_t side = 0; side < 2; ++side) {
        Pair::End& end = pair->ends[side];
        end.events = side == 0 ? kIn : kIn | kOut;
        watch(end.socket.get(), end.events, number * 2 + side, EPOLL_CTL_ADD);
      }
      pairs_.emplace(number, std::move(pair));
    }
  }

  void serve(Pair& pair, std::uint64_t number, std::uint64_t side, std::uint32_t events) {
    if (side == 1 && pair.connecting && (events & (kOut | kBad)) != 0) {
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(pair.ends[1].socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) pair.dead = true;
      pair.connecting = false;
    }
    if (!pair.dead && (events & (kIn | kBad)) != 0) take(pair, side);
    for (std::uint64_t to = 0; to < 2 && !pair.dead; ++to) give(pair, to);
    const bool over = pair.ends[0].finished && pair.ends[1].finished && pair.ends[0].out.empty() &&
                      pair.ends[1].out.empty();
    if (pair.dead || over) {
      pairs_.erase(number);
      return;
    }
    for (std::uint64_t end = 0; end < 2; ++end) refresh(pair, number, end);
  }

  // From this side, unless the other side has not taken the last piece yet.
  void take(Pair& pair, std::uint64_t side) {
    Pair::End& from = pair.ends[side];
    Pair::End& to = pair.ends[1 - side];
    if (from.finished || to.out.size() >= kPiece) return;
    const ssize_t got = ::recv(from.socket.get(), buffer_, sizeof buffer_, 0);
    if (got > 0 && !to.deaf) to.out.append(buffer_, static_cast<std::size_t>(got));
    if (got == 0) from.finished = true;
    if (got < 0 && errno != EAGAIN && errno != EINTR) fail(pair, side, true);
  }

  // A service that refuses a body in the middle of it may have said why: that still goes to the caller, and
  // only then is it over. Without a caller it is over at once.
  static void fail(Pair& pair, std::uint64_t side, bool finished) {
    if (side == 0) {
      pair.dead = true;
      return;
    }
    Pair::End& inner = pair.ends[1];
    inner.deaf = true;
    inner.out.clear();
    inner.finished = inner.finished || finished;
  }

  void give(Pair& pair, std::uint64_t side) {
    Pair::End& to = pair.ends[side];
    if (side == 1 && pair.connecting) return;
    if (!to.out.empty()) {
      const ssize_t sent = ::send(to.socket.get(), to.out.data(), to.out.size(), MSG_NOSIGNAL);
      if (sent > 0) to.out.erase(0, static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) fail(pair, side, false);
    }
    if (to.out.empty() && pair.ends[1 - side].finished && !to.told) {
      to.told = true;
      ::shutdown(to.socket.get(), SHUT_WR);
    }
  }

  void refresh(Pair& pair, std::uint64_t number, std::uint64_t side) {
    Pair::End& end = pair.ends[side];
    const bool readable = !end.finished && pair.ends[1 - side].out.size() < kPiece;
    const bool writable = !end.out.empty() || (side == 1 && pair.connecting);
    const std::uint32_t wanted = (readable ? kIn : 0U) | (writable ? kOut : 0U);
    if (wanted == end.events) return;
    // An end that is waited for in no way is taken out: a hang-up would be told again and again.
    const int how = wanted == 0 ? EPOLL_CTL_DEL : end.events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    end.events = wanted;
    watch(end.socket.get(), wanted, number * 2 + side, how);
  }

  int listener_;
  int init_;
  sockaddr_in inside_;
  Descriptor epoll_;
  std::map<std::uint64_t, std::unique_ptr<Pair>> pairs_;
  std::uint64_t last_ = 0;
  char buffer_[kPiece]{};
};

// Into the sandbox's network, as its user, with no right left beyond that.
bool enter(int init) {
  if (::syscall(SYS_setns, init, CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  if (::setresgid(kUidInside, kUidInside, kUidInside) != 0 ||
      ::setresuid(kUidInside, kUidInside, kUidInside) != 0)
    return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

}  // namespace

int run_door(int listener, int init, std::uint16_t port_inside) {
  std::signal(SIGPIPE, SIG_IGN);
  const Descriptor home(static_cast<int>(::syscall(SYS_pidfd_open, init, 0)));
  if (!home.open() || !enter(home.get())) return 1;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // After the change of user, which clears it.
  return DoorLoop(listener, home.get(), port_inside).run();
}

namespace {

// The process that accepts on `listener`.
int start_door(const std::string& program, Descriptor listener, int init, std::uint16_t port_inside) {
  if (listener.get() == kListenerInside)  // dup2 onto itself would keep it closed on exec.
    listener.reset(::fcntl(kListenerInside, F_DUPFD_CLOEXEC, 16));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
  ::posix_spawn_file_actions_adddup2(&actions, listener.get(), kListenerInside);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);  // Of ours nothing stays blocked.
  std::vector<std::string> words{
      "tranche", "door", "--init", std::to_string(init), "--port", std::to_string(port_inside)};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int process = -1;
  const int failed = ::posix_spawn(&process, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start the door of a service with " + program);
  return process;
}

}  // namespace

ServiceDoor open_service_door(const std::string& program,
                              const std::string& address,
                              int init,
                              std::uint16_t port_inside) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in name = address_of(address, 0);
  socklen_t size = sizeof name;
  if (!listener.open() || ::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size) != 0 ||
      ::listen(listener.get(), 1024) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0)
    throw std::runtime_error("cannot listen for a service on " + address);
  ServiceDoor door{.port = ntohs(name.sin_port)};
  door.process = start_door(program, std::move(listener), init, port_inside);
  return door;
}

ServiceDoor open_sealed_door(const std::string& program,
                             net::SealedDoors& sealed,
                             const std::string& address,
                             const std::filesystem::path& folder,
                             int init,
                             std::uint16_t port_inside) {
  constexpr const char* kSocket = "door";
  ServiceDoor door;
  door.folder.reset(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(door.folder.get()) + "/" + kSocket;
  ::unlinkat(door.folder.get(), kSocket, 0);  // Of an agent that was here before.
  Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  if (!door.folder.open() || !listener.open() ||
      ::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      ::fchmodat(door.folder.get(), kSocket, 0600, 0) != 0 || ::listen(listener.get(), 1024) != 0)
    throw std::runtime_error("cannot make a socket for a service in " + folder.string());
  door.process = start_door(program, std::move(listener), init, port_inside);
  try {
    door.port = sealed.open(address, path);
  } catch (...) {
    close_service_door(door, nullptr);
    throw;
  }
  return door;
}

void close_service_door(ServiceDoor& door, net::SealedDoors* sealed) {
  if (door.process <= 0) return;
  if (door.is_sealed() && sealed != nullptr) sealed->close(door.port);
  ::kill(door.process, SIGTERM);
  ::waitpid(door.process, nullptr, 0);
  door = {};
}

}  // namespace tranche::agent
