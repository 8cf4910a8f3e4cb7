// SPDX-License-Identifier: Apache-2.0
#include "agent/cgroup.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <unistd.h>

#include "agent/cgroup_files.hpp"
#include "agent/files.hpp"

namespace tranche::agent {
namespace {

// A folder that looks like a kernel's, as far as names and contents of files go.
struct FakeTree {
  std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("tranche-cgroup-" + std::to_string(::getpid()));
  CgroupPlaces places{
      .root = root.string(), .own = (root / "own").string(), .mounts = (root / "mounts").string()};
  FakeTree() {
    remove_tree(root);
    make_folder(root, 0755);
  }
  ~FakeTree() { remove_tree(root); }
  void file(const std::string& name, const std::string& content = "") const {
    std::filesystem::create_directories((root / name).parent_path());
    write_whole(root / name, content, 0644);
  }
  [[nodiscard]] std::string read(const std::string& name) const { return *read_whole(root / name); }
};

constexpr const char* kV2Files[] = {"cpu.max",
                                    "cpu.weight",
                                    "memory.max",
                                    "memory.swap.max",
                                    "memory.oom.group",
                                    "pids.max",
                                    "cgroup.procs",
                                    "cgroup.freeze",
                                    "cgroup.kill",
                                    "memory.events"};

TEST_CASE("cgroups v2: limits, freezer and the kill button, on a fake tree") {
  const FakeTree tree;
  tree.file("own", "0::/tranche.slice\n");
  tree.file("mounts", "29 22 0:26 / " + tree.root.string() + " rw - cgroup2 cgroup2 rw\n");
  tree.file("tranche.slice/cgroup.subtree_control");
  tree.file("tranche.slice/tranche/cgroup.subtree_control");
  tree.file("tranche.slice/tranche/cpu.weight");
  for (const char* name : kV2Files) tree.file(std::string("tranche.slice/tranche/lease_1/") + name);
  const auto groups = open_cgroups(tree.places);
  CHECK(groups->version() == "v2");
  REQUIRE(groups->shortcomings().size() == 1);  // No list of devices.
  std::string problem;
  CHECK(groups->create("lease_1", {.cpu_milli = 1500, .memory_bytes = 64 << 20, .processes = 7}, problem));
  CHECK(problem.empty());
  const std::string group = "tranche.slice/tranche/lease_1/";
  CHECK(tree.read(group + "cpu.max") == "150000 100000");
  CHECK(tree.read(group + "cpu.weight") == "600");
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  CHECK(tree.read("tranche.slice/tranche/cpu.weight") == std::to_string(std::min(10000L, cpus * 400)));
  CHECK(groups->create("lease_1", {.cpu_milli = 64000}, problem));
  CHECK(tree.read(group + "cpu.weight") == "10000");  // More than the kernel takes.
  CHECK(tree.read(group + "memory.max") == std::to_string(64 << 20));
  CHECK(tree.read(group + "memory.swap.max") == "0");
  CHECK(tree.read(group + "pids.max") == "7");
  CHECK(groups->freeze("lease_1", true));
  CHECK(tree.read(group + "cgroup.freeze") == "1");
  CHECK(groups->kill("lease_1"));
  CHECK(tree.read(group + "cgroup.kill") == "1");
  tree.file(group + "memory.events", "low 0\nhigh 0\nmax 4\noom 1\noom_kill 3\n");
  CHECK(groups->memory_kills("lease_1") == 3);
  tree.file(group + "cgroup.procs", "41\n42\n");
  CHECK(groups->processes("lease_1") == std::vector<int>{41, 42});
}

TEST_CASE("cgroups v2: a controller that is not handed over is a shortcoming, and its limit is not written") {
  const FakeTree tree;
  tree.file("own", "0::/\n");
  tree.file("mounts", "29 22 0:26 / " + tree.root.string() + " rw - cgroup2 cgroup2 rw\n");
  const auto groups = open_cgroups(tree.places);  // No cgroup.subtree_control anywhere.
  CHECK(groups->shortcomings().size() == 4);
  std::string problem;
  CHECK(groups->create("lease_1", {.memory_bytes = 1 << 20}, problem));
  CHECK_FALSE(std::filesystem::exists(tree.root / "tranche/lease_1/memory.max"));
}

TEST_CASE("cgroups v1: each controller at its own mount and own path") {
  const FakeTree tree;
  tree.file("own", "4:memory:/app\n3:cpu,cpuacct:/\n2:pids:/\n1:freezer:/\n5:devices:/\n0::/\n");
  std::string mounts;
  for (const char* name : {"cpu", "memory", "pids", "freezer", "devices"})
    mounts += "30 22 0:27 / " + (tree.root / name).string() + " rw - cgroup cgroup rw," + name + "\n";
  tree.file("mounts", mounts);
  for (const char* file : {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"})
    tree.file(std::string("memory/app/tranche/lease_1/") + file,
              "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  for (const char* file : {"cpu/tranche/cpu.shares",
                           "cpu/tranche/lease_1/cpu.shares",
                           "cpu/tranche/lease_1/cpu.cfs_period_us",
                           "cpu/tranche/lease_1/cpu.cfs_quota_us",
                           "pids/tranche/lease_1/pids.max",
                           "freezer/tranche/lease_1/freezer.state",
                           "devices/tranche/lease_1/devices.deny",
                           "devices/tranche/lease_1/devices.allow"})
    tree.file(file);
  const auto groups = open_cgroups(tree.places);
  CHECK(groups->version() == "v1");
  CHECK(groups->shortcomings().empty());
  std::string problem;
  CgroupLimits limits{.cpu_milli = 250, .memory_bytes = 1 << 20, .processes = 5, .devices = {"c 195:0"}};
  CHECK(groups->create("lease_1", limits, problem));
  CHECK(tree.read("cpu/tranche/lease_1/cpu.cfs_quota_us") == "25000");
  CHECK(tree.read("cpu/tranche/lease_1/cpu.shares") == "1024");
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  CHECK(tree.read("cpu/tranche/cpu.shares") == std::to_string(std::min(262144L, cpus * 4096)));
  CHECK(groups->create("lease_1", {.cpu_milli = 1500}, problem));
  CHECK(tree.read("cpu/tranche/lease_1/cpu.shares") == "6144");
  CHECK(groups->create("lease_1", {}, problem));  // Promised nothing: as much as one process.
  CHECK(tree.read("cpu/tranche/lease_1/cpu.shares") == "1024");
  CHECK(groups->create("lease_1", limits, problem));
  CHECK(tree.read("memory/app/tranche/lease_1/memory.limit_in_bytes") == "1048576");
  CHECK(tree.read("pids/tranche/lease_1/pids.max") == "5");
  CHECK(tree.read("devices/tranche/lease_1/devices.deny") == "a");
  CHECK(tree.read("devices/tranche/lease_1/devices.allow") == "c 195:0 rw");
  CHECK(groups->freeze("lease_1", true));
  CHECK(tree.read("freezer/tranche/lease_1/freezer.state") == "FROZEN");
  CHECK(groups->memory_kills("lease_1") == 2);
}

TEST_CASE("cgroups v1: leases without devices share one list of them, which a new agent leaves as it is") {
  const FakeTree tree;
  tree.file("own", "1:pids:/\n2:memory:/\n5:devices:/\n");
  std::string mounts;
  for (const char* name : {"memory", "pids", "devices"})
    mounts += "30 22 0:27 / " + (tree.root / name).string() + " rw - cgroup cgroup rw," + name + "\n";
  tree.file("mounts", mounts);
  tree.file("devices/tranche/without/devices.list", "c 1:3 rw\nc 136:* rw\n");
  for (const char* name : {"devices.deny", "devices.allow", "tasks"})
    tree.file(std::string("devices/tranche/without/") + name);
  for (const char* controller : {"memory", "pids"})
    tree.file(std::string(controller) + "/tranche/lease_1/tasks");
  const auto groups = open_cgroups(tree.places);
  std::string problem;
  CHECK(groups->create("lease_1", {}, problem));
  CHECK_FALSE(std::filesystem::exists(tree.root / "devices/tranche/lease_1"));
  CHECK(tree.read("devices/tranche/without/devices.deny").empty());
  CHECK(groups->enter("lease_1"));
  for (const char* file :
       {"memory/tranche/lease_1/tasks", "pids/tranche/lease_1/tasks", "devices/tranche/without/tasks"})
    CHECK(tree.read(file) == "0");
}

TEST_CASE("cgroups: no rights anywhere is said, and nothing is claimed") {
  const FakeTree tree;
  const auto groups = open_cgroups({.root = (tree.root / "absent").string(),
                                    .own = (tree.root / "own").string(),
                                    .mounts = (tree.root / "mounts").string()});
  CHECK(groups->version() == "none");
  CHECK(groups->shortcomings().size() == 1);
  std::string problem;
  CHECK(groups->create("lease_1", {.memory_bytes = 1 << 20}, problem));
  CHECK(groups->enter("lease_1"));
  CHECK_FALSE(groups->freeze("lease_1", true));
}

}  // namespace
}  // namespace tranche::agent
