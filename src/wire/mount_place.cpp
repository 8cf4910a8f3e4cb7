// SPDX-License-Identifier: Apache-2.0
#include "wire/mount_place.hpp"

#include <algorithm>
#include <array>

namespace tranche::wire {
namespace {

// Absolute, and written in no other way than the shortest.
bool is_plain(std::string_view path) {
  if (path.size() < 2 || !path.starts_with('/') || path.ends_with('/')) return false;
  if (path.find('\0') != std::string_view::npos) return false;
  for (std::size_t at = 1; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view step = path.substr(at, end - at);
    if (step.empty() || step == "." || step == "..") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

bool may_be_covered(std::string_view path) {
  if (!is_plain(path)) return false;
  constexpr std::array<std::string_view, 12> kTaken = {
      "etc", "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "proc", "sys", "dev", "run"};
  const std::string_view first = path.substr(1, path.find('/', 1) - 1);
  const bool whole = first.size() + 1 == path.size();
  return std::find(kTaken.begin(), kTaken.end(), first) == kTaken.end() &&
         !(whole && (first == "work" || first == "tmp"));
}

}  // namespace tranche::wire
