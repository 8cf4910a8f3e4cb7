// SPDX-License-Identifier: Apache-2.0
#include "cli/size_options.hpp"

#include <charconv>

#include "base/text.hpp"
#include "cli/terminal.hpp"

namespace tranche::cli {
namespace {

constexpr std::int64_t kTokensMost = 100'000'000;
constexpr std::int64_t kCountMost = 1'000'000'000;

// 4096, 4k or 128k (of 1024) tokens.
std::uint32_t tokens(std::string_view option, std::string_view text) {
  std::int64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  const bool thousands = unit == "k" || unit == "K";
  const bool sane = parsed.ec == std::errc() && count >= 1 && (unit.empty() || thousands);
  if (!sane || count > kTokensMost / (thousands ? 1024 : 1)) {
    throw usage_failure(std::string(option) + " takes a number of tokens such as 4096 or 4k, not '" +
                        std::string(text) + "'");
  }
  return static_cast<std::uint32_t>(thousands ? count * 1024 : count);
}

// Zero and less are refused here: they would mean "not said" further on.
bool take(std::string_view option,
          const std::optional<std::int64_t>& given,
          std::uint32_t& out,
          int least = 1) {
  if (!given) return false;
  if (*given < least || *given > kCountMost)
    throw usage_failure(std::string(option) + " takes a number from " + std::to_string(least) + " on, not " +
                        std::to_string(*given));
  out = static_cast<std::uint32_t>(*given);
  return true;
}

bool take(std::string_view option, const std::optional<std::string>& given, std::uint32_t& out) {
  if (!given) return false;
  out = tokens(option, *given);
  return true;
}

}  // namespace

void add_model_options(const Command& command, SizeOptions& options) {
  command.add_option("--model", options.model, "A size such as 13b, or a known model such as llama-3-8b")
      .type_name("MODEL");
  command.add_option("--model-config", options.model_config, "A config.json of Hugging Face; - is stdin")
      .type_name("FILE");
  command.add_option("--precision", options.precision, "fp16, bf16, fp32, fp8, int8 or int4")
      .type_name("PRECISION");
  command.add_option("--context", options.context, "Tokens of a sequence, prompt and answer; else 4k")
      .type_name("TOKENS");
  command.add_option("--prompt", options.prompt, "Of them the prompt; else all but 2k, and at least half")
      .type_name("TOKENS");
  command.add_option("--users", options.users, "Sequences at once").type_name("COUNT");
  command.add_option("--devices", options.devices, "Devices that the model is spread over")
      .type_name("COUNT");
  command.add_option("--method", options.method, "Of fine-tuning: full, lora or qlora").type_name("METHOD");
  command.add_option("--rank", options.rank, "Of LoRA adapters; else 16").type_name("RANK");
  command.add_option("--sequence", options.sequence, "Tokens of a training sequence; else 2k")
      .type_name("TOKENS");
  command.add_option("--batch", options.batch, "Sequences in a step of one device").type_name("COUNT");
  command.add_option("--zero", options.zero, "ZeRO stage, 0 to 3").type_name("STAGE");
  command.add_flag("--keep-activations", options.keep_activations, "Do not checkpoint activations");
  command.add_flag("--adam-8bit", options.adam_8bit, "State of the optimiser in 8 bits");
}

void add_media_options(const Command& command, SizeOptions& options) {
  command.add_option("--resolution", options.resolution, "1080p, 4k, 8k or WIDTHxHEIGHT").type_name("SIZE");
  command.add_option("--seconds", options.seconds, "Of a video: costs time, not memory").type_name("COUNT");
  command.add_option("--samples", options.samples, "Of a pixel: cost time, not memory").type_name("COUNT");
  command.add_option("--streams", options.streams, "Videos at once").type_name("COUNT");
  command.add_option("--codec", options.codec, "Of a video: h264, hevc, hevc10, av1, av1-10")
      .type_name("CODEC");
  command.add_option("--scene", options.scene, "What a scene takes on the device; else 4GB")
      .type_name("SIZE");
}

bool apply_model(const SizeOptions& options, wire::ModelUse& model) {
  bool said = options.keep_activations || options.adam_8bit;
  if (options.model) model.name = *options.model;
  if (options.model_config) model.config = read_file_or_stdin(*options.model_config);
  if (options.precision) model.precision = enum_value<wire::Precision>("--precision", *options.precision);
  if (options.method) model.method = enum_value<wire::TuningMethod>("--method", *options.method);
  said = said || options.model || options.model_config || options.precision || options.method;
  said = take("--context", options.context, model.context) || said;
  said = take("--sequence", options.sequence, model.context) || said;
  said = take("--prompt", options.prompt, model.prompt) || said;
  said = take("--users", options.users, model.users) || said;
  said = take("--devices", options.devices, model.devices) || said;
  said = take("--rank", options.rank, model.rank) || said;
  said = take("--batch", options.batch, model.batch) || said;
  said = take("--zero", options.zero, model.zero, 0) || said;
  if (model.zero > 3)
    throw usage_failure("--zero takes a stage from 0 to 3, not " + std::to_string(model.zero));
  if (options.keep_activations) model.keep_activations = true;
  if (options.adam_8bit) model.adam_8bit = true;
  return said;
}

bool apply_media(const SizeOptions& options, wire::MediaUse& media) {
  bool said = options.resolution || options.codec || options.scene;
  if (options.resolution) media.resolution = *options.resolution;
  if (options.codec) media.codec = *options.codec;
  if (options.scene) {
    const auto scene = parse_bytes(*options.scene);
    if (!scene || scene->count <= 0 || *scene > gigabytes(100'000))
      throw usage_failure("--scene takes a size such as 6GB, not '" + *options.scene + "'");
    media.scene = *scene;
  }
  said = take("--seconds", options.seconds, media.seconds) || said;
  said = take("--samples", options.samples, media.samples) || said;
  return take("--streams", options.streams, media.streams) || said;
}

wire::UnitRange frames_of(const std::string& text) {
  std::string range = text;
  if (const auto dash = range.find('-'); dash != std::string::npos && dash > 0) range.replace(dash, 1, "..");
  const auto parsed = wire::TextForm<wire::UnitRange>::parse(range);
  if (!parsed) throw usage_failure("--frames " + parsed.error() + "; it was '" + text + "'");
  return *parsed;
}

}  // namespace tranche::cli
