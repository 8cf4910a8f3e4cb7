// SPDX-License-Identifier: Apache-2.0
#pragma once
// One item of a GPU string, cut into the words between its colons. Private to the GPU string's parser.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/gpu_request.hpp"

namespace tranche::wire::detail {

// A part of the request, and where it starts.
struct GpuWord {
  std::string_view text;
  std::size_t position = 0;
};
GpuWord trimmed(GpuWord word);
std::vector<GpuWord> split(GpuWord word, char separator);

class GpuItemParser {
 public:
  GpuItemParser(std::string_view request, GpuWord item) : request_(request), item_(item) {}
  Result<GpuItem, GpuProblem> parse();

 private:
  using Step = std::optional<GpuProblem>;  // Nothing: go on.

  Step body();
  Step memory_body();
  Step model_body();
  Step known_model(std::string_view name);
  Step model_with_memory_suffix(bool& found);
  Step unknown_word();
  Step model_memory();
  Step settle_model_memory(GpuWord word);
  Step count_or_profile();
  Step count();
  Step fraction(GpuWord word);
  Step share_range(GpuWord word, std::size_t dots);
  Step at_end();

  [[nodiscard]] bool done() const { return next_ == words_.size(); }
  [[nodiscard]] GpuWord word() const { return words_[next_]; }
  [[nodiscard]] GpuProblem problem(GpuWord word, std::string message, std::string_view instead = {}) const;

  std::string_view request_;
  GpuWord item_;
  std::vector<GpuWord> words_;
  std::size_t next_ = 0;
  bool after_gpu_ = false;
  GpuItem out_;
};

struct MemoryRange {
  Bytes least{};
  Bytes most{};
  bool is_range = false;
};
std::optional<MemoryRange> parse_memory(std::string_view text);
// In the four units that GPU strings know, exactly: 20GB, 512MiB, 0.5MB.
std::string memory_text(Bytes size);
bool is_profile(std::string_view text);
// Thousandths from 0.5 or 12.5 (with scale 10 for percent); nullopt when there are more digits than that.
std::optional<std::uint32_t> parse_milli(std::string_view text, std::uint32_t scale);

}  // namespace tranche::wire::detail
