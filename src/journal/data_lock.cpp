// SPDX-License-Identifier: Apache-2.0
#include "journal/data_lock.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <unistd.h>

#include "journal/error.hpp"

namespace tranche::journal {
namespace {

pid_t owner_in(int descriptor) {
  std::array<char, 32> text{};
  if (::pread(descriptor, text.data(), text.size() - 1, 0) <= 0) return 0;
  return static_cast<pid_t>(std::strtol(text.data(), nullptr, 10));
}

}  // namespace

DataLock::DataLock(const std::filesystem::path& folder) {
  const auto path = folder / "lock";
  file_ = File::open(path, O_RDWR | O_CREAT, 0600);
  if (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw_disk_error(errno, "lock", path);
    const pid_t owner = owner_in(file_.descriptor());
    throw AlreadyOpen(owner,
                      "another server uses " + folder.string() +
                          (owner > 0 ? " (process " + std::to_string(owner) + ")" : ""));
  }
  // The pid is a courtesy for the message above; the lock does not depend on it, so a full disk may refuse
  // it.
  const std::string pid = std::to_string(::getpid()) + "\n";
  const bool told =
      ::ftruncate(file_.descriptor(), 0) == 0 && ::pwrite(file_.descriptor(), pid.data(), pid.size(), 0) > 0;
  static_cast<void>(told);
}

}  // namespace tranche::journal
