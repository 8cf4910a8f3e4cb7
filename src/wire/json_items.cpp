// SPDX-License-Identifier: Apache-2.0
#include "wire/json_items.hpp"

#include <array>

namespace tranche::wire {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Where the scan stops to think: quotes and brackets, everywhere else it runs on.
constexpr std::array<bool, 256> kMarks = [] {
  std::array<bool, 256> marks{};
  for (const char c : {'"', '{', '}', '[', ']', ','}) marks[static_cast<unsigned char>(c)] = true;
  return marks;
}();

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r'))
    ++at;
  return at;
}

// Just after the string that begins at `at`; kNone when it does not end.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (;;) {
    const std::size_t quote = text.find('"', at + 1);
    if (quote == kNone) return kNone;
    std::size_t escapes = 0;
    while (text[quote - 1 - escapes] == '\\') ++escapes;  // Ends at the opening quote at the latest.
    if (escapes % 2 == 0) return quote + 1;
    at = quote;
  }
}

// Just after the value that begins at `at`: at the comma or bracket that follows it on its level.
std::size_t skip_value(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (!kMarks[static_cast<unsigned char>(c)]) {
      ++at;
    } else if (c == '"') {
      at = skip_string(text, at);
      if (at == kNone) return kNone;
    } else if (c == ',' && depth == 0) {
      return at;
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      --depth;
      ++at;
    } else {
      ++at;
    }
  }
  return kNone;
}

// The position after the '[' of the list, or kNone.
std::size_t find_list(std::string_view json, std::string_view list) {
  std::size_t at = skip_space(json, 0);
  if (at >= json.size() || json[at] != '{') return kNone;
  for (at = skip_space(json, at + 1); at < json.size() && json[at] == '"'; at = skip_space(json, at)) {
    const std::size_t key = at + 1;
    at = skip_string(json, at);
    if (at == kNone) return kNone;
    const bool wanted = json.substr(key, at - 1 - key) == list;
    at = skip_space(json, at);
    if (at >= json.size() || json[at] != ':') return kNone;
    at = skip_space(json, at + 1);
    if (wanted) return at < json.size() && json[at] == '[' ? at + 1 : kNone;
    at = skip_value(json, at);
    if (at == kNone || json[at] != ',') return kNone;
    ++at;
  }
  return kNone;
}

}  // namespace

Result<std::string, Problem> each_item(std::string_view json,
                                       std::string_view list,
                                       const std::function<bool(std::string_view)>& visit) {
  const auto broken = [&](std::string message) {
    return refuse(Problem{.path = std::string(list), .message = std::move(message), .hint = {}});
  };
  const std::size_t start = find_list(json, list);
  if (start == kNone) return broken("is not a list");
  std::size_t at = skip_space(json, start);
  while (at < json.size() && json[at] != ']') {
    const std::size_t end = skip_value(json, at);
    if (end == kNone || json[end] == '}') return broken("does not end");
    if (!visit(json.substr(at, end - at))) return std::string();
    at = json[end] == ',' ? skip_space(json, end + 1) : end;
    if (json[end] == ',' && at < json.size() && json[at] == ']') return broken("ends with a comma");
  }
  if (at >= json.size()) return broken("does not end");
  std::string rest(json.substr(0, start));
  rest += json.substr(at);
  return rest;
}

}  // namespace tranche::wire
