// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a label of a node may look like: rules and job files name it, so it must be one word to type.
#include <algorithm>
#include <string>

#include "wire/text_map.hpp"

namespace tranche::wire {

inline constexpr std::size_t kNodeLabelsMax = 64;

inline bool is_label_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  constexpr std::size_t kLongest = 63;
  return !name.empty() && name.size() <= kLongest && plain(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return plain(c) || c == '-' || c == '_' || c == '.' || c == '/';
         });
}

inline bool is_label_value(const std::string& value) {
  constexpr std::size_t kLongest = 255;
  const auto hidden = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  return value.size() <= kLongest && std::none_of(value.begin(), value.end(), hidden) &&
         (value.empty() || (value.front() != ' ' && value.back() != ' '));
}

// A sentence about the first label that is none; those in `known` were there before, and stay. Empty: all
// are.
inline std::string label_problem(const TextMap& labels, const TextMap& known = {}) {
  for (const auto& [name, value] : labels) {
    if (const std::string* before = known.find(name); before != nullptr && *before == value) continue;
    if (!is_label_name(name))
      return "'" + name +
             "' cannot name a label: write 1 to 63 letters, digits and - _ . / with a letter or digit first";
    if (!is_label_value(value))
      return "the value of the label '" + name +
             "' has more than 255 letters, a control character, or a blank at its beginning or end";
  }
  if (labels.size() > kNodeLabelsMax && labels.size() > known.size())
    return "a node has at most " + std::to_string(kNodeLabelsMax) + " labels";
  return {};
}

}  // namespace tranche::wire
