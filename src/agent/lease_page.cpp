// SPDX-License-Identifier: Apache-2.0
#include "agent/lease_page.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/cgroup_files.hpp"
#include "agent/files.hpp"

namespace tranche::agent {

MappedLeasePage::MappedLeasePage(const std::filesystem::path& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  void* memory = MAP_FAILED;
  struct stat info{};
  const bool there = descriptor.open() && ::fstat(descriptor.get(), &info) == 0 &&
                     (info.st_size >= static_cast<off_t>(kLeasePageBytes) ||
                      ::ftruncate(descriptor.get(), kLeasePageBytes) == 0);
  if (there)
    memory = ::mmap(nullptr, kLeasePageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error("cannot map " + file.string() + ": " + std::strerror(errno));
  page_ = static_cast<LeasePage*>(memory);
}

MappedLeasePage::~MappedLeasePage() {
  ::munmap(page_, kLeasePageBytes);
}

std::uint64_t process_start(int pid) {
  const std::string stat = get_control("/proc/" + std::to_string(pid) + "/stat");
  std::size_t at = stat.rfind(')');  // The name before it may hold anything.
  if (at == std::string::npos) return 0;
  constexpr int kFieldsBetween = 20;  // From the state (3) to the start time (22).
  for (int field = 0; field < kFieldsBetween; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return 0;
  }
  return std::strtoull(stat.c_str() + at, nullptr, 10);
}

}  // namespace tranche::agent
