// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_try.hpp"

#include <stdexcept>
#include <sys/wait.h>

#include "agent/bubblewrap.hpp"
#include "agent/files.hpp"
#include "agent/image_plan.hpp"
#include "agent/lease_folder.hpp"
#include "agent/sandbox_pool.hpp"
#include "agent/sandbox_rights.hpp"
#include "agent/sandbox_runtime.hpp"
#include "agent/seccomp_filter.hpp"

namespace tranche::agent {
namespace {

constexpr std::uint64_t kEarlier = std::uint64_t{1} << 40U;  // Beyond any process id, which names the others.

}  // namespace

ShimWorld make_shim_world(const std::string& cgroup_parent) {
  ShimWorld world;
  world.bubblewrap = find_bubblewrap();
  if (world.bubblewrap.empty() && default_uid_base() == 0)
    throw std::runtime_error(
        "bubblewrap is not installed, and an agent that is not root needs it (apt install bubblewrap)");
  world.runtime = default_uid_base() == 0 ? "" : find_container_runtime();
  world.seccomp = seccomp_program();
  world.network = find_network_tools();
  world.cgroups = open_cgroups({.parent = cgroup_parent});
  return world;
}

std::uint32_t default_uid_base() {
  constexpr std::uint32_t kFirst = 700'000;
  return ::geteuid() == 0 ? kFirst : 0;
}

namespace {

LeaseFolder folder_for(const SandboxTry& wanted) {
  const NodeRules& rules = wanted.rules;
  make_folder(rules.data / "leases", 0711);
  make_folder(rules.data / "checkpoints", 0711);
  const std::uint32_t uid = job_user(rules, wanted.grant);
  const std::filesystem::path checkpoints = checkpoint_folder(rules, wanted.grant.job);
  make_folder(checkpoints, 0700);
  if (uid != 0 && ::chown(checkpoints.c_str(), uid, uid) != 0)
    throw std::runtime_error("cannot hand over checkpoints");
  return LeaseFolder::create(rules.data / "leases", wanted.grant, uid);
}

SandboxPlan plan_for(const SandboxTry& wanted, const LeaseFolder& folder, const SandboxHome& home) {
  const NodeRules& rules = wanted.rules;
  auto plan = plan_job(wanted.grant, folder.path(), rules, home, {}, "");
  if (!plan) throw std::runtime_error(plan.error().message);
  if (!wanted.grant.spec.image.empty()) {
    const auto image =
        ImageStore(images_folder(rules), rules.data / "image-cache").find(wanted.grant.spec.image);
    if (!image) throw std::runtime_error(image.error());
    if (const auto fits = apply_image(*plan, *image, wanted.grant.spec, home); !fits)
      throw std::runtime_error(fits.error());
  }
  return *plan;
}

// As the spawner does it. The supervisor waits for any child: it gets a process where it has but one.
void supervise(const ShimWorld& world, const SandboxPlan& plan, SandboxPool& pool) {
  SandboxPool::Taken taken;
  const PreparedNamespaces prepared = pool.take(plan, taken);
  const int child = ::fork();
  if (child == 0) {
    hide_arguments("tranche-shim");
    ::_exit(Supervisor(world, plan, prepared).run() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status == 0) pool.give_back(std::move(taken));
}

}  // namespace

SandboxOutcome try_sandbox(const SandboxTry& wanted) {
  const SandboxHome home(wanted.rules.data / "sandbox", wanted.guard_library);
  ShimWorld world = make_shim_world();
  if (!wanted.container_runtime) world.runtime.clear();
  SandboxPool pool;
  std::string output_before;
  if (!wanted.before.empty()) {
    SandboxTry earlier = wanted;
    earlier.grant.lease.value += kEarlier;
    earlier.grant.spec.setup.clear();
    earlier.grant.spec.run = wanted.before;
    LeaseFolder folder = folder_for(earlier);
    supervise(world, plan_for(earlier, folder, home), pool);
    output_before = read_whole(folder.path() / "stdout").value_or("");
    folder.forget();
  }
  LeaseFolder folder = folder_for(wanted);
  supervise(world, plan_for(wanted, folder, home), pool);
  const LeasePage& page = folder.page();
  SandboxOutcome outcome{.reason = static_cast<wire::EndReason>(page.reason.load()),
                         .exit_code = page.exit_code.load(),
                         .exit_signal = page.exit_signal.load(),
                         .message = folder.message(),
                         .output = output_before + read_whole(folder.path() / "stdout").value_or(""),
                         .errors = read_whole(folder.path() / "stderr").value_or(""),
                         .platform = read_whole(folder.path() / "platform").value_or(""),
                         .scratch_wiped = page.scratch_wiped != 0};
  folder.forget();
  return outcome;
}

}  // namespace tranche::agent
