// SPDX-License-Identifier: Apache-2.0
#include "policy/sizing_ask.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace tranche::policy {
namespace {

using wire::WorkloadKind;

bool is_of_pictures(WorkloadKind kind) {
  return kind == WorkloadKind::kRender || kind == WorkloadKind::kVideo;
}
bool is_of_a_model(WorkloadKind kind) {
  return kind == WorkloadKind::kInference || kind == WorkloadKind::kFinetune ||
         kind == WorkloadKind::kTraining;
}

struct Resolution {
  std::string_view name;
  std::int64_t width = 0;
  std::int64_t height = 0;
};
constexpr std::array kResolutions{Resolution{"720p", 1280, 720},
                                  Resolution{"1080p", 1920, 1080},
                                  Resolution{"1440p", 2560, 1440},
                                  Resolution{"2k", 2048, 1080},
                                  Resolution{"4k", 3840, 2160},
                                  Resolution{"2160p", 3840, 2160},
                                  Resolution{"8k", 7680, 4320}};

bool take_resolution(SizingAsk& ask, std::string_view name) {
  const auto known = std::find_if(
      kResolutions.begin(), kResolutions.end(), [&](const auto& one) { return one.name == name; });
  if (known != kResolutions.end()) {
    ask.width = known->width;
    ask.height = known->height;
    return true;
  }
  const char* const end = name.data() + name.size();
  const auto width = std::from_chars(name.data(), end, ask.width);
  if (width.ec != std::errc() || width.ptr == end || *width.ptr != 'x') return false;
  const auto height = std::from_chars(width.ptr + 1, end, ask.height);
  return height.ec == std::errc() && height.ptr == end && ask.width > 0 && ask.height > 0;
}

Result<LanguageModel, wire::Problem> model_of(const wire::ModelUse& use) {
  auto model = use.config.empty() ? find_model(use.name) : model_from_config(use.config);
  if (!model && use.parameters > 0) {
    const std::string millions = std::to_string(1000 + use.parameters / 1'000'000 % 1000).substr(1);
    model = find_model(std::to_string(use.parameters / 1'000'000'000) + "." + millions + "b");
  }
  if (!model) return refuse(wire::Problem{use.config.empty() ? "model" : "model.config", model.error(), {}});
  return std::move(*model);
}

Result<SizingAsk, wire::Problem> of_pictures(const Workload& workload) {
  SizingAsk ask{.kind = workload.kind};
  if (workload.media == nullptr) return ask;
  const wire::MediaUse& use = *workload.media;
  if (use.width > 0) ask.width = use.width;
  if (use.height > 0) ask.height = use.height;
  if (!use.resolution.empty() && !take_resolution(ask, use.resolution))
    return refuse(
        wire::Problem{"media.resolution",
                      "takes 720p, 1080p, 4k, 8k or such as 1920x1080, not '" + use.resolution + "'",
                      "4k"});
  static constexpr std::array<std::string_view, 7> kCodecs{
      "h264", "hevc", "hevc10", "h265", "h265-10", "av1", "av1-10"};
  if (!use.codec.empty() && std::find(kCodecs.begin(), kCodecs.end(), use.codec) == kCodecs.end())
    return refuse(wire::Problem{
        "media.codec",
        "the codec is one of h264, hevc (h265), hevc10, av1 and av1-10, not '" + use.codec + "'",
        "hevc"});
  ask.bits = use.codec.find("10") == std::string::npos ? 8 : 10;
  ask.frames = use.frames;
  ask.samples = use.samples;
  if (use.streams > 0) ask.streams = use.streams;
  if (use.scene.count > 0) ask.scene = use.scene;
  return ask;
}

Result<SizingAsk, wire::Problem> of_a_model(const Workload& workload) {
  SizingAsk ask{.kind = workload.kind};
  if (workload.model == nullptr) return ask;
  const wire::ModelUse& use = *workload.model;
  auto model = model_of(use);
  if (!model) return refuse(model.error());
  ask.model = std::move(*model);
  ask.precision = use.precision;
  ask.method = use.method;
  if (use.devices > 0) ask.devices = use.devices;
  if (use.context > 0) ask.context = ask.sequence = use.context;
  ask.prompt = use.prompt;
  if (use.users > 0) ask.users = use.users;
  if (use.batch > 0) ask.batch = use.batch;
  if (use.rank > 0) ask.rank = use.rank;
  ask.zero_stage = static_cast<std::int32_t>(use.zero);
  ask.keep_activations = use.keep_activations;
  ask.eight_bit_adam = use.adam_8bit;
  return ask;
}

}  // namespace

bool describes_its_size(const Workload& workload) {
  if (is_of_pictures(workload.kind)) return workload.media != nullptr;
  return is_of_a_model(workload.kind) && workload.model != nullptr;
}

Result<SizingAsk, wire::Problem> sizing_ask(const Workload& workload) {
  if (is_of_pictures(workload.kind)) return of_pictures(workload);
  if (is_of_a_model(workload.kind)) return of_a_model(workload);
  return refuse(wire::Problem{
      "kind", "the size of such work is not known", "inference, finetune, training, render or video"});
}

}  // namespace tranche::policy
