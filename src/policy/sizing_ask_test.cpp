// SPDX-License-Identifier: Apache-2.0
#include "policy/sizing_ask.hpp"

#include <doctest/doctest.h>

namespace tranche::policy {
namespace {

using wire::MediaUse;
using wire::ModelUse;
using wire::Problem;
using wire::WorkloadKind;

SizingAsk asked(WorkloadKind kind, const ModelUse& use) {
  const auto ask = sizing_ask({.kind = kind, .model = &use});
  REQUIRE_MESSAGE(ask.has_value(), ask.error().message);
  return *ask;
}
SizingAsk asked(WorkloadKind kind, const MediaUse& use) {
  const auto ask = sizing_ask({.kind = kind, .media = &use});
  REQUIRE_MESSAGE(ask.has_value(), ask.error().message);
  return *ask;
}
Problem wrong(const ModelUse& use) {
  const auto ask = sizing_ask({.kind = WorkloadKind::kInference, .model = &use});
  REQUIRE_FALSE(ask.has_value());
  return ask.error();
}
Problem wrong(const MediaUse& use) {
  const auto ask = sizing_ask({.kind = WorkloadKind::kVideo, .media = &use});
  REQUIRE_FALSE(ask.has_value());
  return ask.error();
}

TEST_CASE("sizing ask: only work with a model, or with pictures, says how large it is") {
  const ModelUse model{.name = "7b"};
  const MediaUse media{.resolution = "4k"};
  for (const auto kind : {WorkloadKind::kInference, WorkloadKind::kFinetune, WorkloadKind::kTraining}) {
    CHECK(describes_its_size({.kind = kind, .model = &model}));
    CHECK_FALSE(describes_its_size({.kind = kind, .media = &media}));
  }
  for (const auto kind : {WorkloadKind::kRender, WorkloadKind::kVideo}) {
    CHECK(describes_its_size({.kind = kind, .media = &media}));
    CHECK_FALSE(describes_its_size({.kind = kind, .model = &model}));
  }
  const Workload batch{.kind = WorkloadKind::kBatch, .model = &model, .media = &media};
  CHECK_FALSE(describes_its_size(batch));
  CHECK(sizing_ask(batch).error().path == "kind");
}

TEST_CASE("sizing ask: what is not said stays as it usually is") {
  const SizingAsk usual{};
  const SizingAsk ask = asked(WorkloadKind::kInference, ModelUse{.name = "13b"});
  REQUIRE(ask.model);
  CHECK(parameters(*ask.model) == 13'015'864'320);
  CHECK(ask.context == usual.context);
  CHECK(ask.sequence == usual.sequence);
  CHECK(ask.users == 1);
  CHECK(ask.batch == 1);
  CHECK(ask.rank == 16);
  CHECK(ask.devices == 1);
  const SizingAsk pictures = asked(WorkloadKind::kRender, MediaUse{.samples = 64});
  CHECK(pictures.width == 1920);
  CHECK(pictures.height == 1080);
  CHECK(pictures.streams == 1);
  CHECK(pictures.scene == gigabytes(4));
}

TEST_CASE("sizing ask: everything that is said about a model is taken") {
  const SizingAsk ask = asked(WorkloadKind::kFinetune,
                              {.name = "llama-3-8b",
                               .precision = wire::Precision::kInt8,
                               .method = wire::TuningMethod::kLora,
                               .context = 8192,
                               .users = 3,
                               .batch = 4,
                               .rank = 64,
                               .prompt = 1000,
                               .devices = 2,
                               .zero = 3,
                               .keep_activations = true,
                               .adam_8bit = true});
  CHECK(ask.kind == WorkloadKind::kFinetune);
  CHECK(ask.precision == wire::Precision::kInt8);
  CHECK(ask.method == wire::TuningMethod::kLora);
  CHECK(ask.context == 8192);
  CHECK(ask.sequence == 8192);  // Of training, it is the same.
  CHECK(ask.users == 3);
  CHECK(ask.batch == 4);
  CHECK(ask.rank == 64);
  CHECK(ask.prompt == 1000);
  CHECK(ask.devices == 2);
  CHECK(ask.zero_stage == 3);
  CHECK(ask.keep_activations);
  CHECK(ask.eight_bit_adam);
}

TEST_CASE(
    "sizing ask: a model is known by its name, else by its config, else by how many parameters it has") {
  const std::string config =
      R"({"hidden_size": 3584, "num_hidden_layers": 28, "intermediate_size": 18944, "model_type": "qwen2",
          "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064})";
  CHECK(parameters(*asked(WorkloadKind::kInference, ModelUse{.config = config}).model) == 7'615'616'512);
  // The config says more than a name that somebody made up.
  CHECK(parameters(*asked(WorkloadKind::kInference, ModelUse{.name = "ours", .config = config}).model) ==
        7'615'616'512);
  for (const std::int64_t count : {9'050'000'000L, 1'500'000'000L, 20'000'000'000L}) {
    const ModelUse ours{.name = "ours", .parameters = count};
    CHECK(parameters(*asked(WorkloadKind::kInference, ours).model) == count);
  }
  CHECK(wrong(ModelUse{.name = "lama-3-8b"}).path == "model");
  CHECK(wrong(ModelUse{.name = "lama-3-8b"}).message.find("did you mean 'Llama-3-8B'?") != std::string::npos);
  CHECK(wrong(ModelUse{.config = "{}"}).path == "model.config");
  CHECK(wrong(ModelUse{.config = "{}"}).message.find("config.json lacks") != std::string::npos);
}

TEST_CASE("sizing ask: pictures are given by name or by their sides") {
  const auto size = [](const std::string& name) {
    const SizingAsk ask = asked(WorkloadKind::kRender, MediaUse{.resolution = name});
    return std::pair(ask.width, ask.height);
  };
  CHECK(size("720p") == std::pair<std::int64_t, std::int64_t>(1280, 720));
  CHECK(size("4k") == std::pair<std::int64_t, std::int64_t>(3840, 2160));
  CHECK(size("2160p") == size("4k"));
  CHECK(size("8k") == std::pair<std::int64_t, std::int64_t>(7680, 4320));
  CHECK(size("1000x500") == std::pair<std::int64_t, std::int64_t>(1000, 500));
  const SizingAsk sides = asked(WorkloadKind::kRender, MediaUse{.width = 640, .height = 480});
  CHECK(sides.width == 640);
  CHECK(sides.height == 480);
  for (const char* bad : {"5k", "1920", "1920x", "x1080", "1920x1080p", "1920*1080", "big", "0x0", "-5x10"}) {
    CAPTURE(bad);
    const Problem problem = wrong(MediaUse{.resolution = bad});
    CHECK(problem.path == "media.resolution");
    CHECK(problem.message.find(bad) != std::string::npos);
  }
}

TEST_CASE("sizing ask: ten-bit codecs take ten bits, and unknown ones are refused") {
  for (const char* codec : {"hevc10", "h265-10", "av1-10"})
    CHECK(asked(WorkloadKind::kVideo, MediaUse{.codec = codec}).bits == 10);
  for (const char* codec : {"h264", "hevc", "h265", "av1", ""})
    CHECK(asked(WorkloadKind::kVideo, MediaUse{.codec = codec}).bits == 8);
  const Problem problem = wrong(MediaUse{.codec = "vp9"});
  CHECK(problem.path == "media.codec");
  CHECK(problem.message.find("not 'vp9'") != std::string::npos);
  const SizingAsk many =
      asked(WorkloadKind::kVideo, MediaUse{.frames = 240, .streams = 4, .scene = gigabytes(12)});
  CHECK(many.streams == 4);
  CHECK(many.frames == 240);
  CHECK(many.scene == gigabytes(12));
}

}  // namespace
}  // namespace tranche::policy
