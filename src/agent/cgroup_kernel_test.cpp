// SPDX-License-Identifier: Apache-2.0
// The limits of control groups as the kernel that runs the test holds them: v1 on most test machines, v2 in
// the virtual machine of tools/vm-cgroup-v2.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cgroup.hpp"
#include "agent/cgroup_devices.hpp"
#include "agent/cgroup_files.hpp"

namespace tranche::agent {
namespace {

struct KernelGroups {
  std::unique_ptr<Cgroups> groups = open_cgroups({.parent = "tranche-kernel-test"});
  std::string name = "lease_" + std::to_string(::getpid());
  KernelGroups() = default;
  KernelGroups(const KernelGroups&) = delete;
  KernelGroups& operator=(const KernelGroups&) = delete;
  ~KernelGroups() {
    for (const int pid : groups->processes(name)) ::kill(pid, SIGKILL);
    while (!groups->remove(name) && errno == EBUSY) ::usleep(1000);
    groups->remove("");
  }
  [[nodiscard]] bool usable() const { return ::geteuid() == 0 && groups->version() != "none"; }
  void limit(const CgroupLimits& limits) const {
    std::string problem;
    const bool made = groups->create(name, limits, problem);
    CAPTURE(problem);
    REQUIRE(made);
  }
  // In the group, a process of its own; its exit status as waitpid tells it.
  int run(const std::function<int()>& work) const {
    int status = 0;
    ::waitpid(begin(work), &status, 0);
    return status;
  }
  [[nodiscard]] int begin(const std::function<int()>& work) const {
    const int pid = ::fork();
    if (pid == 0) ::_exit(groups->enter(name) ? work() : 125);
    return pid;
  }
};

template <class T>
T* shared() {
  return static_cast<T*>(
      ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

TEST_CASE("cgroups on this kernel: more memory than granted ends the process, and is counted") {
  const KernelGroups held;
  if (!held.usable()) return;
  MESSAGE("control groups ", held.groups->version());
  held.limit({.memory_bytes = 64U << 20U});
  const int status = held.run([] {
    constexpr std::size_t kPiece = 1U << 20U;
    for (int i = 0; i < 256; ++i) {
      void* memory = ::mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return 3;
      std::memset(memory, 1, kPiece);
    }
    return 0;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(held.groups->memory_kills(held.name) > 0);
}

TEST_CASE("cgroups on this kernel: the limit of processes refuses the next") {
  const KernelGroups held;
  if (!held.usable()) return;
  held.limit({.processes = 4});
  const int status = held.run([] {
    int made = 0;
    for (int pid = 0; made < 64 && (pid = ::fork()) >= 0; ++made)
      if (pid == 0) {
        ::pause();
        ::_exit(0);
      }
    return made < 8 && errno == EAGAIN ? 0 : 1;
  });
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(held.groups->processes(held.name).size() == 3);
}

TEST_CASE("cgroups on this kernel: a share of a CPU is held, and what was held back is counted") {
  const KernelGroups held;
  if (!held.usable()) return;
  held.limit({.cpu_milli = 100});
  const int pid = held.begin([] {
    for (volatile bool on = true; on;) {}
    return 0;
  });
  while (held.groups->use(held.name).throttled_microseconds == 0) ::usleep(1000);
  CHECK(held.groups->use(held.name).cpu_microseconds > 0);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST_CASE("cgroups on this kernel: a promised CPU is had before what runs beside it") {
  const KernelGroups held;
  if (!held.usable()) return;
  held.limit({.cpu_milli = 1000});
  auto* begun = shared<std::atomic<int>>();
  const auto spin = [begun] {  // All on one processor, so that they must share it.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) return 1;
    ++*begun;
    for (volatile bool on = true; on;) {}
    return 0;
  };
  const int job = held.begin(spin);
  const int beside = ::fork();
  if (beside == 0) ::_exit(spin());
  const auto had = [](int pid) {  // Nanoseconds, by the kernel's own count.
    return control_number("/proc/" + std::to_string(pid) + "/schedstat");
  };
  constexpr std::uint64_t kEnough = 60'000'000;
  while (*begun < 2 && ::waitpid(job, nullptr, WNOHANG) == 0) ::usleep(1000);
  REQUIRE(*begun == 2);  // On a slow machine the one may be over with its time before the other begins.
  const std::uint64_t job_first = had(job), beside_first = had(beside);
  while (had(beside) - beside_first < kEnough) ::usleep(1000);
  CHECK(had(job) - job_first > 2 * kEnough);  // Without a weight: as much.
  for (const int pid : {job, beside}) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

TEST_CASE("cgroups on this kernel: what is frozen stands still, and goes on") {
  const KernelGroups held;
  if (!held.usable()) return;
  held.limit({});
  auto* steps = shared<std::atomic<std::uint64_t>>();
  const int pid = held.begin([steps] {
    for (;;) ++*steps;
    return 0;
  });
  const auto moves = [steps] {
    const std::uint64_t before = *steps;
    for (int i = 0; i < 200; ++i) {
      if (*steps != before) return true;
      ::usleep(1000);
    }
    return false;
  };
  while (!moves()) {}
  CHECK(held.groups->freeze(held.name, true));
  while (moves()) {}  // The kernel takes a moment; a freezer that does not work hangs here.
  CHECK_FALSE(moves());
  CHECK(held.groups->freeze(held.name, false));
  while (!moves()) {}
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

// The unified hierarchy, on which lists of devices can be tried wherever it is mounted.
std::string unified() {
  for (const char* place : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
    if (can_list_devices(place)) return place;
  return {};
}

TEST_CASE("cgroups v2: of device files a group opens those on its list, and makes none") {
  const std::string root = unified();
  if (root.empty() || ::geteuid() != 0) {
    MESSAGE("skipped: no unified control groups here that take a list of devices");
    return;
  }
  const std::string group = root + "/tranche-devices-" + std::to_string(::getpid());
  REQUIRE(make_group(group));
  const auto opens = [&](const char* file) {
    const int pid = ::fork();
    if (pid == 0) {
      if (!put_control(group + "/cgroup.procs", "0")) ::_exit(125);
      ::_exit(::open(file, O_RDONLY | O_NONBLOCK) >= 0 ? 0 : errno);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
  };
  CHECK(opens("/dev/kmsg") == 0);  // Before there is a list.
  CHECK(list_devices(group, {}).empty());
  CHECK(opens("/dev/null") == 0);
  CHECK(opens("/dev/urandom") == 0);
  CHECK(opens("/dev/kmsg") == EPERM);
  const int maker = ::fork();
  if (maker == 0) {
    put_control(group + "/cgroup.procs", "0");
    const std::string made = "/tmp/tranche-device-" + std::to_string(::getpid());
    ::_exit(::mknod(made.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0 ? 0 : errno);
  }
  int status = 0;
  ::waitpid(maker, &status, 0);
  CHECK(WEXITSTATUS(status) == EPERM);
  CHECK(list_devices(group, {"c 1:11"}).empty());
  CHECK(opens("/dev/kmsg") == EPERM);  // Lists are added up by what both allow.
  CHECK_FALSE(list_devices(group, {"nonsense"}).empty());
  while (::rmdir(group.c_str()) != 0 && errno == EBUSY) ::usleep(1000);
  REQUIRE(make_group(group));
  CHECK(list_devices(group, {"c 1:11"}).empty());
  CHECK(opens("/dev/kmsg") == 0);
  CHECK(opens("/dev/full") == 0);
  while (::rmdir(group.c_str()) != 0 && errno == EBUSY) ::usleep(1000);
}

}  // namespace
}  // namespace tranche::agent
