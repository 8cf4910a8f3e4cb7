// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much VRAM a workload needs, with the arithmetic shown: a list of parts that add up.
//
// Inference: weights + key-value cache + activation of the prompt + runtime. Training: weights, gradients,
// optimiser, activations, logits. docs/sizing.md has the formulas, what they were checked against, and how
// far they were off. Renders and videos are counted in pictures; what a scene holds must be said.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "policy/language_model.hpp"
#include "wire/sizing.hpp"
#include "wire/workload.hpp"

namespace tranche::policy {

struct SizingAsk {
  wire::WorkloadKind kind = wire::WorkloadKind::kInference;
  std::optional<LanguageModel> model{};
  wire::Precision precision = wire::Precision::kFp16;
  std::uint32_t devices = 1;  // The model is spread over so many.

  // Inference.
  std::int64_t context = 4096;  // Tokens of a sequence, prompt and answer.
  std::int64_t prompt = 0;      // Of them the prompt; zero: all but the last 2048, and at least half.
  std::int64_t users = 1;       // Sequences at once.

  // Fine-tuning and training.
  wire::TuningMethod method = wire::TuningMethod::kFull;
  std::int64_t sequence = 2048;
  std::int64_t batch = 1;
  std::int64_t rank = 16;
  std::int32_t zero_stage = 0;    // ZeRO 0..3: what is divided among the devices.
  bool keep_activations = false;  // No checkpointing of activations.
  bool eight_bit_adam = false;

  // Renders and videos.
  std::int64_t width = 1920;
  std::int64_t height = 1080;
  std::int64_t frames = 0;
  std::int64_t samples = 0;
  std::int64_t streams = 1;    // Videos at once.
  std::int32_t bits = 8;       // Of a colour channel in a video.
  Bytes scene = gigabytes(4);  // Geometry, textures and their acceleration structure.
};

using wire::Sizing;
using wire::SizingPart;

Result<Sizing, std::string> size_workload(const SizingAsk& ask);

// Bytes of all weights at a precision. Quantised forms keep embeddings in 16 bits and store scales.
std::int64_t weight_bytes(const LanguageModel& model, wire::Precision precision);

// 6738415616 -> 6,738,415,616
std::string with_commas(std::int64_t number);

}  // namespace tranche::policy
