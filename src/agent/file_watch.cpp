// SPDX-License-Identifier: Apache-2.0
#include "agent/file_watch.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <fstream>
#include <linux/securebits.h>
#include <sstream>
#include <string_view>
#include <sys/fanotify.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace tranche::agent {
namespace {

constexpr std::size_t kPathsMost = 512;
constexpr std::size_t kEventsMost = 4096;  // At one look: a job that opens without end costs us no more.
constexpr std::array<std::string_view, 2> kOfKernel = {"/proc", "/dev"};
constexpr std::array<std::string_view, 2> kOfLoader = {"/etc/ld.so.cache", "/etc/ld.so.preload"};

bool is_below(std::string_view path, std::string_view place) {
  return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

// Where something is mounted in the namespace of a process, by the number of the mount.
std::map<std::string, std::string> mount_points(const std::string& process) {
  std::ifstream file("/proc/" + process + "/mountinfo");
  std::map<std::string, std::string> points;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, point;
    if (words >> id >> parent >> device >> root >> point) points.emplace(id, point);
  }
  return points;
}

std::string mount_of(int file) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(file));
  for (std::string key, value; info >> key >> value;)
    if (key == "mnt_id:") return value;
  return {};
}

// The kernel allows each user so many of these: the node's root has few for all, each job's user has its own.
Descriptor group_of(std::uint32_t uid) {
  ::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);  // Rights stay over the change of users.
  Descriptor group;
  if (::seteuid(uid) == 0) {
    group.reset(
        ::fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY | O_CLOEXEC | O_LARGEFILE));
    if (::seteuid(0) != 0) ::_exit(125);
  }
  ::prctl(PR_SET_SECUREBITS, 0, 0, 0, 0);
  return group;
}

}  // namespace

Descriptor FileWatch::begin(std::uint32_t uid, const std::vector<std::string>& own_places) {
  Descriptor group = group_of(uid);
  if (!group.open()) return group;
  for (const auto& [id, point] : mount_points("self")) {
    const auto holds = [&](std::string_view place) { return is_below(point, place); };
    if (point == "/" || std::any_of(kOfKernel.begin(), kOfKernel.end(), holds) ||
        std::any_of(own_places.begin(), own_places.end(), holds))
      continue;
    // Of programs and libraries, which are most of what is opened, only what is started.
    const std::uint64_t what = is_below(point, "/usr") ? FAN_OPEN_EXEC : FAN_OPEN;
    if (::fanotify_mark(group.get(), FAN_MARK_ADD | FAN_MARK_MOUNT, what, AT_FDCWD, point.c_str()) != 0) {
      group.reset();
      return group;
    }
  }
  return group;
}

void FileWatch::follow(Descriptor group, int job) {
  group_ = std::move(group);
  points_ = mount_points(std::to_string(job));
}

// As the job sees it. From outside the kernel names it from the root of its mount alone.
std::string FileWatch::path_of(int file) const {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  if (::readlink(link.c_str(), path.data(), path.size() - 1) <= 0) return {};
  const auto point = points_.find(mount_of(file));
  if (point == points_.end() || is_below(path.data(), point->second)) return path.data();
  return point->second + path.data();
}

void FileWatch::note(const std::string& path) {
  if (std::find(kOfLoader.begin(), kOfLoader.end(), path) != kOfLoader.end() || seen_.contains(path)) return;
  if (seen_.size() < kPathsMost)
    seen_.insert(path);
  else
    ++more_;
}

void FileWatch::take() {
  alignas(fanotify_event_metadata) std::array<char, 16 * 1024> piece{};
  for (std::size_t taken = 0; group_.open() && taken < kEventsMost;) {
    ssize_t left = ::read(group_.get(), piece.data(), piece.size());
    if (left <= 0) return;
    for (auto* event = reinterpret_cast<fanotify_event_metadata*>(piece.data()); FAN_EVENT_OK(event, left);
         event = FAN_EVENT_NEXT(event, left)) {
      ++taken;
      if ((event->mask & FAN_Q_OVERFLOW) != 0) ++more_;
      if (event->fd < 0) continue;
      const Descriptor file(event->fd);
      if (const std::string path = path_of(file.get()); !path.empty()) note(path);
    }
  }
}

}  // namespace tranche::agent
