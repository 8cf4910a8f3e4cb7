// SPDX-License-Identifier: Apache-2.0
// What a container runtime is told, read back as JSON by somebody who did not write it.
#include "agent/oci_config.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <set>

#include "agent/cdi_spec.hpp"
#include "agent/files.hpp"
#include "agent/image_plan.hpp"
#include "agent/seccomp_filter.hpp"

namespace tranche::agent {
namespace {

namespace json = boost::json;

SandboxPlan plan() {
  SandboxPlan plan{.lease = {7}, .rootfs = "/images/tool", .uid = 700'007};
  plan.environment.set("CUDA_VISIBLE_DEVICES", "GPU-1");
  plan.environment.set("SECRET", "it's \"quoted\"");
  plan.binds = {{"/dev/nvidia0", "/dev/nvidia0", BindKind::kDevice},
                {"/data/run", "/run/tranche", BindKind::kReadOnly},
                {"/data/checkpoints/job", "/checkpoint", BindKind::kWritable}};
  plan.disk_bytes = 1 << 20;
  return plan;
}

json::value config() {
  const SandboxPlan given = plan();
  const CdiEdits edits = cdi_edits(given);
  OciBundle bundle{
      .plan = given, .root = "/staged", .command = {"/bin/sh", "-c", "exit 3"}, .mounts = edits.mounts};
  bundle.mounts.insert(bundle.mounts.end(), edits.devices.begin(), edits.devices.end());
  return json::parse(oci_config(bundle));
}

TEST_CASE("oci config: a job is nobody in it, without rights, and cannot get any") {
  const json::value whole = config();
  const json::value& process = whole.at("process");
  CHECK(process.at("user").at("uid") == 1000);
  CHECK(process.at("noNewPrivileges") == true);
  for (const auto& [set, rights] : process.at("capabilities").as_object()) CHECK(rights.as_array().empty());
  CHECK(process.at("capabilities").as_object().size() == 5);
  CHECK(whole.at("root").at("readonly") == true);
  CHECK(whole.at("linux").at("uidMappings").at(0).at("hostID") == 700'007);
  CHECK(whole.at("linux").at("uidMappings").as_array().size() == 1);
  std::set<std::string> spaces;
  for (const json::value& space : whole.at("linux").at("namespaces").as_array())
    spaces.emplace(space.at("type").as_string());
  CHECK(spaces == std::set<std::string>{"user", "mount", "ipc", "uts", "cgroup"});
  CHECK(process.at("args").at(2) == "exit 3");
  CHECK(process.at("env").at(1) == "SECRET=it's \"quoted\"");
}

TEST_CASE("oci config: every call that the agent's own filter refuses is refused") {
  std::set<std::string> refused;
  const json::value whole = config();
  for (const json::value& rule : whole.at("linux").at("seccomp").at("syscalls").as_array()) {
    CHECK(rule.at("action") == "SCMP_ACT_ERRNO");
    for (const json::value& name : rule.at("names").as_array()) refused.emplace(name.as_string());
  }
  for (const std::string_view call : refused_calls()) CHECK(refused.contains(std::string(call)));
  for (const RefusedUse& use : refused_uses()) CHECK(refused.contains(std::string(use.call)));
}

TEST_CASE("oci config: the slice is what CDI says of it, and nothing else of the node is mounted") {
  std::set<std::string> targets;
  const json::value whole = config();
  for (const json::value& mount : whole.at("mounts").as_array())
    targets.emplace(mount.at("destination").as_string());
  CHECK(targets == std::set<std::string>{"/dev/nvidia0", "/run/tranche"});
  const json::value cdi = json::parse(cdi_specification(plan()));
  const json::value& edits = cdi.at("devices").at(0).at("containerEdits");
  CHECK(edits.at("env").at(0) == "CUDA_VISIBLE_DEVICES=GPU-1");
  CHECK(edits.at("deviceNodes").at(0).at("path") == "/dev/nvidia0");
  CHECK(edits.at("mounts").at(0).at("containerPath") == "/run/tranche");
}

TEST_CASE("image: of the driver, the libraries that the node has are shown by their names") {
  const std::filesystem::path place =
      std::filesystem::temp_directory_path() / ("tranche-driver-test-" + std::to_string(::getpid()));
  make_folder(place, 0755);
  write_whole(place / "libcuda.so.550.54", "the driver", 0644);
  std::filesystem::create_symlink("libcuda.so.550.54", place / "libcuda.so.1");
  const std::vector<Bind> found = driver_binds({"/nowhere", place});
  REQUIRE(found.size() == 1);
  CHECK(found[0].source == (std::filesystem::canonical(place) / "libcuda.so.550.54").string());
  CHECK(found[0].target == "/run/tranche-driver/libcuda.so.1");
  remove_tree(place);
}

}  // namespace
}  // namespace tranche::agent
