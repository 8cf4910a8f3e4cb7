// SPDX-License-Identifier: Apache-2.0
#pragma once
// YAML text to nodes: the 1.2 core schema (no is a word, not false), within limits of size, depth and
// aliases.
#include <cstddef>
#include <string_view>

#include "wire/document.hpp"

namespace tranche::wire {

struct YamlLimits {
  std::size_t bytes_max = std::size_t{256} << 10;
  std::size_t depth_max = 32;
  std::size_t nodes_max = 20'000;  // After aliases were filled in: what stops a "billion laughs".
};
Result<Document, Problem> parse_yaml_document(std::string_view text, YamlLimits limits = {});
// Whichever the text is written in; for files that people write.
Result<Document, Problem> parse_yaml_or_json(std::string_view text);

}  // namespace tranche::wire
