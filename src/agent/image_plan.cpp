// SPDX-License-Identifier: Apache-2.0
#include "agent/image_plan.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

bool contains(const wire::TextMap& map, const std::string& name) {
  return std::any_of(map.begin(), map.end(), [&](const auto& entry) { return entry.first == name; });
}

// What a sandbox without an image sets for want of anything better.
bool only_a_default(const std::string& name) {
  constexpr std::array kDefaults = {"PATH", "HOME", "LANG", "USER"};
  return std::find(kDefaults.begin(), kDefaults.end(), name) != kDefaults.end();
}

void add_environment(SandboxPlan& plan, const ImageConfig& config, const wire::JobSpec& spec) {
  for (const std::string& entry : config.environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = entry.substr(0, equals);
    const bool of_job = contains(spec.envs, name) || contains(spec.secrets, name);
    if (of_job || (contains(plan.environment, name) && !only_a_default(name))) continue;
    plan.environment.set(name, entry.substr(equals + 1));
  }
}

std::string value_of(const wire::TextMap& map, const std::string& name) {
  for (const auto& [key, value] : map)
    if (key == name) return value;
  return {};
}

void add_driver(SandboxPlan& plan) {
  if (value_of(plan.environment, "CUDA_VISIBLE_DEVICES").empty()) return;
  const std::vector<Bind> driver = driver_binds();
  if (driver.empty()) return;
  plan.binds.insert(plan.binds.end(), driver.begin(), driver.end());
  const std::string others = value_of(plan.environment, "LD_LIBRARY_PATH");
  plan.environment.set("LD_LIBRARY_PATH", kDriverInside + (others.empty() ? "" : ":" + others));
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char letter : word) out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out + "'";
}

std::string exec_line(const std::vector<std::string>& words) {
  std::string line = "exec";
  for (const std::string& word : words) line += " " + quoted(word);
  return line;
}

}  // namespace

std::vector<Bind> driver_binds(const std::vector<fs::path>& folders) {
  constexpr std::array kLibraries = {"libcuda.so.1",
                                     "libcudadebugger.so.1",
                                     "libnvidia-ml.so.1",
                                     "libnvidia-nvvm.so.4",
                                     "libnvidia-opencl.so.1",
                                     "libnvidia-ptxjitcompiler.so.1"};
  std::vector<Bind> binds;
  for (const char* library : kLibraries) {
    for (const fs::path& folder : folders) {
      std::error_code absent;
      const fs::path file = fs::canonical(folder / library, absent);  // The link leads to one version of it.
      if (absent) continue;
      binds.push_back({file.string(), kDriverInside + std::string("/") + library, BindKind::kReadOnly});
      break;
    }
  }
  return binds;
}

Result<void, std::string> apply_image(SandboxPlan& plan,
                                      const Image& image,
                                      const wire::JobSpec& spec,
                                      const SandboxHome& home) {
  const fs::path root(image.rootfs);
  plan.rootfs = image.rootfs;
  plan.binds_shared = 0;
  if (fs::is_directory(root / "etc")) {
    for (const Bind& ours : home.binds()) std::erase(plan.binds, ours);
    const bool guarded = std::any_of(
        plan.binds.begin(), plan.binds.end(), [](const Bind& bind) { return bind.target == "/run/tranche"; });
    if (guarded) plan.binds.push_back({home.opencl_drivers(), "/etc/OpenCL/vendors", BindKind::kReadOnly});
    for (const Bind& bind : plan.binds)
      if (bind.target.starts_with("/etc/") && !fs::exists(root / bind.target.substr(1)))
        return refuse("the image has no " + bind.target +
                      ", where this job needs something of the platform: make it in the image's folder");
  }
  add_environment(plan, image.config, spec);
  add_driver(plan);
  if (spec.run.empty() && spec.kind != wire::WorkloadKind::kInteractive) {
    if (image.config.command.empty()) return refuse(std::string("the image has no command: say what to run"));
    plan.run = exec_line(image.config.command);
  }
  if (spec.workdir.empty() && image.config.directory.starts_with('/'))
    plan.directory = image.config.directory;
  return {};
}

}  // namespace tranche::agent
