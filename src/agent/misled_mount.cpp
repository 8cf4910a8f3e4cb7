// SPDX-License-Identifier: Apache-2.0
#include "agent/misled_mount.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/descriptor.hpp"
#include "wire/mount_place.hpp"

namespace tranche::agent {
namespace {

// The mount that `target` is inside of, which is not its own.
const Bind* around(const std::vector<Bind>& binds, const std::string& target) {
  const Bind* nearest = nullptr;
  for (const Bind& bind : binds) {
    const bool holds = target.starts_with(bind.target + "/");
    if (holds && (nearest == nullptr || bind.target.size() > nearest->target.size())) nearest = &bind;
  }
  return nearest;
}

bool has_link(const std::string& folder, const std::string& inside) {
  const Descriptor base(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base.open()) return false;
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const Descriptor found(
      static_cast<int>(::syscall(SYS_openat2, base.get(), inside.c_str(), &how, sizeof how)));
  return !found.open() && errno == ELOOP;
}

}  // namespace

std::string misled_mount(const std::vector<Bind>& binds) {
  for (const Bind& bind : binds) {
    if (!wire::may_be_covered(bind.target)) continue;
    const Bind* holder = around(binds, bind.target);
    if (holder != nullptr && has_link(holder->source, bind.target.substr(holder->target.size() + 1)))
      return bind.target;
  }
  return {};
}

}  // namespace tranche::agent
