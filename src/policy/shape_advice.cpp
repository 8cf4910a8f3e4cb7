// SPDX-License-Identifier: Apache-2.0
#include "policy/shape_advice.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "wire/codec_impl.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/gpu_request.hpp"
#include "wire/partition_geometry.hpp"

namespace tranche::policy {
namespace {

using wire::GpuItem;
using wire::GpuModel;

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

ShapeAdvice advice(const GpuItem& item, std::int64_t vram, std::int64_t need, std::string how) {
  return {.gpus = text(item), .vram_bytes = vram, .unused_bytes = vram - need, .how = std::move(how)};
}

// The smallest share in steps of a twentieth, whole above nine tenths. Only of what the guard covers wherever
// it is: a card of another vendor is shared where its OpenCL driver is used, which the catalogue cannot know.
std::optional<ShapeAdvice> share_of(const GpuModel& model, std::int64_t need) {
  if (model.vendor != wire::GpuVendor::kNvidia) return std::nullopt;
  const std::int64_t milli = divide_up(divide_up(need * 1000, model.vram.count), 50) * 50;
  if (milli > 900) return std::nullopt;
  GpuItem item{.milli = static_cast<std::uint16_t>(milli), .model = std::string(model.short_name)};
  return advice(item, model.vram.count * milli / 1000, need, "a share, memory and compute alike");
}

std::optional<ShapeAdvice> whole(const GpuModel& model, std::int64_t need) {
  const std::int64_t count = divide_up(need, model.vram.count);
  if (count > 16) return std::nullopt;
  GpuItem item{.count_min = static_cast<std::uint32_t>(count),
               .count_max = static_cast<std::uint32_t>(count),
               .model = std::string(model.short_name)};
  return advice(item, model.vram.count * count, need, count == 1 ? "a whole device" : "spread over devices");
}

std::optional<ShapeAdvice> partition(const GpuModel& model, std::int64_t need) {
  const wire::PartitionGeometry* geometry = wire::find_geometry(model.name);
  if (geometry == nullptr) return std::nullopt;
  const wire::PartitionProfile* best = nullptr;
  for (const wire::PartitionProfile& profile : geometry->profiles) {
    const bool smaller = best == nullptr || profile.memory < best->memory ||
                         (profile.memory == best->memory && profile.compute_slices < best->compute_slices);
    if (!profile.media && profile.memory.count >= need && smaller) best = &profile;
  }
  if (best == nullptr || best->memory_slices == geometry->memory_slices) return std::nullopt;
  GpuItem item{.model = std::string(model.short_name), .profile = std::string(best->name)};
  return advice(item, best->memory.count, need, "a hardware partition");
}

void append_skus(std::vector<ShapeAdvice>& out, std::span<const wire::Sku> skus, std::int64_t need) {
  const wire::Sku* best = nullptr;
  for (const wire::Sku& sku : skus) {
    if (sku.vram_bytes >= need && (best == nullptr || sku.vram_bytes < best->vram_bytes)) best = &sku;
  }
  if (best == nullptr) return;
  out.push_back({.gpus = "sku " + best->name,
                 .vram_bytes = best->vram_bytes,
                 .unused_bytes = best->vram_bytes - need,
                 .how = "a shape of the operator's"});
}

}  // namespace

std::vector<ShapeAdvice> advise_shapes(const Sizing& sizing,
                                       std::span<const wire::Sku> skus,
                                       std::size_t most) {
  const std::int64_t need = sizing.recommended_bytes;
  std::vector<ShapeAdvice> found;
  if (sizing.devices > 1) {
    for (const GpuModel& model : wire::gpu_catalog()) {
      if (model.vram.count < need) continue;
      GpuItem item{
          .count_min = sizing.devices, .count_max = sizing.devices, .model = std::string(model.short_name)};
      found.push_back(
          advice(item, model.vram.count * sizing.devices, need * sizing.devices, "one part a device"));
    }
  } else {
    for (const GpuModel& model : wire::gpu_catalog()) {
      for (auto shape : {share_of(model, need), partition(model, need), whole(model, need)}) {
        if (shape) found.push_back(std::move(*shape));
      }
    }
  }
  // A whole device that is hardly used, and more devices than needed, go to the end by themselves.
  std::stable_sort(found.begin(), found.end(), [](const ShapeAdvice& a, const ShapeAdvice& b) {
    return a.unused_bytes != b.unused_bytes ? a.unused_bytes < b.unused_bytes : a.gpus < b.gpus;
  });
  std::vector<ShapeAdvice> out;
  const std::int64_t largest = 288'000'000'000;
  if (sizing.devices == 1 && need <= largest) {
    out.push_back(
        advice(GpuItem{.milli = 0, .vram = {need}}, need, need, "a slice of any device with that much free"));
  }
  append_skus(out, skus, need);
  for (ShapeAdvice& shape : found) {
    const bool known =
        std::any_of(out.begin(), out.end(), [&](const auto& other) { return other.gpus == shape.gpus; });
    if (out.size() < most && !known) out.push_back(std::move(shape));
  }
  return out;
}

}  // namespace tranche::policy

TRANCHE_WIRE_JSON(tranche::policy::SizeReport);
