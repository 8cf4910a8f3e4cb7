// SPDX-License-Identifier: Apache-2.0
#include "net/cpu_pressure.hpp"

#include <array>
#include <charconv>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace tranche::net {

CpuPressure::~CpuPressure() {
  if (file_ >= 0) ::close(file_);
}

// "ran waited slices", in nanoseconds.
std::chrono::nanoseconds CpuPressure::waited() {
  if (file_ == -2) file_ = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file_ < 0) return {};
  std::array<char, 96> text{};
  const ssize_t got = ::pread(file_, text.data(), text.size(), 0);
  const std::string_view said(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const auto space = said.find(' ');
  long long now = 0;
  if (space == std::string_view::npos ||
      std::from_chars(said.data() + space + 1, said.data() + said.size(), now).ec != std::errc())
    return {};
  const long long before = std::exchange(before_, now);
  return std::chrono::nanoseconds(before < 0 ? 0 : now - before);
}

}  // namespace tranche::net
