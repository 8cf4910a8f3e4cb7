// SPDX-License-Identifier: Apache-2.0
// `tranche size`: how much VRAM a workload needs, with the arithmetic, and which shapes would hold it. Needs
// no server.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "app/commands.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "policy/shape_advice.hpp"
#include "policy/sizing.hpp"
#include "wire/codec.hpp"

namespace tranche::app {
namespace {

using cli::Align;
using cli::Session;
using cli::Table;
using cli::usage_failure;
using policy::SizeReport;
using policy::SizingAsk;

struct SizeFlags {
  SizingAsk ask{};
  std::string kind = "inference";
  std::string model{};
  std::string config{};
  std::string precision = "fp16";
  std::string context{};
  std::string prompt{};
  std::string sequence{};
  std::string method = "full";
  std::string resolution{};
  std::string scene{};
  std::string codec{};
  std::int64_t seconds = 0;
};

// 4096, 4k or 128k (of 1024) tokens.
std::int64_t tokens(std::string_view option, std::string_view text) {
  std::int64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  const bool thousands = unit == "k" || unit == "K";
  if (parsed.ec != std::errc() || count < 1 || count > 100'000'000 || (!unit.empty() && !thousands)) {
    throw usage_failure(std::string(option) + " takes a number of tokens such as 4096 or 4k, not '" +
                        std::string(text) + "'");
  }
  return thousands ? count * 1024 : count;
}

void take_resolution(SizingAsk& ask, const std::string& name) {
  static const std::map<std::string, std::pair<std::int64_t, std::int64_t>> known{{"720p", {1280, 720}},
                                                                                  {"1080p", {1920, 1080}},
                                                                                  {"1440p", {2560, 1440}},
                                                                                  {"2k", {2048, 1080}},
                                                                                  {"4k", {3840, 2160}},
                                                                                  {"2160p", {3840, 2160}},
                                                                                  {"8k", {7680, 4320}}};
  if (const auto at = known.find(name); at != known.end()) {
    std::tie(ask.width, ask.height) = at->second;
    return;
  }
  const char* const end = name.data() + name.size();
  const auto width = std::from_chars(name.data(), end, ask.width);
  const bool crossed = width.ec == std::errc() && width.ptr != end && *width.ptr == 'x';
  const auto height = crossed ? std::from_chars(width.ptr + 1, end, ask.height) : width;
  if (!crossed || height.ec != std::errc() || height.ptr != end) {
    throw usage_failure("--resolution takes 1080p, 4k, 8k or such as 1920x1080, not '" + name + "'");
  }
}

SizingAsk ask_from(const SizeFlags& flags) {
  SizingAsk ask = flags.ask;
  ask.kind = cli::enum_value<wire::WorkloadKind>("--kind", flags.kind);
  ask.precision = cli::enum_value<wire::Precision>("--precision", flags.precision);
  ask.method = cli::enum_value<wire::TuningMethod>("--method", flags.method);
  if (!flags.context.empty()) ask.context = tokens("--context", flags.context);
  if (!flags.prompt.empty()) ask.prompt = tokens("--prompt", flags.prompt);
  if (!flags.sequence.empty()) ask.sequence = tokens("--sequence", flags.sequence);
  if (!flags.resolution.empty()) take_resolution(ask, flags.resolution);
  if (flags.codec.find("10") != std::string::npos) ask.bits = 10;
  if (!flags.scene.empty()) {
    const auto scene = parse_bytes(flags.scene);
    if (!scene || scene->count < 0 || *scene > gigabytes(100'000)) {
      throw usage_failure("--scene takes a size such as 6GB, not '" + flags.scene + "'");
    }
    ask.scene = *scene;
  }
  if (flags.model.empty() && flags.config.empty()) return ask;
  auto model = flags.config.empty() ? policy::find_model(flags.model)
                                    : policy::model_from_config(cli::read_file_or_stdin(flags.config));
  if (!model) throw usage_failure(model.error());
  ask.model = std::move(*model);
  return ask;
}

std::string in_gigabytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

Table parts_table(const SizeReport& report) {
  Table table({{"PART"}, {"SIZE", Align::kRight}, {"HOW"}});
  for (const auto& part : report.parts) table.add({part.name, in_gigabytes(part.bytes), part.how});
  return table;
}

std::string report_text(const SizeReport& report) {
  Table shapes({{"--gpus"}, {"VRAM", Align::kRight}, {"UNUSED", Align::kRight}, {"WHAT"}});
  for (const auto& shape : report.shapes) {
    shapes.add({shape.gpus, in_gigabytes(shape.vram_bytes), in_gigabytes(shape.unused_bytes), shape.how});
  }
  std::string out = report.workload + " needs " + in_gigabytes(report.vram_bytes);
  if (report.devices > 1) out += " on each of " + std::to_string(report.devices) + " devices";
  out += "; ask for " + in_gigabytes(report.recommended_bytes) + "\n\n";
  out += parts_table(report).text() + "\n" + shapes.text();
  for (const std::string& note : report.notes) out += "\n" + note;
  return report.notes.empty() ? out : out + "\n";
}

void run(Session& session, const SizeFlags& flags) {
  auto sizing = policy::size_workload(ask_from(flags));
  if (!sizing) throw usage_failure(sizing.error());
  SizeReport report;
  static_cast<policy::Sizing&>(report) = std::move(*sizing);
  report.shapes = policy::advise_shapes(report, {});
  const auto names = [&] {
    std::string lines;
    for (const auto& shape : report.shapes) lines += shape.gpus + "\n";
    return lines;
  };
  session.print(wire::to_json(report),
                {.table = [&] { return parts_table(report); },
                 .text = [&] { return report_text(report); },
                 .names = names});
}

void add_model_options(CLI::App& size, SizeFlags& flags) {
  size.add_option("--model", flags.model, "A size such as 13b, or a known model such as llama-3-8b");
  size.add_option("--model-config", flags.config, "A config.json of Hugging Face; - is stdin")
      ->type_name("FILE");
  size.add_option("--precision", flags.precision, "fp16, bf16, fp32, fp8, int8 or int4");
  size.add_option("--context", flags.context, "Tokens of a sequence, prompt and answer; else 4k");
  size.add_option("--prompt", flags.prompt, "Of them the prompt; else all but 2k, and at least half");
  size.add_option("--users", flags.ask.users, "Sequences at once");
  size.add_option("--devices", flags.ask.devices, "Devices that the model is spread over");
  size.add_option("--method", flags.method, "Of fine-tuning: full, lora or qlora");
  size.add_option("--rank", flags.ask.rank, "Of LoRA adapters; else 16");
  size.add_option("--sequence", flags.sequence, "Tokens of a training sequence; else 2k");
  size.add_option("--batch", flags.ask.batch, "Sequences in a step of one device");
  size.add_option("--zero", flags.ask.zero_stage, "ZeRO stage, 0 to 3");
  size.add_flag("--keep-activations", flags.ask.keep_activations, "Do not checkpoint activations");
  size.add_flag("--adam-8bit", flags.ask.eight_bit_adam, "State of the optimiser in 8 bits");
}

void add_media_options(CLI::App& size, SizeFlags& flags) {
  size.add_option("--resolution", flags.resolution, "1080p, 4k, 8k or WIDTHxHEIGHT");
  size.add_option("--frames", flags.ask.frames, "Of a render or a video: costs time, not memory");
  size.add_option("--seconds", flags.seconds, "Of a video: costs time, not memory");
  size.add_option("--samples", flags.ask.samples, "Of a pixel: cost time, not memory");
  size.add_option("--streams", flags.ask.streams, "Videos at once");
  size.add_option("--codec", flags.codec, "Of a video: h264, hevc, hevc10, av1, av1-10");
  size.add_option("--scene", flags.scene, "What a scene takes on the device; else 4GB");
}

}  // namespace

void add_size_command(CLI::App& root, cli::Program& program) {
  const auto flags = std::make_shared<SizeFlags>();
  CLI::App& size = cli::add_command(root,
                                    {"size",
                                     "How much VRAM a workload needs, with the arithmetic shown",
                                     "tranche size --model 13b --context 4k --users 8\n"
                                     "tranche size --kind finetune --method qlora --model llama-3-8b\n"
                                     "tranche size --kind render --resolution 4k --scene 12GB -o json"});
  size.add_option("--kind", flags->kind, "inference, finetune, training, render or video");
  add_model_options(size, *flags);
  add_media_options(size, *flags);
  size.callback([flags, &program] { run(program.session(), *flags); });
}

}  // namespace tranche::app
