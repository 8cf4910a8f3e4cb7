// SPDX-License-Identifier: Apache-2.0
#include "policy/sizing.hpp"

#include <algorithm>
#include <array>

#include "wire/fields.hpp"

namespace tranche::policy {
namespace {

using wire::Precision;
using wire::TuningMethod;
using wire::WorkloadKind;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kInferenceRuntime =
    307 * kMiB;  // 0.3 GiB: what a process holds before it does anything.
constexpr std::int64_t kTrainingRuntime = 1536 * kMiB;  // 1 to 2 GiB with its libraries' work space.
constexpr std::int64_t kSplitBuffer = 512 * kMiB;       // For talk between devices, on each; not calibrated.
constexpr std::int64_t kMediaRuntime = 512 * kMiB;
constexpr std::int64_t kTokensMax = 100'000'000;
constexpr std::int64_t kPixelsMax = 1'000'000'000;

// Adds up parts, and divides those that are spread over devices.
class Sum {
 public:
  explicit Sum(std::int64_t devices) : devices_(devices) {}
  void add(std::string name, std::int64_t bytes, std::string how, bool spread = false) {
    if (bytes <= 0) return;
    if (spread && devices_ > 1) {
      bytes = (bytes + devices_ - 1) / devices_;
      how += " / " + std::to_string(devices_) + " devices";
    }
    total_ += bytes;
    parts_.push_back({.name = std::move(name), .bytes = bytes, .how = std::move(how)});
  }
  [[nodiscard]] std::int64_t devices() const { return devices_; }
  Sizing take(std::string workload) {
    Sizing sizing;
    sizing.workload = std::move(workload);
    sizing.vram_bytes = total_;
    const std::int64_t spare = total_ + total_ / 10;
    sizing.recommended_bytes = (spare + 999'999'999) / 1'000'000'000 * 1'000'000'000;
    sizing.devices = static_cast<std::uint32_t>(devices_);
    sizing.parts = std::move(parts_);
    return sizing;
  }

 private:
  std::int64_t devices_;
  std::int64_t total_ = 0;
  std::vector<SizingPart> parts_;
};

struct Quantised {
  std::int64_t body = 0;  // The matrices at their few bits.
  std::int64_t scales = 0;
  std::int64_t embeddings = 0;  // In 16 bits.
};
constexpr std::int64_t kGroup = 128;  // Weights that share a scale.

// Scales of 16 bits and zero points of the weights' own width for every group.
Quantised quantised(const LanguageModel& model, std::int64_t bits) {
  const std::int64_t embeddings = embedding_parameters(model);
  const std::int64_t body = std::max<std::int64_t>(0, parameters(model) - embeddings);
  return {.body = body * bits / 8, .scales = body / kGroup * (16 + bits) / 8, .embeddings = embeddings * 2};
}

std::optional<std::int64_t> quantised_bits(Precision precision) {
  if (precision == Precision::kInt8) return 8;
  if (precision == Precision::kInt4) return 4;
  return std::nullopt;
}
std::int64_t whole_bytes(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 4;
    case Precision::kFp8:
    case Precision::kInt8:
    case Precision::kInt4:
      return 1;
    case Precision::kFp16:
    case Precision::kBf16:
      break;
  }
  return 2;
}

std::string times(std::int64_t count, std::string_view what, std::string_view each) {
  return with_commas(count) + " " + std::string(what) + " x " + std::string(each);
}

void add_weights(Sum& sum, const LanguageModel& model, Precision precision) {
  if (const auto bits = quantised_bits(precision)) {
    const Quantised parts = quantised(model, *bits);
    sum.add("weights",
            parts.body,
            times(parts.body * 8 / *bits, "parameters", std::to_string(*bits) + " bits"),
            true);
    sum.add("scales", parts.scales, "16 bits and a zero point for every 128 weights", true);
    sum.add("embeddings and head", parts.embeddings, "stay in 16 bits when the rest is quantised", true);
    return;
  }
  const std::int64_t each = whole_bytes(precision);
  sum.add("weights",
          parameters(model) * each,
          times(parameters(model), "parameters", std::to_string(each) + " B"),
          true);
}

std::int64_t prompt_tokens(const SizingAsk& ask) {
  if (ask.prompt > 0) return ask.prompt;
  return ask.context - std::min<std::int64_t>(2048, ask.context / 2);
}

std::string workload_name(std::string_view verb, const SizingAsk& ask) {
  return std::string(verb) + " " + ask.model->name + " (" + std::string(wire::name_of(ask.precision)) + ")";
}

Sizing size_inference(const SizingAsk& ask) {
  const LanguageModel& model = *ask.model;
  Sum sum(ask.devices);
  add_weights(sum, model, ask.precision);
  const std::int64_t per_token = kv_bytes_per_token(model, ask.precision == Precision::kFp32 ? 4 : 2);
  sum.add("key-value cache",
          per_token * ask.context * ask.users,
          with_commas(ask.users) + " sequences x " + with_commas(ask.context) + " tokens x " +
              std::to_string(per_token / 1024) + " KiB",
          true);
  const std::int64_t prompt = prompt_tokens(ask);
  const std::int64_t width = 3 * model.feed_forward + 4 * model.hidden;
  sum.add("activation of a prompt",
          prompt * width * 2,
          with_commas(prompt) + " tokens x (3 x " + with_commas(model.feed_forward) + " + 4 x " +
              with_commas(model.hidden) + ") x 2 B");
  sum.add("runtime", kInferenceRuntime, "0.3 GiB for a process on the device");
  if (ask.devices > 1) sum.add("communication", kSplitBuffer, "0.5 GiB, an allowance");
  Sizing sizing = sum.take(workload_name("inference of", ask));
  sizing.notes.emplace_back("One prompt is read at a time, as serving engines do; others wait in the cache.");
  sizing.notes.emplace_back("CUDA graphs, where used, take about 0.5 GiB more: within what is recommended.");
  return sizing;
}

// Bytes a parameter for weights, gradients and optimiser of full training.
struct StateBytes {
  std::int64_t weights = 2;
  std::int64_t gradients = 2;
  std::int64_t optimiser = 12;
};
StateBytes state_bytes(const SizingAsk& ask) {
  StateBytes bytes;
  if (ask.precision == Precision::kFp32) bytes = {.weights = 4, .gradients = 4, .optimiser = 8};
  if (ask.eight_bit_adam) bytes.optimiser = 2;
  return bytes;
}

std::int64_t divided(std::int64_t bytes, const SizingAsk& ask, std::int32_t from_stage) {
  return ask.zero_stage >= from_stage && ask.devices > 1 ? (bytes + ask.devices - 1) / ask.devices : bytes;
}
std::string divided_text(const SizingAsk& ask, std::int32_t from_stage) {
  return ask.zero_stage >= from_stage && ask.devices > 1 ? " / " + std::to_string(ask.devices) + " devices"
                                                         : "";
}

void add_full_states(Sum& sum, const SizingAsk& ask) {
  const std::int64_t count = parameters(*ask.model);
  const StateBytes bytes = state_bytes(ask);
  const auto add = [&](const char* name, std::int64_t each, std::int32_t stage) {
    sum.add(name,
            divided(count * each, ask, stage),
            times(count, "parameters", std::to_string(each) + " B") + divided_text(ask, stage));
  };
  add("weights", bytes.weights, 3);
  add("gradients", bytes.gradients, 2);
  add("optimiser", bytes.optimiser, 1);
}

void add_adapter_states(Sum& sum, const SizingAsk& ask) {
  const LanguageModel& model = *ask.model;
  if (ask.method == TuningMethod::kQlora) {
    const std::int64_t embeddings = embedding_parameters(model);
    const std::int64_t body = std::max<std::int64_t>(0, parameters(model) - embeddings);
    sum.add("frozen weights",
            body / 2 + body / 2 * 6 / 100,
            times(body, "parameters", "4 bits, and 6 % for scales"));
    sum.add("embeddings and head", embeddings * 2, times(embeddings, "parameters", "2 B"));
  } else {
    const std::int64_t each = whole_bytes(ask.precision);
    sum.add("frozen weights",
            parameters(model) * each,
            times(parameters(model), "parameters", std::to_string(each) + " B"));
  }
  const std::int64_t adapters = ask.rank * adapted_width(model);
  sum.add(
      "adapters", 16 * adapters, times(adapters, "parameters of rank " + std::to_string(ask.rank), "16 B"));
}

Sizing size_training(const SizingAsk& ask) {
  const LanguageModel& model = *ask.model;
  Sum sum(ask.devices);
  ask.method == TuningMethod::kFull ? add_full_states(sum, ask) : add_adapter_states(sum, ask);
  const std::int64_t tokens = ask.sequence * ask.batch;
  const std::int64_t layer = 34 * tokens * model.hidden;
  if (ask.keep_activations) {
    sum.add("activations",
            layer * model.layers,
            std::to_string(model.layers) + " layers x 34 x " + with_commas(tokens) + " tokens x " +
                with_commas(model.hidden));
  } else {
    sum.add("activations",
            2 * tokens * model.hidden * model.layers + layer,
            "checkpoints of " + std::to_string(model.layers) + " layers, 2 B x " + with_commas(tokens) +
                " tokens x " + with_commas(model.hidden) + ", and one layer in full");
  }
  sum.add("logits",
          tokens * model.vocabulary * 4,
          with_commas(tokens) + " tokens x " + with_commas(model.vocabulary) + " words x 4 B");
  sum.add("runtime", kTrainingRuntime, "1.5 GiB for process and libraries");
  const std::string method =
      ask.method == TuningMethod::kFull ? "" : std::string(wire::name_of(ask.method)) + " ";
  Sizing sizing = sum.take(
      workload_name(ask.kind == WorkloadKind::kTraining ? "training of" : method + "fine-tuning of", ask));
  if (ask.devices > 1 && ask.zero_stage == 0) {
    sizing.notes.emplace_back("Each device holds everything: give a ZeRO stage to divide it.");
  }
  return sizing;
}

Sizing size_render(const SizingAsk& ask) {
  const std::int64_t pixels = ask.width * ask.height;
  Sum sum(1);
  sum.add(
      "scene", ask.scene.count, "geometry, textures and their acceleration structure, as given or assumed");
  sum.add("picture", pixels * 16 * 8, with_commas(pixels) + " pixels x 8 passes x 16 B");
  sum.add("denoiser", pixels * 16 * 12, with_commas(pixels) + " pixels x 12 buffers x 16 B");
  sum.add("runtime", kMediaRuntime, "0.5 GiB");
  Sizing sizing = sum.take("render at " + std::to_string(ask.width) + " x " + std::to_string(ask.height));
  sizing.notes.emplace_back("Samples and frames cost time, not memory.");
  sizing.notes.emplace_back("Not calibrated against measurements: the scene decides.");
  return sizing;
}

Sizing size_video(const SizingAsk& ask) {
  const std::int64_t pixels = ask.width * ask.height;
  const std::int64_t surface = pixels * 3 / 2 * (ask.bits > 8 ? 2 : 1);
  Sum sum(1);
  const std::string streams = with_commas(ask.streams) + " streams x ";
  sum.add("decoder", ask.streams * surface * 20, streams + "20 pictures x " + with_commas(surface) + " B");
  sum.add("encoder", ask.streams * surface * 24, streams + "24 pictures x " + with_commas(surface) + " B");
  sum.add("filters",
          ask.streams * pixels * 8 * 6,
          streams + "6 pictures x " + with_commas(pixels) + " pixels x 8 B");
  sum.add("runtime", kMediaRuntime, "0.5 GiB");
  Sizing sizing = sum.take("video at " + std::to_string(ask.width) + " x " + std::to_string(ask.height));
  sizing.notes.emplace_back("Frames and seconds cost time, not memory.");
  sizing.notes.emplace_back("Not calibrated against measurements.");
  return sizing;
}

std::optional<std::string> problem_with(const SizingAsk& ask) {
  const auto tokens = [](std::int64_t value) { return value >= 1 && value <= kTokensMax; };
  if (ask.devices < 1 || ask.devices > 100'000) return "devices must be between 1 and 100000";
  if (!tokens(ask.context) || !tokens(ask.sequence)) return "a sequence has between 1 and 100000000 tokens";
  if (ask.prompt > ask.context) return "the prompt is longer than the context";
  if (ask.users < 1 || ask.users > 1'000'000) return "users must be between 1 and 1000000";
  if (ask.context * ask.users > kTokensMax * 100) return "so many tokens at once fit nowhere";
  if (ask.batch < 1 || ask.batch > 1'000'000 || ask.sequence * ask.batch > kTokensMax)
    return "the batch is too large";
  if (ask.rank < 1 || ask.rank > 65'536) return "rank must be between 1 and 65536";
  if (ask.zero_stage < 0 || ask.zero_stage > 3) return "ZeRO has the stages 0 to 3";
  if (ask.width < 1 || ask.height < 1 || ask.width > kPixelsMax / ask.height)
    return "the picture is too large";
  if (ask.streams < 1 || ask.streams > 10'000) return "streams must be between 1 and 10000";
  return std::nullopt;
}

}  // namespace

std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3 + (number < 0 ? 1U : 0U);) digits.insert(at -= 3, ",");
  return digits;
}

std::int64_t weight_bytes(const LanguageModel& model, Precision precision) {
  if (const auto bits = quantised_bits(precision)) {
    const Quantised parts = quantised(model, *bits);
    return parts.body + parts.scales + parts.embeddings;
  }
  return parameters(model) * whole_bytes(precision);
}

Result<Sizing, std::string> size_workload(const SizingAsk& ask) {
  if (auto problem = problem_with(ask)) return refuse(std::move(*problem));
  if (ask.kind == WorkloadKind::kRender) return size_render(ask);
  if (ask.kind == WorkloadKind::kVideo) return size_video(ask);
  const bool trains = ask.kind == WorkloadKind::kFinetune || ask.kind == WorkloadKind::kTraining;
  if (ask.kind != WorkloadKind::kInference && !trains) {
    return refuse("there is no arithmetic for " + std::string(wire::name_of(ask.kind)) +
                  " work: ask for memory outright, such as 10GB");
  }
  if (!ask.model)
    return refuse(std::string("a model is needed: a size such as 13b, a name, or a config.json"));
  Sizing sizing = trains ? size_training(ask) : size_inference(ask);
  sizing.parameters = parameters(*ask.model);
  if (!ask.model->estimated_from.empty()) {
    sizing.notes.push_back("The shape is scaled from " + ask.model->estimated_from +
                           ": a config.json is more exact.");
  }
  return sizing;
}

}  // namespace tranche::policy
