// SPDX-License-Identifier: Apache-2.0
// `tranche size`: how much VRAM a workload needs, with the arithmetic, and which shapes would hold it. Needs
// no server.
#include <memory>
#include <string>

#include "app/commands.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/size_options.hpp"
#include "cli/sizing_text.hpp"
#include "policy/shape_advice.hpp"
#include "policy/sizing_ask.hpp"
#include "wire/codec.hpp"

namespace tranche::app {
namespace {

using cli::Align;
using cli::Session;
using cli::Table;
using cli::usage_failure;
using policy::SizeReport;

struct SizeFlags {
  std::string kind = "inference";
  cli::SizeOptions workload{};
  std::string frames{};
};

Table parts_table(const SizeReport& report) {
  Table table({{"PART"}, {"SIZE", Align::kRight}, {"HOW"}});
  for (const auto& part : report.parts) table.add({part.name, cli::gigabytes_text(part.bytes), part.how});
  return table;
}

std::string report_text(const SizeReport& report) {
  Table shapes({{"--gpus"}, {"VRAM", Align::kRight}, {"UNUSED", Align::kRight}, {"WHAT"}});
  for (const auto& shape : report.shapes) {
    shapes.add({shape.gpus,
                cli::gigabytes_text(shape.vram_bytes),
                cli::gigabytes_text(shape.unused_bytes),
                shape.how});
  }
  std::string out = cli::sizing_text(report) + "\n" + shapes.text();
  for (const std::string& note : report.notes) out += "\n" + note;
  return report.notes.empty() ? out : out + "\n";
}

policy::SizingAsk ask_from(const SizeFlags& flags) {
  wire::ModelUse model;
  wire::MediaUse media;
  const bool has_model = cli::apply_model(flags.workload, model);
  const bool has_media = cli::apply_media(flags.workload, media);
  if (!flags.frames.empty()) {
    const std::int64_t count = cli::frames_of(flags.frames).count();
    if (count > UINT32_MAX)
      throw usage_failure("--frames: " + flags.frames + " are more than can be counted");
    media.frames = static_cast<std::uint32_t>(count);
  }
  const auto ask = policy::sizing_ask({.kind = cli::enum_value<wire::WorkloadKind>("--kind", flags.kind),
                                       .model = has_model ? &model : nullptr,
                                       .media = has_media || !flags.frames.empty() ? &media : nullptr});
  if (!ask) throw usage_failure(ask.error().message);
  return *ask;
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

}  // namespace

void add_size_command(const cli::Command& root, cli::Program& program) {
  const auto flags = std::make_shared<SizeFlags>();
  const cli::Command size =
      cli::add_command(root,
                       {"size",
                        "How much VRAM a workload needs, with the arithmetic shown",
                        "tranche size --model 13b --context 4k --users 8\n"
                        "tranche size --kind finetune --method qlora --model llama-3-8b\n"
                        "tranche size --kind render --resolution 4k --scene 12GB -o json"});
  size.add_option("--kind", flags->kind, "inference, finetune, training, render or video").type_name("KIND");
  cli::add_model_options(size, flags->workload);
  cli::add_media_options(size, flags->workload);
  size.add_option(
          "--frames", flags->frames, "1-240, or how many, of a render or a video: cost time, not memory")
      .type_name("RANGE");
  size.callback([flags, &program] { run(program.session(), *flags); });
}

}  // namespace tranche::app
