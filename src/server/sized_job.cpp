// SPDX-License-Identifier: Apache-2.0
#include "server/sized_job.hpp"

#include "policy/sizing_ask.hpp"

namespace tranche::server {
namespace {

constexpr std::uint32_t kDevicesMost = 16;

// On one device; where none is large enough and the job does not say how many, on two, four, and so on.
Result<wire::Sizing, wire::Problem> sizing_of(policy::SizingAsk ask, bool may_spread, std::int64_t largest) {
  for (;;) {
    auto sizing = policy::size_workload(ask);
    if (!sizing) return refuse(wire::Problem{ask.model ? "model" : "media", sizing.error(), {}});
    if (sizing->recommended_bytes <= largest || !may_spread || ask.devices * 2 > kDevicesMost)
      return std::move(*sizing);
    ask.devices *= 2;
    // What fine-tuning and training share out: everything that can be.
    if (ask.kind != wire::WorkloadKind::kInference && ask.zero_stage == 0) ask.zero_stage = 3;
  }
}

void note_small_shape(const wire::JobSpec& job, wire::Sizing& sizing) {
  if (job.resources.gpus.items.empty()) return;
  const wire::GpuItem& item = job.resources.gpus.items.front();
  const wire::GpuModel* model = item.model.empty() ? nullptr : wire::find_gpu_model(item.model);
  const std::int64_t whole = model == nullptr ? 0 : model->vram.count * item.milli / 1000;
  const std::int64_t each = item.vram.count > 0 ? item.vram.count : whole;
  if (each > 0 && each * item.count_min < sizing.vram_bytes * sizing.devices)
    sizing.notes.push_back(wire::text(job.resources.gpus) + " has less memory than that: it will not fit.");
}

}  // namespace

Result<std::optional<wire::Sizing>, wire::Problem> size_job(wire::JobSpec& job, std::int64_t largest_vram) {
  const policy::Workload workload{.kind = job.kind,
                                  .model = job.model ? &*job.model : nullptr,
                                  .media = job.media ? &*job.media : nullptr};
  if (!policy::describes_its_size(workload)) return std::optional<wire::Sizing>{};
  const auto ask = policy::sizing_ask(workload);
  const bool given = !job.resources.gpus.items.empty() || !job.sku.empty();
  if (!ask) {
    // A model that only rules know by name is no mistake where the shape is given.
    if (given && job.model && job.model->config.empty()) return std::optional<wire::Sizing>{};
    return refuse(ask.error());
  }
  const bool may_spread = job.model && job.model->devices == 0 && !given;
  auto sizing = sizing_of(*ask, may_spread, largest_vram);
  if (!sizing) return refuse(sizing.error());
  if (job.model && !job.model->config.empty()) {  // What it says is known now, and every copy would cost.
    job.model->parameters = sizing->parameters;
    if (job.model->name.empty() && ask->model) job.model->name = ask->model->name;
    job.model->config.clear();
  }
  if (given) {
    note_small_shape(job, *sizing);
  } else {
    job.resources.gpus.items = {wire::GpuItem{.milli = 0,
                                              .count_min = sizing->devices,
                                              .count_max = sizing->devices,
                                              .vram = Bytes{sizing->recommended_bytes}}};
  }
  return std::optional<wire::Sizing>(std::move(*sizing));
}

}  // namespace tranche::server
