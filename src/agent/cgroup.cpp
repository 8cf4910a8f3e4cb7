// SPDX-License-Identifier: Apache-2.0
#include "agent/cgroup.hpp"

#include <map>
#include <sstream>

#include "agent/cgroup_files.hpp"
#include "agent/cgroup_kinds.hpp"

namespace tranche::agent {
namespace {

std::string joined(const std::string& mount, const std::string& path) {
  return path == "/" ? mount : mount + path;
}

// controller -> the agent's folder, from lines like "4:cpu,cpuacct:/system.slice/tranche.service".
// The empty name is the unified hierarchy.
std::map<std::string, std::string> own_paths(const std::string& text) {
  std::map<std::string, std::string> paths;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (names.str().empty()) paths[""] = path;
    for (std::string name; std::getline(names, name, ',');) paths[name] = path;
  }
  return paths;
}

// controller -> where it is mounted; the empty name is cgroup2.
std::map<std::string, std::string> mounts(const std::string& text) {
  std::map<std::string, std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line.substr(0, dash));
    std::istringstream tail(line.substr(dash + 3));
    std::string id, parent, device, inner, place, type, source, options;
    head >> id >> parent >> device >> inner >> place;
    tail >> type >> source >> options;
    if (type == "cgroup2") found.try_emplace("", place);
    if (type != "cgroup") continue;
    std::istringstream names(options);
    for (std::string name; std::getline(names, name, ',');) found.try_emplace(name, place);
  }
  return found;
}

}  // namespace

std::unique_ptr<Cgroups> open_cgroups(const CgroupPlaces& places) {
  const std::map<std::string, std::string> paths = own_paths(get_control(places.own));
  const std::map<std::string, std::string> mounted = mounts(get_control(places.mounts));
  // Where v1 has the memory controller, v2 cannot: a controller lives in one hierarchy.
  if (const auto memory = mounted.find("memory"); memory != mounted.end() && paths.contains("memory")) {
    std::map<std::string, std::string> folders;
    for (const auto& [controller, place] : mounted)
      if (const auto own = paths.find(controller); own != paths.end())
        folders[controller] = joined(place, own->second);
    return std::make_unique<CgroupsV1>(folders, places.parent);
  }
  const auto unified = mounted.find("");
  const auto own = paths.find("");
  const std::string base = unified == mounted.end() ? places.root : unified->second;
  return std::make_unique<CgroupsV2>(joined(base, own == paths.end() ? "/" : own->second), places.parent);
}

}  // namespace tranche::agent
