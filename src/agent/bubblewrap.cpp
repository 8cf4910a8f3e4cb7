// SPDX-License-Identifier: Apache-2.0
#include "agent/bubblewrap.hpp"

#include <csignal>
#include <unistd.h>

#include "agent/system_view.hpp"
#include "wire/mount_place.hpp"

namespace tranche::agent {
namespace {

constexpr std::uint64_t kSharedMemoryBytes = std::uint64_t{1} << 30;

class Options {
 public:
  template <class... Words>
  Options& add(Words&&... words) {
    (list_.emplace_back(std::forward<Words>(words)), ...);
    return *this;
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

void add_isolation(Options& options, const SandboxPlan& plan) {
  options.add("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try");
  if (plan.network != NetworkKind::kNode) options.add("--unshare-net");
  options.add("--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL");
  options.add("--uid", std::to_string(kUidInside), "--gid", std::to_string(kUidInside));
  options.add("--hostname", "job");
}

void add_bind(Options& options, const Bind& bind) {
  const char* word = bind.kind == BindKind::kReadOnly ? "--ro-bind"
                     : bind.kind == BindKind::kDevice ? "--dev-bind"
                                                      : "--bind";
  options.add(word, bind.source, bind.target);
}

// /work and /tmp are the job's own: places of its choice may lie in them.
bool is_home(const Bind& bind) {
  return bind.target == "/work" || bind.target == "/tmp";
}

void add_binds(Options& options, const std::vector<Bind>& binds, bool coverable) {
  for (const Bind& bind : binds)
    if (wire::may_be_covered(bind.target) == coverable) add_bind(options, bind);
}

// Bubblewrap follows links on the way to a place, and between our look for them (misled_mount.hpp) and its
// mount another job that has the same volume may put one there. So all that a job may choose the place of
// comes first, and what is the platform's lies over it: whatever a link leads to, system and guard are whole.
void add_mounts(Options& options, const SandboxPlan& plan, const std::vector<Bind>& binds) {
  const SystemView view = system_view(plan.rootfs);
  for (const auto& [place, target] : view.links) options.add("--symlink", target, place);
  add_binds(options, view.binds, true);
  for (const Bind& bind : binds)
    if (is_home(bind)) add_bind(options, bind);
  add_binds(options, binds, true);
  options.add("--proc", "/proc", "--dev", "/dev");
  add_binds(options, view.binds, false);
  options.add("--size", std::to_string(kSharedMemoryBytes), "--tmpfs", "/dev/shm");
  for (const Bind& bind : binds)
    if (!wire::may_be_covered(bind.target) && !is_home(bind)) add_bind(options, bind);
}

}  // namespace

std::vector<std::string> bubblewrap_options(const SandboxPlan& plan,
                                            const std::vector<Bind>& binds,
                                            BubblewrapDescriptors descriptors) {
  Options options;
  add_isolation(options, plan);
  add_mounts(options, plan, binds);
  // Only now: device files are put there first. A writable /dev would be memory that no quota counts.
  options.add("--remount-ro", "/dev", "--remount-ro", "/");
  options.add("--chdir", plan.directory, "--clearenv");
  for (const auto& [name, value] : plan.environment) options.add("--setenv", name, value);
  options.add("--seccomp", std::to_string(descriptors.seccomp));
  options.add("--info-fd", std::to_string(descriptors.info));
  return options.take();
}

std::vector<std::string> shell_command(const std::string& text, int checkpoint_signal) {
  // Closing that descriptor tells the supervisor that the job's own shell is at work.
  std::string before = "exec " + std::to_string(kReadyDescriptor) + ">&-\n";
  // A shell between us and the program would die of the checkpoint signal, and the program with it.
  if (checkpoint_signal > 0) before += "trap : " + std::to_string(checkpoint_signal) + "\n";
  return {"/bin/sh", "-c", before + text};
}

std::string find_bubblewrap() {
  for (const char* place : {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"})
    if (::access(place, X_OK) == 0) return place;
  return {};
}

}  // namespace tranche::agent
