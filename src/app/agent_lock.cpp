// SPDX-License-Identifier: Apache-2.0
#include "app/agent_lock.hpp"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <unistd.h>

#include "app/log.hpp"

namespace tranche::app {
namespace {

constexpr int kLooks = 200, kEachMilliseconds = 100;

// A record lock, which no child inherits: supervisors of jobs outlive their agent.
struct flock whole_file() {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

AgentLock::AgentLock(const std::filesystem::path& data) {
  file_ = ::open((data / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) throw std::runtime_error("cannot write to " + data.string());
  for (int look = 0;; ++look) {
    struct flock lock = whole_file();
    if (::fcntl(file_, F_SETLK, &lock) == 0) return;
    ::fcntl(file_, F_GETLK, &lock);
    const std::string other =
        "another agent (process " + std::to_string(lock.l_pid) + ") uses " + data.string();
    if (look == kLooks) {
      ::close(file_);
      throw std::runtime_error(other + ": end it first, or give this one another folder with --data");
    }
    if (look == 0) Log().info(other + "; waiting for it to end");
    ::poll(nullptr, 0, kEachMilliseconds);
  }
}

AgentLock::~AgentLock() {
  ::close(file_);
}

}  // namespace tranche::app
