// SPDX-License-Identifier: Apache-2.0
#include "guard/process_identity.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tranche::guard {
namespace {

// Fields 3, 20 and 22 of /proc/<pid>/stat: state, threads and start. The name in field 2 may hold blanks and
// brackets, so count from its last one. `gone`: no thread of it runs any more. A main thread that ended is a
// zombie while others go on, and its files are closed, and its device memory is free, only after the last.
std::uint64_t start_time_of(const char* who, bool* gone) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%s/stat", who);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] == 0) return 0;
  const char state = at[2];
  for (int field = 2; field < 20 && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
  if (at == nullptr) return 0;
  const unsigned long threads = std::strtoul(at + 1, nullptr, 10);
  *gone = state == 'X' || (state == 'Z' && threads <= 1);
  for (int field = 20; field < 22 && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : std::strtoull(at + 1, nullptr, 10);
}

std::uint32_t pid_namespace_of(const char* who) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%s/ns/pid", who);
  struct stat info{};
  return ::stat(path, &info) == 0 ? static_cast<std::uint32_t>(info.st_ino) : 0;
}

// A /proc of another PID namespace would tell about other processes by the same numbers.
bool proc_is_of_our_namespace() {
  char text[16] = "";
  const ssize_t length = ::readlink("/proc/self", text, sizeof text - 1);
  return length > 0 && std::strtoul(text, nullptr, 10) == static_cast<unsigned long>(::getpid());
}

}  // namespace

ProcessIdentity own_identity() {
  bool gone = false;
  ProcessIdentity id;
  id.pid = static_cast<std::uint32_t>(::getpid());
  id.start_time = start_time_of("self", &gone);
  id.pid_namespace = pid_namespace_of("self");
  return id.start_time == 0 ? ProcessIdentity{} : id;
}

ProcessIdentity identity_of(std::uint32_t pid) {
  char who[16];
  std::snprintf(who, sizeof who, "%u", pid);
  bool gone = false;
  ProcessIdentity id{pid, pid_namespace_of(who), start_time_of(who, &gone)};
  return id.start_time == 0 || gone ? ProcessIdentity{} : id;
}

ProcessIdentity innermost_identity(std::uint32_t pid) {
  ProcessIdentity id = identity_of(pid);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/status", pid);
  const int fd = id.pid == 0 ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[4096];
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  text[length > 0 ? length : 0] = 0;
  char* line = std::strstr(text, "\nNSpid:");
  if (line == nullptr) return id;  // A kernel without namespaces.
  char* end = std::strchr(line + 1, '\n');
  if (end != nullptr) *end = 0;
  const char* last = std::strrchr(line, '\t');
  if (last != nullptr) id.pid = static_cast<std::uint32_t>(std::strtoul(last + 1, nullptr, 10));
  return id;
}

Liveness liveness(const ProcessIdentity& id, const ProcessIdentity& self) {
  if (id == self) return Liveness::kAlive;
  if (id.pid_namespace == 0 || id.pid_namespace != self.pid_namespace) return Liveness::kUnknown;
  if (!proc_is_of_our_namespace()) return Liveness::kUnknown;
  char who[16];
  std::snprintf(who, sizeof who, "%u", id.pid);
  bool gone = false;
  const std::uint64_t start = start_time_of(who, &gone);
  return start == id.start_time && !gone ? Liveness::kAlive : Liveness::kDead;
}

}  // namespace tranche::guard
