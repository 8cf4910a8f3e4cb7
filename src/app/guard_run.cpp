// SPDX-License-Identifier: Apache-2.0
#include "app/guard_run.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <stdexcept>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/terminal_turn.hpp"
#include "base/text.hpp"
#include "cli/output.hpp"
#include "guard/broker_client.hpp"
#include "guard/host_clock.hpp"

namespace tranche::app {
namespace {

constexpr std::uint64_t kBrokerRetryNs = 200'000'000;
constexpr std::uint64_t kNamePatienceNs = 2'000'000'000;

std::string own_binary() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

// A broker of this user that ends by itself when nobody needs it any more.
void start_broker(const std::string& socket) {
  const std::string binary = own_binary();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot start a broker");
  if (child == 0) {
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    if (::fork() != 0) ::_exit(0);  // Not our child: it outlives this command for whoever comes next.
    ::execl(binary.c_str(), "tranche", "broker", "--socket", socket.c_str(), "--linger", "10s", nullptr);
    ::_exit(127);
  }
  ::waitpid(child, nullptr, 0);
  for (int i = 0; i < 500; ++i) {
    if (guard::BrokerClient::answers(socket)) return;
    ::usleep(10'000);
  }
  throw std::runtime_error("the broker did not start at " + socket);
}

void prepend_variable(const char* name, const std::string& value) {
  const char* before = std::getenv(name);
  ::setenv(name, (before == nullptr || *before == 0 ? value : value + ":" + before).c_str(), 1);
}

[[noreturn]] void become(const GuardRun& run,
                         const std::string& tenant_socket,
                         const TerminalTurn& terminal,
                         const sigset_t& mask) {
  ::setpgid(0, 0);
  terminal.give_to(::getpid());
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  const std::string library = guard_library();
  prepend_variable("LD_PRELOAD", library);
  prepend_variable("OPENCL_LAYERS", library);
  ::setenv("TRANCHE_GUARD_SOCKET", tenant_socket.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : run.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  const int why = errno;
  std::perror(words[0]);
  ::_exit(why == ENOENT ? 127 : 126);  // As shells tell them apart.
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The tenant at the broker. When the broker dies, another takes over with the same ledger.
struct Place {
  std::unique_ptr<guard::BrokerClient> broker;
  std::unique_ptr<guard::TenantRegions> regions;
  guard::TenantLimits limits;
  std::string socket;
  std::uint64_t lost_at = 0;

  void take(const GuardRun& run) {
    if (!guard::BrokerClient::answers(run.broker_socket)) start_broker(run.broker_socket);
    broker = std::make_unique<guard::BrokerClient>(run.broker_socket);
    if (!regions) wait_for_name(run.tenant);
    regions = broker->create_tenant(run.tenant, limits, socket, 0600, regions.get());
  }
  // A job of that name may be about to end; one that runs on keeps its limits.
  void wait_for_name(const std::string& name) {
    const std::uint64_t until = guard::monotonic_ns() + kNamePatienceNs;
    const auto taken = [&] {
      const auto tenants = broker->list();
      return std::any_of(
          tenants.begin(), tenants.end(), [&](const auto& other) { return other.name == name; });
    };
    while (taken()) {
      if (guard::monotonic_ns() > until)
        throw std::runtime_error("a job named " + name + " runs already: choose another --name");
      ::usleep(10'000);
    }
  }
  // Limits may have been changed while the job ran; the old region still tells.
  void keep_changes() {
    for (std::uint32_t i = 0; i < limits.device_count; ++i) {
      const guard::DeviceControl& last = regions->control().devices[i];
      limits.devices[i].vram_bytes = last.vram_limit.load();
      limits.devices[i].share = last.lanes[0].share.load();
      limits.devices[i].mode = static_cast<guard::ShareMode>(last.mode.load());
      limits.devices[i].priority = last.priority.load();
      limits.devices[i].paused = (last.flags.load() & guard::kPaused) != 0 ? 1 : 0;
    }
  }
  // Until it works: the job runs on meanwhile, its share a ceiling.
  void take_again(const GuardRun& run) {
    broker.reset();
    lost_at = guard::monotonic_ns();
    keep_changes();
    try {
      take(run);
      std::fprintf(stderr, "tranche: the broker was gone; another one took over\n");
    } catch (const std::exception&) { broker.reset(); }
  }
};

// Waits for the job; passes signals on; warns with the checkpoint signal and ends it when its time is over.
int supervise(const GuardRun& run,
              Place& place,
              TerminalTurn& terminal,
              pid_t job,
              int signals,
              std::uint64_t warn_at,
              std::uint64_t end_at) {
  bool warned = false;
  bool ended = false;
  for (;;) {
    int status = 0;
    const bool changed = ::waitpid(job, &status, WNOHANG | WUNTRACED) == job;
    if (changed && WIFSTOPPED(status)) terminal.stopped(job);
    if (changed && !WIFSTOPPED(status)) {
      ::kill(-job, SIGKILL);  // What it left running has no limits' keeper any more.
      return ended ? cli::kTimedOut : code_of(status);
    }
    const std::uint64_t now = guard::monotonic_ns();
    if (end_at != 0 && now >= end_at && !ended) {
      ended = true;
      std::fprintf(stderr, "tranche: the execution time is over, ending the job\n");
      ::kill(-job, SIGKILL);
    } else if (end_at != 0 && now >= warn_at && !warned) {
      warned = true;
      std::fprintf(stderr, "tranche: the execution time ends soon, asking the job to checkpoint\n");
      ::kill(-job, run.checkpoint_signal);
    }
    std::uint64_t wait = 1'000'000'000;
    if (end_at != 0 && !ended)
      wait = std::min(wait, (warned ? end_at : warn_at) - std::min(now, warned ? end_at : warn_at));
    if (!place.broker) wait = std::min<std::uint64_t>(wait, kBrokerRetryNs);
    if (!place.broker && now - place.lost_at >= kBrokerRetryNs) place.take_again(run);
    pollfd sources[2] = {{signals, POLLIN, 0}, {place.broker ? place.broker->descriptor() : -1, POLLIN, 0}};
    if (::poll(sources, 2, static_cast<int>(wait / 1'000'000) + 1) <= 0) continue;
    if ((sources[1].revents & (POLLHUP | POLLERR)) != 0) place.take_again(run);
    if ((sources[0].revents & POLLIN) == 0) continue;
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD)
      ::kill(-job, static_cast<int>(info.ssi_signo));
  }
}

void print_summary(const guard::TenantRegions& regions, std::uint32_t devices) {
  for (std::uint32_t i = 0; i < devices; ++i) {
    const guard::DeviceUsage usage = guard::usage_of(regions, i);
    std::fprintf(
        stderr,
        "tranche: device %u: peak VRAM %llu of %llu bytes, device time %.3f s, %llu launches, waited %.3f s, "
        "copied %llu bytes\n",
        i,
        static_cast<unsigned long long>(usage.vram_peak),
        static_cast<unsigned long long>(usage.vram_limit),
        static_cast<double>(usage.device_ns) / 1e9,
        static_cast<unsigned long long>(usage.launches),
        static_cast<double>(usage.throttled_ns) / 1e9,
        static_cast<unsigned long long>(usage.copy_bytes));
  }
}

}  // namespace

std::string default_broker_socket() {
  std::string folder;
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != 0) {
    folder = std::string(runtime) + "/tranche";
  } else if (::geteuid() == 0) {
    folder = "/run/tranche-broker";
  } else {
    folder = "/tmp/tranche-" + std::to_string(::geteuid());
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw std::runtime_error("cannot make " + folder + ": " + std::strerror(errno) +
                             "; set XDG_RUNTIME_DIR to a folder of yours, or name a socket with --socket");
  struct stat info{};
  if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid())
    throw std::runtime_error(folder + " is not a folder of this user");
  return folder + "/broker.sock";
}

std::string guard_library() {
  if (const char* told = std::getenv("TRANCHE_GUARD_LIBRARY")) return told;
  const std::filesystem::path here = std::filesystem::path(own_binary()).parent_path();
  for (const char* place : {".", "../lib/tranche", "../lib"}) {
    const auto candidate = here / place / "libtranche-guard.so";
    if (std::filesystem::exists(candidate)) return std::filesystem::canonical(candidate);
  }
  throw std::runtime_error("libtranche-guard.so is not beside " + own_binary() +
                           ": copy it there, or name it in TRANCHE_GUARD_LIBRARY");
}

int guard_run(const GuardRun& run) {
  guard_library();  // Fails before anything is started.
  Place place;
  guard::TenantLimits& limits = place.limits;
  limits.device_count = run.devices;
  for (std::uint32_t i = 0; i < run.devices; ++i) {
    limits.devices[i] = run.limits;
    limits.devices[i].physical = i;
  }
  const std::uint64_t now = guard::monotonic_ns();
  const std::uint64_t end_at = run.time_ns == 0 ? 0 : now + run.time_ns;
  const std::uint64_t warn_at =
      run.time_ns == 0 ? 0 : now + run.time_ns - std::min(run.grace_ns, run.time_ns);
  limits.end_at = end_at;
  limits.warn_at = warn_at;
  place.socket = std::filesystem::path(run.broker_socket).parent_path() / (run.tenant + ".sock");
  place.take(run);

  sigset_t watched;
  sigset_t before;
  ::sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT})
    ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  const int signals = ::signalfd(-1, &watched, SFD_CLOEXEC);
  TerminalTurn terminal;
  const pid_t job = ::fork();
  if (job < 0) throw std::runtime_error("cannot start the job");
  if (job == 0) become(run, place.socket, terminal, before);
  ::setpgid(job, job);
  terminal.give_to(job);
  const int code = supervise(run, place, terminal, job, signals, warn_at, end_at);
  if (!run.quiet) print_summary(*place.regions, run.devices);
  if (place.broker) place.broker->remove_tenant(run.tenant);
  ::close(signals);
  return code;
}

}  // namespace tranche::app
