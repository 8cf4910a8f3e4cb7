// SPDX-License-Identifier: Apache-2.0
#include "policy/language_model.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "wire/document.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/nearest.hpp"

namespace tranche::policy {
namespace {

using wire::equal_ignoring_case;
using wire::lower_case;

// Published configurations; the parameter counts that follow are the published ones, exactly.
const std::vector<LanguageModel>& models() {
  const auto model =
      [](const char* name,
         std::array<std::int64_t, 7> shape,  // layers, hidden, ff, heads, kv heads, head, words
         bool bias) {
        return LanguageModel{.name = name,
                             .layers = shape[0],
                             .hidden = shape[1],
                             .feed_forward = shape[2],
                             .heads = shape[3],
                             .kv_heads = shape[4],
                             .head_size = shape[5],
                             .vocabulary = shape[6],
                             .attention_bias = bias};
      };
  static const std::vector<LanguageModel> known{
      model("Llama-2-7B", {32, 4096, 11008, 32, 32, 128, 32000}, false),
      model("Mistral-7B", {32, 4096, 14336, 32, 8, 128, 32000}, false),
      model("Qwen2.5-7B", {28, 3584, 18944, 28, 4, 128, 152064}, true),
      model("Llama-3-8B", {32, 4096, 14336, 32, 8, 128, 128256}, false),
      model("Llama-2-13B", {40, 5120, 13824, 40, 40, 128, 32000}, false),
      model("Qwen2.5-14B", {48, 5120, 13824, 40, 8, 128, 152064}, true),
      model("Qwen2.5-32B", {64, 5120, 27648, 40, 8, 128, 152064}, true),
      model("Llama-2-70B", {80, 8192, 28672, 64, 8, 128, 32000}, false),
      model("Llama-3-70B", {80, 8192, 28672, 64, 8, 128, 128256}, false),
      model("Qwen2.5-72B", {80, 8192, 29568, 64, 8, 128, 152064}, true),
  };
  return known;
}

// What people mean by a bare size. Where several are known, the one that needs the most memory.
struct SizeClass {
  std::string_view size;
  std::string_view model;
};
constexpr std::array<SizeClass, 7> kClasses{{{"7b", "Llama-2-7B"},
                                             {"8b", "Llama-3-8B"},
                                             {"13b", "Llama-2-13B"},
                                             {"14b", "Qwen2.5-14B"},
                                             {"32b", "Qwen2.5-32B"},
                                             {"70b", "Llama-3-70B"},
                                             {"72b", "Qwen2.5-72B"}}};

const LanguageModel* find_known(std::string_view name) {
  for (const LanguageModel& model : models()) {
    if (equal_ignoring_case(model.name, name)) return &model;
  }
  for (const SizeClass& known : kClasses) {
    if (equal_ignoring_case(known.size, name)) return find_known(known.model);
  }
  // meta-llama/Llama-3.1-8B-Instruct is of the shape of Llama-3-8B.
  std::string plain =
      lower_case(name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1));
  for (const std::string_view ending : {"-instruct", "-chat", "-hf", "-v0.1", "-v0.2", "-v0.3", "-base"}) {
    if (plain.ends_with(ending)) return find_known(plain.substr(0, plain.size() - ending.size()));
  }
  if (plain.starts_with("llama-3.1-")) return find_known("llama-3-" + plain.substr(10));
  if (plain.size() < name.size()) return find_known(plain);
  return nullptr;
}

std::optional<double> billions(std::string_view name) {
  if (name.size() < 2 || (name.back() != 'b' && name.back() != 'B')) return std::nullopt;
  double value = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size() - 1, value);
  if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size() - 1) return std::nullopt;
  if (!(value >= 0.05) || value > 10'000) return std::nullopt;
  return value;
}

// Depth and width both grow with the cube root of the size, which is how families of models are built.
LanguageModel scaled_to(double parameters_wanted) {
  const auto distance = [&](const LanguageModel& model) {
    return std::abs(std::log(static_cast<double>(parameters(model)) / parameters_wanted));
  };
  const auto nearest = std::min_element(models().begin(), models().end(), [&](const auto& a, const auto& b) {
    return distance(a) < distance(b);
  });
  const double ratio = std::cbrt(parameters_wanted / static_cast<double>(parameters(*nearest)));
  const auto scale = [&](std::int64_t value) {
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(value) * ratio));
  };
  LanguageModel model = *nearest;
  model.layers = scale(model.layers);
  model.hidden = scale(model.hidden);
  model.feed_forward = scale(model.feed_forward);
  model.kv_heads = std::max<std::int64_t>(1, scale(model.kv_heads));
  model.parameters_known = std::llround(parameters_wanted);
  model.estimated_from = nearest->name;
  return model;
}

// The few keys of a config.json that decide memory. Others are none of our business.
class Config {
 public:
  explicit Config(const wire::Document& document) : document_(document), object_(0) {}
  void enter(std::string_view key) {
    if (const auto index = find(key); index != wire::Node::kNone) object_ = index;
  }
  [[nodiscard]] std::int64_t number(std::string_view key, std::int64_t otherwise) const {
    const auto index = find(key);
    if (index == wire::Node::kNone || document_.at(index).kind != wire::NodeKind::kInteger) return otherwise;
    std::int64_t value = otherwise;
    const std::string_view text = document_.at(index).text;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const {
    const auto index = find(key);
    if (index == wire::Node::kNone || document_.at(index).kind != wire::NodeKind::kBool) return otherwise;
    return document_.at(index).text == "true";
  }
  [[nodiscard]] std::string text(std::string_view key) const {
    const auto index = find(key);
    return index == wire::Node::kNone ? std::string() : std::string(document_.at(index).text);
  }

 private:
  [[nodiscard]] std::uint32_t find(std::string_view key) const {
    const auto& object = document_.at(object_);
    if (object.kind != wire::NodeKind::kObject) return wire::Node::kNone;
    for (std::uint32_t i = object.first_child; i != wire::Node::kNone; i = document_.at(i).next) {
      if (document_.at(i).key == key) return i;
    }
    return wire::Node::kNone;
  }
  const wire::Document& document_;
  std::uint32_t object_;
};

// Keeps every product that sizing forms within 64 bits.
bool is_plausible(const LanguageModel& model) {
  const auto within = [](std::int64_t value, std::int64_t most) { return value > 0 && value <= most; };
  if (!within(model.layers, 10'000) || !within(model.hidden, 1'000'000) ||
      !within(model.feed_forward, 10'000'000) || !within(model.heads, 10'000) ||
      !within(model.kv_heads, 10'000) || !within(model.head_size, 10'000) ||
      !within(model.vocabulary, 10'000'000) || !within(model.experts, 10'000)) {
    return false;
  }
  const std::int64_t wide = model.layers * model.feed_forward * model.experts;
  return wide <= 100'000'000'000 && wide * model.hidden <= 1'000'000'000'000'000 &&
         model.layers * model.kv_heads * model.head_size <= 100'000'000 &&
         model.layers * model.hidden <= 100'000'000;
}

}  // namespace

std::int64_t embedding_parameters(const LanguageModel& model) {
  return model.vocabulary * model.hidden * (model.tied_embeddings ? 1 : 2);
}

std::int64_t parameters(const LanguageModel& model) {
  if (model.parameters_known > 0) return model.parameters_known;
  const std::int64_t h = model.hidden;
  const std::int64_t query = model.heads * model.head_size;
  const std::int64_t kv = model.kv_heads * model.head_size;
  std::int64_t layer =
      h * query + 2 * h * kv + query * h + 3 * h * model.feed_forward * model.experts + 2 * h;
  if (model.experts > 1) layer += h * model.experts;  // The router.
  if (model.attention_bias) layer += query + 2 * kv;
  return model.layers * layer + h + embedding_parameters(model);
}

std::int64_t kv_bytes_per_token(const LanguageModel& model, std::int64_t bytes_per_value) {
  return 2 * model.layers * model.kv_heads * model.head_size * bytes_per_value;
}

std::int64_t adapted_width(const LanguageModel& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t query = model.heads * model.head_size;
  const std::int64_t kv = model.kv_heads * model.head_size;
  const std::int64_t attention = (h + query) + 2 * (h + kv) + (query + h);
  return model.layers * (attention + 3 * (h + model.feed_forward) * model.experts);
}

std::span<const LanguageModel> known_models() {
  return models();
}

Result<LanguageModel, std::string> find_model(std::string_view name) {
  if (const LanguageModel* known = find_known(name)) return *known;
  if (const auto size = billions(name)) return scaled_to(*size * 1e9);
  std::vector<std::string_view> names;
  std::string list;
  for (const LanguageModel& model : models()) {
    names.push_back(model.name);
    list += (list.empty() ? "" : ", ") + model.name;
  }
  const std::string hint = wire::nearest_hint(name, names);
  return refuse("no model '" + std::string(name) + "' is known; " + (hint.empty() ? "" : hint + " or ") +
                "give a size such as 13b, a config.json, or one of " + list);
}

Result<LanguageModel, std::string> model_from_config(std::string_view json) {
  const auto document = wire::parse_json_document(json, {.bytes_max = std::size_t{4} << 20});
  if (!document) return refuse("config.json: " + wire::text(document.error()));
  Config config(*document);
  if (config.number("hidden_size", 0) == 0) config.enter("text_config");
  LanguageModel model;
  model.name = config.text("_name_or_path");
  if (model.name.empty()) model.name = config.text("model_type");
  model.layers = config.number("num_hidden_layers", 0);
  model.hidden = config.number("hidden_size", 0);
  model.heads = config.number("num_attention_heads", 0);
  model.kv_heads = config.number("num_key_value_heads", model.heads);
  model.head_size = config.number("head_dim", model.heads > 0 ? model.hidden / model.heads : 0);
  model.vocabulary = config.number("vocab_size", 0);
  model.experts = config.number("num_local_experts", config.number("num_experts", 1));
  model.feed_forward = config.number(model.experts > 1 ? "moe_intermediate_size" : "intermediate_size",
                                     config.number("intermediate_size", 0));
  model.attention_bias = config.flag("attention_bias", config.text("model_type") == "qwen2");
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  if (!is_plausible(model)) {
    return refuse(std::string(
        "config.json lacks, or has impossible values for, num_hidden_layers, hidden_size, intermediate_size, "
        "num_attention_heads or vocab_size"));
  }
  return model;
}

}  // namespace tranche::policy
