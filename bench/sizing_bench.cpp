// SPDX-License-Identifier: Apache-2.0
// How far our arithmetic for VRAM is from what others measured and published.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "bench/bench.hpp"
#include "policy/shape_advice.hpp"
#include "policy/sizing.hpp"

namespace tranche::bench {
namespace {

using policy::SizingAsk;
using wire::Precision;
using wire::WorkloadKind;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

double error_percent(double ours, double theirs) {
  return 100.0 * std::abs(ours - theirs) / theirs;
}

// Qwen2.5-7B, transformers on an A100-80GB, one sequence and 2048 answered tokens; GiB for bf16, int8, int4.
struct Measured {
  std::int64_t prompt;
  std::array<double, 3> gib;
};
constexpr std::array<Measured, 4> kInference{{{1, {14.38, 8.42, 5.52}},
                                              {6144, {15.38, 9.43, 6.52}},
                                              {14336, {16.91, 10.96, 8.05}},
                                              {30720, {19.97, 14.01, 11.11}}}};

double worst_inference_error() {
  constexpr std::array kPrecisions{Precision::kBf16, Precision::kInt8, Precision::kInt4};
  double worst = 0;
  for (const Measured& row : kInference) {
    for (std::size_t i = 0; i < kPrecisions.size(); ++i) {
      SizingAsk ask{.model = *policy::find_model("qwen2.5-7b"), .precision = kPrecisions[i]};
      ask.prompt = row.prompt;
      ask.context = row.prompt + 2048;
      const auto ours = static_cast<double>(policy::size_workload(ask)->vram_bytes);
      worst = std::max(worst, error_percent(ours, row.gib[i] * kGiB));
    }
  }
  return worst;
}

// Sixteen bytes a parameter, in GB.
constexpr std::array<std::pair<const char*, double>, 10> kTraining{{{"Llama-2-7B", 107.8},
                                                                    {"Llama-2-13B", 208.3},
                                                                    {"Llama-2-70B", 1103.6},
                                                                    {"Llama-3-8B", 128.5},
                                                                    {"Llama-3-70B", 1128.9},
                                                                    {"Mistral-7B", 115.9},
                                                                    {"Qwen2.5-7B", 121.8},
                                                                    {"Qwen2.5-14B", 236.3},
                                                                    {"Qwen2.5-32B", 524.2},
                                                                    {"Qwen2.5-72B", 1163.3}}};

double worst_training_error() {
  double worst = 0;
  for (const auto& [name, gigabytes_quoted] : kTraining) {
    const auto sizing =
        policy::size_workload({.kind = WorkloadKind::kFinetune, .model = *policy::find_model(name)});
    worst = std::max(worst, error_percent(static_cast<double>(sizing->vram_bytes), gigabytes_quoted * 1e9));
  }
  return worst;
}

double microseconds_each() {
  constexpr int kRounds = 20'000;
  const SizingAsk ask{.model = *policy::find_model("13b"), .users = 8};
  std::size_t shapes = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) shapes += policy::size_workload(ask)->parts.size();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  return shapes == 0 ? 0 : took.count() / kRounds;
}

}  // namespace

Suite sizing_suite() {
  return {.name = "sizing", .about = "VRAM arithmetic against published measurements", .run = [] {
            return std::vector<Row>{
                {.what = "inference, largest error of 12 measured rows (Qwen2.5-7B)",
                 .value = worst_inference_error(),
                 .unit = "%",
                 .goal = 5,
                 .better = Better::kLower},
                {.what = "full fine-tuning, largest error of 10 rows at 16 B a parameter",
                 .value = worst_training_error(),
                 .unit = "%",
                 .goal = 15,
                 .better = Better::kLower},
                {.what = "one sizing with its explanation", .value = microseconds_each(), .unit = "us"},
            };
          }};
}

}  // namespace tranche::bench
