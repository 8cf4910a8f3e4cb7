// SPDX-License-Identifier: Apache-2.0
#include "agent/oci_config.hpp"

#include <algorithm>

#include "agent/bubblewrap.hpp"
#include "agent/seccomp_filter.hpp"
#include "wire/json_writer.hpp"

namespace tranche::agent {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  wire::append_json_string(out, text);
  return out;
}

// [a,b,c]
class List {
 public:
  List& add(const std::string& item) {
    text_ += (text_.empty() ? "" : ",") + item;
    return *this;
  }
  [[nodiscard]] std::string text() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

template <class Words>
std::string quoted_list(const Words& words) {
  List list;
  for (const auto& word : words) list.add(quoted(word));
  return list.text();
}

std::string rights() {
  std::string sets;
  for (const char* set : {"bounding", "effective", "inheritable", "permitted", "ambient"})
    sets += (sets.empty() ? "" : ",") + quoted(set) + ":[]";
  return "{" + sets + "}";
}

std::string resource_limits(const SandboxPlan& plan) {
  List limits;
  const auto add = [&](const char* name, std::uint64_t most) {
    const std::string value = std::to_string(most);
    limits.add(R"({"type":)" + quoted(name) + R"(,"hard":)" + value + R"(,"soft":)" + value + "}");
  };
  add("RLIMIT_CORE", 0);
  if (plan.disk_bytes != 0) {
    std::uint64_t most = plan.disk_bytes;
    for (const VolumeWatch& volume : plan.volumes) most = std::max(most, volume.bytes);
    add("RLIMIT_FSIZE", most);
  }
  return limits.text();
}

std::string process(const OciBundle& bundle) {
  const SandboxPlan& plan = bundle.plan;
  std::vector<std::string> environment;
  for (const auto& [name, value] : plan.environment) environment.push_back(name + "=" + value);
  const std::string id = std::to_string(kUidInside);
  return R"({"terminal":false,"user":{"uid":)" + id + R"(,"gid":)" + id + R"(},"args":)" +
         quoted_list(bundle.command) + R"(,"env":)" + quoted_list(environment) + R"(,"cwd":)" +
         quoted(plan.directory) + R"(,"capabilities":)" + rights() + R"(,"rlimits":)" +
         resource_limits(plan) + R"(,"noNewPrivileges":true})";
}

std::string mounts(const OciBundle& bundle) {
  List list;
  for (const Bind& bind : bundle.mounts) {
    std::vector<std::string> options{"rbind", "nosuid", "rprivate"};
    options.emplace_back(bind.kind == BindKind::kReadOnly ? "ro" : "rw");
    if (bind.kind != BindKind::kDevice) options.emplace_back("nodev");
    list.add(R"({"destination":)" + quoted(bind.target) + R"(,"type":"bind","source":)" +
             quoted(bind.source) + R"(,"options":)" + quoted_list(options) + "}");
  }
  return list.text();
}

std::string filter() {
  List calls;
  calls.add(R"({"names":)" + quoted_list(refused_calls()) + R"(,"action":"SCMP_ACT_ERRNO","errnoRet":1})");
  for (const RefusedUse& use : refused_uses()) {
    std::string arguments;
    if (use.mask != 0)
      arguments = R"(,"args":[{"index":)" + std::to_string(use.index) + R"(,"value":)" +
                  std::to_string(use.mask) + R"(,"valueTwo":)" + std::to_string(use.value) +
                  R"(,"op":"SCMP_CMP_MASKED_EQ"}])";
    calls.add(R"({"names":[)" + quoted(use.call) + R"(],"action":"SCMP_ACT_ERRNO","errnoRet":)" +
              std::to_string(use.error) + arguments + "}");
  }
  return R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":)" + calls.text() + "}";
}

std::string confinement(const SandboxPlan& plan) {
  const std::string map = R"([{"containerID":)" + std::to_string(kUidInside) + R"(,"hostID":)" +
                          std::to_string(plan.uid) + R"(,"size":1}])";
  // Processes and network have namespaces already: those that the runtime itself is started in.
  List spaces;
  for (const char* kind : {"user", "mount", "ipc", "uts", "cgroup"})
    spaces.add(R"({"type":)" + quoted(kind) + "}");
  const std::vector<std::string> hidden{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"};
  return R"({"namespaces":)" + spaces.text() + R"(,"uidMappings":)" + map + R"(,"gidMappings":)" + map +
         R"(,"maskedPaths":)" + quoted_list(hidden) + R"(,"seccomp":)" + filter() + "}";
}

}  // namespace

std::string oci_config(const OciBundle& bundle) {
  return R"({"ociVersion":"1.0.2","hostname":"job","root":{"path":)" + quoted(bundle.root) +
         R"(,"readonly":true},"process":)" + process(bundle) + R"(,"mounts":)" + mounts(bundle) +
         R"(,"linux":)" + confinement(bundle.plan) + "}\n";
}

}  // namespace tranche::agent
