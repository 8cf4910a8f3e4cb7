// SPDX-License-Identifier: Apache-2.0
#include "agent/cdi_spec.hpp"

#include "wire/json_writer.hpp"

namespace tranche::agent {
namespace {

std::string quoted(const std::string& text) {
  std::string out;
  wire::append_json_string(out, text);
  return out;
}

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ",") + item;
}

bool is_of_guard(const Bind& bind) {
  return bind.target.starts_with("/run/tranche") || bind.target == "/etc/ld.so.preload" ||
         bind.target == "/etc/OpenCL/vendors";
}

}  // namespace

CdiEdits cdi_edits(const SandboxPlan& plan) {
  CdiEdits edits;
  for (const Bind& bind : plan.binds) {
    if (bind.kind == BindKind::kDevice)
      edits.devices.push_back(bind);
    else if (is_of_guard(bind))
      edits.mounts.push_back(bind);
  }
  for (const auto& [name, value] : plan.environment)
    if (name.ends_with("_VISIBLE_DEVICES")) edits.environment.emplace_back(name, value);
  return edits;
}

std::string cdi_specification(const SandboxPlan& plan) {
  const CdiEdits edits = cdi_edits(plan);
  std::string nodes, mounts, names;
  for (const Bind& device : edits.devices)
    append(nodes,
           R"({"path":)" + quoted(device.target) + R"(,"hostPath":)" + quoted(device.source) +
               R"(,"permissions":"rw"})");
  for (const Bind& mount : edits.mounts)
    append(mounts,
           R"({"hostPath":)" + quoted(mount.source) + R"(,"containerPath":)" + quoted(mount.target) +
               R"(,"options":["ro","bind","nosuid","nodev"]})");
  for (const auto& [name, value] : edits.environment) append(names, quoted(name + "=" + value));
  return R"({"cdiVersion":"0.6.0","kind":"tranche.dev/slice","devices":[{"name":)" +
         quoted(text(plan.lease)) + R"(,"containerEdits":{"env":[)" + names + R"(],"deviceNodes":[)" + nodes +
         R"(],"mounts":[)" + mounts + "]}}]}\n";
}

}  // namespace tranche::agent
