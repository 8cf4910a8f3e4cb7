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

}  // namespace

std::string cdi_specification(const SandboxPlan& plan) {
  std::string nodes, mounts, names;
  for (const Bind& bind : plan.binds) {
    if (bind.kind == BindKind::kDevice)
      append(nodes,
             R"({"path":)" + quoted(bind.target) + R"(,"hostPath":)" + quoted(bind.source) +
                 R"(,"permissions":"rw"})");
    const bool of_guard = bind.target.starts_with("/run/tranche") || bind.target == "/etc/ld.so.preload";
    if (of_guard)
      append(mounts,
             R"({"hostPath":)" + quoted(bind.source) + R"(,"containerPath":)" + quoted(bind.target) +
                 R"(,"options":["ro","bind","nosuid","nodev"]})");
  }
  for (const auto& [name, value] : plan.environment)
    if (name.ends_with("_VISIBLE_DEVICES")) append(names, quoted(name + "=" + value));
  return R"({"cdiVersion":"0.6.0","kind":"tranche.dev/slice","devices":[{"name":)" +
         quoted(text(plan.lease)) + R"(,"containerEdits":{"env":[)" + names + R"(],"deviceNodes":[)" + nodes +
         R"(],"mounts":[)" + mounts + "]}}]}\n";
}

}  // namespace tranche::agent
