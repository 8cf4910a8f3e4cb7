// SPDX-License-Identifier: Apache-2.0
#include "journal/disk_reserve.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "journal/durable_file.hpp"

namespace tranche::journal {

DiskReserve::DiskReserve(const std::filesystem::path& folder, DiskReserveOptions options)
    : folder_(folder), ballast_(folder / "ballast"), options_(options) {
  // Taken anew at every start: a ballast of an earlier run may have another size.
  ::unlink(ballast_.c_str());
  static_cast<void>(admit(Need::kOrdinary));
}

bool DiskReserve::admit(Need need) {
  std::uint64_t free = free_bytes();
  if (!held_ && free >= options_.ballast_bytes + 2 * options_.low_water_bytes) {
    take();
    free = free_bytes();
  }
  // Without its ballast the disk counts as low, or ordinary writes would use up what was set aside.
  low_ = !held_ || free < options_.low_water_bytes;
  if (!low_) return true;
  if (need == Need::kOrdinary) return false;
  if (free < options_.low_water_bytes) static_cast<void>(release());
  return free_bytes() > 0;
}

bool DiskReserve::release() {
  if (!held_) return false;
  held_ = false;
  low_ = true;
  return ::unlink(ballast_.c_str()) == 0;
}

std::uint64_t DiskReserve::free_bytes() const {
  struct statvfs about{};
  if (::statvfs(folder_.c_str(), &about) != 0) throw_disk_error(errno, "ask for free space in", folder_);
  return static_cast<std::uint64_t>(about.f_bavail) * about.f_frsize;
}

void DiskReserve::take() {
  const File file(::open(ballast_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  // Real blocks, not a hole: a hole would set nothing aside.
  if (file.is_open() &&
      ::posix_fallocate(file.descriptor(), 0, static_cast<off_t>(options_.ballast_bytes)) == 0) {
    held_ = true;
  } else {
    ::unlink(ballast_.c_str());
  }
}

}  // namespace tranche::journal
