// SPDX-License-Identifier: Apache-2.0
#include "wire/resolve_ask.hpp"

#include <algorithm>

#include "wire/gpu_catalog.hpp"
#include "wire/partition_geometry.hpp"

namespace tranche::wire {
namespace {

constexpr std::int64_t kWhole = 1000;
constexpr std::string_view kSimulatedInfra = "simulated";

std::uint32_t milli_for(std::int64_t part, std::int64_t whole) {
  const std::int64_t milli = (part * kWhole + whole - 1) / whole;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(milli, 1, kWhole));
}

// One hardware partition: its share of the device's compute slices, and the memory that comes with it.
void take_profile(Ask& ask, const GpuItem& item, const GpuModel* model) {
  ask.isolation = Isolation::kHard;
  ask.profile = item.profile;
  const PartitionGeometry* geometry = model == nullptr ? nullptr : find_geometry(model->name);
  if (geometry == nullptr) return;
  const auto profile =
      std::find_if(geometry->profiles.begin(), geometry->profiles.end(), [&](const auto& one) {
        return equal_ignoring_case(one.name, item.profile);
      });
  if (profile == geometry->profiles.end()) return;
  ask.milli_each = milli_for(profile->compute_slices, geometry->compute_slices);
  ask.vram_each = profile->memory.count;
}

void take_gpus(Ask& ask, const GpuItem& item, const Settings& settings, std::int64_t smallest_vram) {
  const GpuModel* model = item.model.empty() ? nullptr : find_gpu_model(item.model);
  if (model != nullptr) ask.model = model->name;
  const std::int64_t device = model == nullptr ? settings.reference_vram_bytes : model->vram.count;
  ask.milli_each = item.milli;
  const std::int64_t shared = model == nullptr ? std::min(device, smallest_vram) : device;
  ask.vram_each = item.vram.count > 0 ? item.vram.count : shared * item.milli / kWhole;
  if (item.milli == 0) ask.milli_each = milli_for(item.vram.count, device);
  if (!item.profile.empty()) take_profile(ask, item, model);
}

Result<std::int64_t, Problem> model_millions(const JobSpec& job) {
  if (!job.model) return 0;
  if (job.model->parameters > 0) return job.model->parameters / 1'000'000;
  // The last "7b"-like part of the name is its size: 13b, llama-3-8b, qwen2.5-0.5b.
  std::string_view name = job.model->name;
  for (std::size_t at = name.size(); at-- > 0;) {
    if ((name[at] | 0x20) != 'b' && (name[at] | 0x20) != 'm') continue;
    std::size_t start = at;
    while (start > 0 &&
           (std::isdigit(static_cast<unsigned char>(name[start - 1])) != 0 || name[start - 1] == '.'))
      --start;
    if (start == at) continue;
    std::int64_t whole = 0;
    std::int64_t thousandths = 0;
    std::int64_t scale = 0;
    for (const char c : name.substr(start, at - start)) {
      if (c == '.') {
        scale = 100;
      } else if (scale == 0) {
        whole = std::min<std::int64_t>(whole * 10 + (c - '0'), 1'000'000);
      } else {
        thousandths += (c - '0') * scale;
        scale /= 10;
      }
    }
    return (name[at] | 0x20) == 'b' ? whole * 1000 + thousandths : whole;
  }
  return 0;
}

}  // namespace

Result<Ask, Problem> resolve_ask(const JobSpec& job,
                                 const std::map<std::string, Sku>& skus,
                                 const Settings& settings,
                                 std::int64_t smallest_vram) {
  Ask ask;
  ask.kind = job.kind;
  ask.priority = job.priority.value;
  ask.preemptible = job.preemptible;
  ask.sku = job.sku;
  ask.storage_bytes = job.resources.disk.count;
  ask.time = job.limits.time.value_or(Duration{});
  ask.deadline = job.deadline;
  ask.cheapest = job.cheapest;
  ask.spend = job.limits.spend.value_or(Money{});
  for (const auto& [key, value] : job.labels) ask.labels.emplace(key, value);
  for (const VolumeMount& mount : job.volumes) ask.volumes.push_back(mount.name);
  ask.nodes =
      std::max(job.num_nodes, job.workers.min);  // An elastic gang waits for the fewest it can do with.
  if (job.workers.max > job.workers.min) {
    ask.nodes_min = job.workers.min;
    ask.nodes_max = job.workers.max;
  }
  ask.gang_network = job.network == Network::kGang && std::max(ask.nodes, ask.nodes_max) > 1;
  ask.simulated = job.infra == kSimulatedInfra;
  ask.cpu_milli = job.resources.cpus.milli_min;
  ask.memory_bytes = job.resources.memory.min.count;
  if (job.retry) {
    ask.retries = job.retry->attempts;
    ask.retry_backoff = job.retry->backoff;
  }
  const auto millions = model_millions(job);
  if (!millions) return refuse(millions.error());
  ask.model_millions = *millions;

  Isolation isolation = job.resources.isolation;
  if (isolation == Isolation::kDefault) isolation = job.resources.gpus.isolation;
  ask.isolation = isolation == Isolation::kDefault ? Isolation::kSoft : isolation;
  if (!job.sku.empty()) {
    const auto sku = skus.find(job.sku);
    if (sku == skus.end())
      return refuse(Problem{"sku", "there is no SKU '" + job.sku + "'", "tranche sku list"});
    ask.instances = ask.nodes;
    ask.milli_each = static_cast<std::uint32_t>(sku->second.gpu_milli);
    ask.vram_each = sku->second.vram_bytes;
    ask.gpus = job.sku;
  } else if (!job.resources.gpus.items.empty()) {
    const GpuItem& item = job.resources.gpus.items.front();
    take_gpus(ask, item, settings, smallest_vram);
    ask.instances = item.count_min * ask.nodes;
    ask.gpus = text(job.resources.gpus);
  }
  if (ask.isolation == Isolation::kDedicated && ask.instances > 0) ask.milli_each = kWhole;
  if (job.limits.vram) ask.vram_each = job.limits.vram->count;
  if (job.limits.compute && ask.instances > 0) ask.milli_each = job.limits.compute->milli;
  return ask;
}

}  // namespace tranche::wire
