// SPDX-License-Identifier: Apache-2.0
#include "wire/json_reader.hpp"

namespace tranche::wire {
namespace detail {
namespace {

std::string_view kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::kNull:
      return "null";
    case NodeKind::kBool:
      return "true or false";
    case NodeKind::kInteger:
    case NodeKind::kDecimal:
      return "a number";
    case NodeKind::kString:
      return "a string";
    case NodeKind::kArray:
      return "a list";
    case NodeKind::kObject:
      return "an object";
  }
  return "something else";
}

void prepend(std::string& path, std::string name) {
  if (!path.empty() && path.front() != '[') name += '.';
  path.insert(0, name);
}

}  // namespace

bool Reading::fail(const Node& node, std::string message, std::string hint) {
  problem_ = {.path = {}, .message = std::move(message), .hint = std::move(hint), .line = node.line};
  return false;
}

bool Reading::fail(const Node& node, Problem problem) {
  problem_ = std::move(problem);
  problem_.line = node.line;
  return false;
}

bool Reading::wrong_kind(const Node& node, std::string_view wanted) {
  return fail(node, "must be " + std::string(wanted) + ", not " + std::string(kind_name(node.kind)));
}

bool Reading::outside(const Node& node, std::string_view least, std::string_view most) {
  return fail(node, "must be between " + std::string(least) + " and " + std::string(most));
}

bool Reading::unknown_key(const Node& node, std::span<const std::string_view> known) {
  fail(node, "unknown key '" + std::string(node.key) + "'", nearest_hint(node.key, known));
  return inside(node.key);
}

bool Reading::not_one_of(const Node& node, std::span<const std::string_view> known) {
  std::string message = "'" + std::string(node.text) + "' is not one of ";
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (i > 0) message += ", ";
    message += known[i];
  }
  return fail(node, std::move(message), nearest_hint(node.text, known));
}

bool Reading::inside(std::string_view name) {
  prepend(problem_.path, std::string(name));
  return false;
}

bool Reading::inside(std::size_t index) {
  prepend(problem_.path, "[" + std::to_string(index) + "]");
  return false;
}

}  // namespace detail

std::string text(const Problem& problem) {
  std::string out;
  if (problem.line > 0) out += "line " + std::to_string(problem.line) + ": ";
  if (!problem.path.empty()) out += problem.path + ": ";
  out += problem.message;
  if (!problem.hint.empty()) out += " (" + problem.hint + ")";
  return out;
}

}  // namespace tranche::wire
