// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shape of a decoder-only language model, and what follows from it: parameters, and bytes per token of
// its key-value cache.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tranche::policy {

struct LanguageModel {
  std::string name{};
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t feed_forward = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t vocabulary = 0;
  std::int64_t experts = 1;  // Of each layer's feed-forward part; all of them are in memory.
  bool attention_bias = false;
  bool tied_embeddings = false;
  std::int64_t parameters_known = 0;  // For a class such as 9b: stands for the sum of the shape below it.
  std::string estimated_from{};       // The known model that the shape was scaled from; empty: exact.
  bool operator==(const LanguageModel&) const = default;
};

std::int64_t parameters(const LanguageModel& model);
// Token embeddings and output head: quantised models keep them in 16 bits.
std::int64_t embedding_parameters(const LanguageModel& model);
std::int64_t kv_bytes_per_token(const LanguageModel& model, std::int64_t bytes_per_value);
// Sum of inputs and outputs of every matrix that LoRA adapts: attention and feed-forward, all layers.
std::int64_t adapted_width(const LanguageModel& model);

std::span<const LanguageModel> known_models();
// A known model (llama-3-8b, in any case) or a class by size (7b, 1.5b, 405b). The problem lists what is
// known.
Result<LanguageModel, std::string> find_model(std::string_view name);
// From the text of a Hugging Face config.json.
Result<LanguageModel, std::string> model_from_config(std::string_view json);

}  // namespace tranche::policy
