// SPDX-License-Identifier: Apache-2.0
#include "agent/system_view.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::array kOfNode = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
// Made for each job; what an image has there is left out.
constexpr std::array kOfSandbox = {"proc", "sys", "dev", "run", "tmp", "work"};

void add_entry(SystemView& view, const fs::path& place, const std::string& inside) {
  std::error_code ignored;
  if (fs::is_symlink(place, ignored)) {
    view.links.emplace_back(inside, fs::read_symlink(place, ignored).string());
  } else if (fs::is_directory(place, ignored) || fs::is_regular_file(place, ignored)) {
    view.binds.push_back({place.string(), inside, BindKind::kReadOnly});
  }
}

}  // namespace

SystemView system_view(const std::string& rootfs) {
  SystemView view;
  if (rootfs.empty()) {
    for (const char* name : kOfNode) add_entry(view, fs::path("/") / name, std::string("/") + name);
  } else {
    for (const auto& entry : fs::directory_iterator(rootfs)) {
      const std::string name = entry.path().filename().string();
      if (std::find(kOfSandbox.begin(), kOfSandbox.end(), name) == kOfSandbox.end())
        add_entry(view, entry.path(), "/" + name);
    }
  }
  // How many cores and memory nodes there are: runtimes (PoCL, OpenMP, PyTorch) will not start without.
  for (const char* place : {"/sys/devices/system/cpu", "/sys/devices/system/node"})
    add_entry(view, place, place);
  return view;
}

}  // namespace tranche::agent
