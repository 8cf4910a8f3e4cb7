// SPDX-License-Identifier: Apache-2.0
#include "sim/pack_trace.hpp"

#include <algorithm>
#include <map>

#include "sim/pack_csv.hpp"

namespace tranche::sim {
namespace {

constexpr std::int64_t kAmountMax = 1'000'000'000;  // Of CPU milli or memory MiB in one node.
constexpr int kModelsMax = 64;

policy::ModelSet model_set(const CsvFile& file, std::size_t row, int column, ModelNames& models) {
  policy::ModelSet set = 0;
  std::string_view rest = file.text(row, column);
  while (!rest.empty()) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    if (bar > 0) {
      const int model = models.intern(std::string(rest.substr(0, bar)));
      if (model >= kModelsMax) file.complain(row, column, "more than 64 different models");
      set |= policy::ModelSet{1} << static_cast<unsigned>(model);
    }
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return set;
}

}  // namespace

int ModelNames::intern(const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name);
  const auto index = static_cast<int>(at - names.begin());
  if (at == names.end()) names.push_back(name);
  return index;
}

std::vector<policy::Demand> PackTasks::demand() const {
  std::vector<policy::Demand> out;
  out.reserve(kinds.size());
  for (const policy::Shape& shape : kinds) out.push_back({shape, 0});
  for (const std::uint32_t kind : tasks) ++out[kind].count;
  return out;
}

PackNodes read_nodes(const std::string& path, ModelNames& models) {
  const CsvFile file(path);
  const int name = file.column("sn");
  const int cpu = file.column("cpu_milli");
  const int memory = file.column("memory_mib");
  const int gpu = file.column("gpu");
  const int model = file.column("model");
  PackNodes out;
  for (std::size_t row = 0; row < file.rows(); ++row) {
    TraceNode node;
    node.name = file.text(row, name);
    if (node.name.empty()) file.complain(row, name, "empty");
    node.spec.cpu_milli = file.number(row, cpu, 0, kAmountMax);
    node.spec.memory_mib = file.number(row, memory, 0, kAmountMax);
    node.spec.devices = static_cast<std::int32_t>(file.number(row, gpu, 0, policy::kDevicesMax));
    node.spec.model = models.intern(std::string(file.text(row, model)));
    if (node.spec.model >= kModelsMax) file.complain(row, model, "more than 64 different models");
    out.capacity_milli += std::int64_t{node.spec.devices} * policy::kDeviceMilli;
    out.nodes.push_back(std::move(node));
  }
  if (out.nodes.empty()) throw TraceError(path + ": no nodes below the header");
  if (out.capacity_milli == 0) throw TraceError(path + ": no node has a GPU");
  std::stable_sort(out.nodes.begin(), out.nodes.end(), [](const TraceNode& a, const TraceNode& b) {
    return a.name < b.name;
  });
  return out;
}

PackTasks read_tasks(const std::string& path, ModelNames& models) {
  const CsvFile file(path);
  const int cpu = file.column("cpu_milli");
  const int memory = file.column("memory_mib");
  const int devices = file.column("num_gpu");
  const int milli = file.column("gpu_milli");
  const int spec = file.column_if_any("gpu_spec");
  PackTasks out;
  std::map<policy::Shape, std::uint32_t> known;
  bool any_gpu = false;
  for (std::size_t row = 0; row < file.rows(); ++row) {
    policy::Shape shape;
    shape.cpu_milli = file.number(row, cpu, 0, kAmountMax);
    shape.memory_mib = file.number(row, memory, 0, kAmountMax);
    shape.devices = static_cast<std::int32_t>(file.number(row, devices, 0, policy::kDevicesMax));
    if (shape.devices > 0) {
      any_gpu = true;
      shape.milli = static_cast<std::int32_t>(file.number(row, milli, 1, kAmountMax));
      shape.milli = std::min(shape.milli, policy::kDeviceMilli);
      if (shape.devices > 1 && shape.milli < policy::kDeviceMilli)
        file.complain(row, milli, "a share of several GPUs at once: only num_gpu = 1 may be below 1000");
      if (spec >= 0) shape.models = model_set(file, row, spec, models);
    }
    const auto [at, fresh] = known.emplace(shape, static_cast<std::uint32_t>(out.kinds.size()));
    if (fresh) out.kinds.push_back(shape);
    out.tasks.push_back(at->second);
  }
  if (out.tasks.empty()) throw TraceError(path + ": no tasks below the header");
  if (!any_gpu) throw TraceError(path + ": no task asks for a GPU");
  return out;
}

PackNodes replicated(const PackNodes& nodes, int times) {
  PackNodes out;
  out.capacity_milli = nodes.capacity_milli * times;
  for (int copy = 0; copy < times; ++copy) {
    for (TraceNode node : nodes.nodes) {
      node.name += "-" + std::to_string(copy);
      out.nodes.push_back(std::move(node));
    }
  }
  return out;
}

PackTasks replicated(const PackTasks& tasks, int times) {
  PackTasks out = tasks;
  for (int copy = 1; copy < times; ++copy)
    out.tasks.insert(out.tasks.end(), tasks.tasks.begin(), tasks.tasks.end());
  return out;
}

PackTasks merged(const PackTasks& first, const PackTasks& second, std::vector<std::uint32_t>& second_kinds) {
  PackTasks out = first;
  std::map<policy::Shape, std::uint32_t> known;
  for (std::uint32_t kind = 0; kind < out.kinds.size(); ++kind) known.emplace(out.kinds[kind], kind);
  second_kinds.clear();
  for (const policy::Shape& shape : second.kinds) {
    const auto [at, fresh] = known.emplace(shape, static_cast<std::uint32_t>(out.kinds.size()));
    if (fresh) out.kinds.push_back(shape);
    second_kinds.push_back(at->second);
  }
  // Equal halves: each trace counted as often as the other is long.
  out.tasks.clear();
  const std::size_t length = std::max(first.tasks.size(), second.tasks.size());
  for (std::size_t i = 0; i < length; ++i) {
    out.tasks.push_back(first.tasks[i % first.tasks.size()]);
    out.tasks.push_back(second_kinds[second.tasks[i % second.tasks.size()]]);
  }
  return out;
}

}  // namespace tranche::sim
