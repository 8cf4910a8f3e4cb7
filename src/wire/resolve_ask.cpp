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

struct Devices {  // What a share of a device that is not named means.
  std::int64_t reference = 0;
  std::int64_t smallest = 0;
};

void take_gpus(Ask& ask, const GpuItem& item, const Devices& known) {
  const GpuModel* model = item.model.empty() ? nullptr : find_gpu_model(item.model);
  if (model != nullptr) ask.model = model->name;
  std::int64_t device = model == nullptr ? known.reference : model->vram.count;
  std::int64_t shared = model == nullptr ? std::min(device, known.smallest) : device;
  if (model == nullptr && item.memory_min.count > 0) shared = device = item.memory_min.count;
  const auto vram_of = [&](std::int64_t vram, std::int64_t milli) {
    return vram > 0 ? vram : shared * milli / kWhole;
  };
  const auto milli_of = [&](std::uint32_t milli, std::int64_t vram) {
    return milli == 0 ? milli_for(vram, device) : milli;
  };
  ask.milli_each = milli_of(item.milli, item.vram.count);
  ask.vram_each = vram_of(item.vram.count, item.milli);
  if (item.milli_max > 0 || item.vram_max.count > 0) {
    const std::int64_t vram_max = item.vram_max.count > 0 ? item.vram_max.count : item.vram.count;
    const std::uint32_t milli_max = item.milli_max > 0 ? item.milli_max : item.milli;
    ask.range = SliceRange{.milli_min = ask.milli_each,
                           .milli_max = std::max(milli_of(milli_max, vram_max), ask.milli_each),
                           .vram_min = ask.vram_each,
                           .vram_max = std::max(vram_of(vram_max, milli_max), ask.vram_each)};
  }
  if (!item.profile.empty()) take_profile(ask, item, model);
}

DeviceWish wish_of(const GpuRequest& request) {
  const GpuItem& first = request.items.front();
  DeviceWish wish{
      .vendor = first.vendor, .memory_min = first.memory_min.count, .memory_max = first.memory_max.count};
  if (request.items.size() == 1) return wish;
  wish.in_order = request.order == GpuOrder::kOrdered;
  for (const GpuItem& item : request.items) {
    const GpuModel* model = item.model.empty() ? nullptr : find_gpu_model(item.model);
    wish.models.emplace_back(model == nullptr ? std::string_view(item.model) : model->name);
  }
  return wish;
}

// Alternatives differ in the model alone: quota and price are of one shape.
std::optional<Problem> alternatives_problem(const GpuRequest& request) {
  GpuItem first = request.items.front();
  for (const GpuItem& item : request.items) {
    GpuItem same = item;
    same.model = first.model;
    const bool by_model = request.items.size() == 1 || !item.model.empty();
    if (same == first && by_model) continue;
    return Problem{"resources.gpus",
                   text(item) + " and " + text(request.items.front()) +
                       " are not alternatives: they may differ in the model alone",
                   "ask for the same number and share of each, such as [L4:2, A100:2]"};
  }
  return std::nullopt;
}

// The least memory that any of the alternatives gives a share of itself.
void take_alternatives(Ask& ask, const GpuRequest& request, const Devices& known) {
  take_gpus(ask, request.items.front(), known);
  for (std::size_t i = 1; i < request.items.size(); ++i) {
    Ask other = ask;
    take_gpus(other, request.items[i], known);
    if (other.vram_each >= ask.vram_each) continue;
    ask.vram_each = other.vram_each;
    ask.range = other.range;
  }
  const DeviceWish wish = wish_of(request);
  if (wish != DeviceWish{}) ask.wish = wish;
}

// A whole device brings all it has: one of any model must have as much as was asked for.
void bound_whole_device(Ask& ask, const GpuItem& item) {
  const bool is_whole = ask.isolation != Isolation::kSoft || ask.milli_each >= kWhole;
  if (!is_whole || !item.model.empty() || item.vram.count == 0) return;
  if (!ask.wish) ask.wish.emplace();
  ask.wish->memory_min = std::max(ask.wish->memory_min, item.vram.count);
}

std::optional<Problem> range_problem(const JobSpec& job, const Ask& ask) {
  if (!ask.range) return std::nullopt;
  const bool soft = ask.isolation == Isolation::kSoft;
  if (soft && ask.nodes == 1 && ask.nodes_max == 0 && !job.limits.vram && !job.limits.compute)
    return std::nullopt;
  return Problem{"resources.gpus",
                 "a slice with a range is of one soft job on one node, and has no other limits",
                 "ask for a fixed share, such as 0.5"};
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
  ask.topology = job.resources.topology;
  ask.whole_node = job.resources.whole_node;
  ask.never_paused = !job.pause;
  ask.may_burst = job.burst != Burst::kNever;
  if (job.limits.price_per_hour) ask.price_per_hour = *job.limits.price_per_hour;
  if (job.limits.idle) ask.idle = *job.limits.idle;
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
  ask.isolation = isolation != Isolation::kDefault ? isolation
                  : ask.whole_node                 ? Isolation::kDedicated
                                                   : Isolation::kSoft;
  if (!job.sku.empty()) {
    const auto sku = skus.find(job.sku);
    if (sku == skus.end())
      return refuse(Problem{"sku", "there is no SKU '" + job.sku + "'", "tranche sku list"});
    ask.instances = ask.nodes;
    ask.milli_each = static_cast<std::uint32_t>(sku->second.gpu_milli);
    ask.vram_each = sku->second.vram_bytes;
    ask.gpus = job.sku;
  } else if (!job.resources.gpus.items.empty()) {
    if (auto problem = alternatives_problem(job.resources.gpus)) return refuse(std::move(*problem));
    take_alternatives(ask, job.resources.gpus, {settings.reference_vram_bytes, smallest_vram});
    ask.instances = job.resources.gpus.items.front().count_min * ask.nodes;
    ask.gpus = text(job.resources.gpus);
    bound_whole_device(ask, job.resources.gpus.items.front());
  }
  if (auto problem = range_problem(job, ask)) return refuse(std::move(*problem));
  if (ask.isolation == Isolation::kDedicated && ask.instances > 0) ask.milli_each = kWhole;
  if (job.limits.vram) ask.vram_each = job.limits.vram->count;
  if (job.limits.compute && ask.instances > 0) ask.milli_each = job.limits.compute->milli;
  return ask;
}

}  // namespace tranche::wire
