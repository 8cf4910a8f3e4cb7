// SPDX-License-Identifier: Apache-2.0
#include "agent/shim_output.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <stdexcept>

namespace tranche::agent {

ShimOutput::ShimOutput(const std::string& file, std::uint64_t quota, LeasePage& page, std::uint32_t stream)
    : path_(file), quota_(quota), page_(page), stream_(stream) {}

Descriptor ShimOutput::open_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  pipe_.reset(ends[0]);
  return Descriptor(ends[1]);
}

bool ShimOutput::take(std::size_t bytes_max) {
  std::array<char, 64 * 1024> piece{};
  bool any = false;
  while (pipe_.open() && bytes_max > 0) {
    const ssize_t got = ::read(pipe_.get(), piece.data(), std::min(piece.size(), bytes_max));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    if (got == 0) {
      pipe_.reset();
      break;
    }
    keep(piece.data(), static_cast<std::size_t>(got));
    bytes_max -= static_cast<std::size_t>(got);
    any = true;
  }
  return any;
}

void ShimOutput::keep(const char* bytes, std::size_t count) {
  const std::uint64_t written = page_.written[stream_].load(std::memory_order_relaxed);
  const std::size_t fits =
      static_cast<std::size_t>(std::min<std::uint64_t>(count, quota_ > written ? quota_ - written : 0));
  std::size_t put = 0;
  if (!file_.open() && fits > 0)  // Only now: many short jobs say nothing.
    file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  while (put < fits) {
    const ssize_t step = ::write(file_.get(), bytes + put, fits - put);
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) break;  // The node's own disk is full: dropped, and counted as such.
    put += static_cast<std::size_t>(step);
  }
  page_.written[stream_].store(written + put, std::memory_order_release);
  if (put < count) page_.dropped[stream_].fetch_add(count - put, std::memory_order_relaxed);
}

void ShimOutput::note(const std::string& line) {
  keep((line + "\n").c_str(), line.size() + 1);
}

}  // namespace tranche::agent
