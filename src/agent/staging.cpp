// SPDX-License-Identifier: Apache-2.0
#include "agent/staging.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdexcept>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/descriptor.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kStage = "/tmp";

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

void make_place(const std::string& place, int source) {
  struct stat info{};
  if (::fstat(source, &info) != 0) fail("cannot look at a bind's source");
  if (S_ISDIR(info.st_mode)) {
    if (::mkdir(place.c_str(), 0755) != 0) fail("cannot stage " + place);
  } else {
    const Descriptor file(::open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file.open()) fail("cannot stage " + place);
  }
}

}  // namespace

std::vector<Bind> stage(std::vector<Bind> binds) {
  if (::unshare(CLONE_NEWNS) != 0) fail("cannot get an own view of mounts");
  if (::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) fail("cannot keep mounts to itself");
  std::vector<Descriptor> sources;  // Opened first: some may be below the place that is covered next.
  for (const Bind& bind : binds) {
    sources.emplace_back(::open(bind.source.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
    if (!sources.back().open()) fail("cannot open " + bind.source);
  }
  if (::mount("tmpfs", kStage, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k") != 0)
    fail("cannot stage");
  for (std::size_t i = 0; i < binds.size(); ++i) {
    const std::string place = std::string(kStage) + "/" + std::to_string(i);
    make_place(place, sources[i].get());
    const std::string from = "/proc/self/fd/" + std::to_string(sources[i].get());
    if (::mount(from.c_str(), place.c_str(), nullptr, MS_BIND, nullptr) != 0) fail("cannot stage " + place);
    binds[i].source = place;
  }
  return binds;
}

bool become_user(std::uint32_t uid) {
  if (uid == 0) return true;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(uid, uid, uid) == 0 && ::setresuid(uid, uid, uid) == 0;
}

void close_others(const std::vector<int>& kept) {
  std::vector<unsigned> open(kept.begin(), kept.end());
  std::sort(open.begin(), open.end());
  unsigned next = 3;
  for (const unsigned descriptor : open) {
    if (descriptor > next) ::syscall(SYS_close_range, next, descriptor - 1, 0U);
    next = descriptor + 1;
    ::fcntl(static_cast<int>(descriptor), F_SETFD, 0);
  }
  ::syscall(SYS_close_range, next, ~0U, 0U);
}

}  // namespace tranche::agent
