// SPDX-License-Identifier: Apache-2.0
#pragma once
// A parsed text before it becomes a struct: a flat tree of nodes that JSON and YAML are both read into.
//
// Nodes view the text they came from (or the document's own copy of escaped strings): keep both alive.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "wire/codec.hpp"

namespace tranche::wire {

enum class NodeKind : std::uint8_t { kNull, kBool, kInteger, kDecimal, kString, kArray, kObject };

struct Node {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::string_view key{};             // Inside an object.
  std::string_view text{};            // Of a scalar: the string itself, or a number or bool as written.
  std::uint32_t first_child = kNone;  // Of an array or object.
  std::uint32_t next = kNone;         // The next child of the same parent.
  std::uint32_t children = 0;
  std::uint32_t line = 0;
  NodeKind kind = NodeKind::kNull;
};

// How strictly scalars are told apart. YAML writes `PORT: 8080` where a string is meant; JSON does not.
enum class Scalars : std::uint8_t { kStrict, kPlainIsText };

class Document {
 public:
  explicit Document(Scalars scalars = Scalars::kStrict) : scalars_(scalars) {}
  [[nodiscard]] const Node& root() const { return nodes_.front(); }
  [[nodiscard]] const Node& at(std::uint32_t index) const { return nodes_[index]; }
  Node& at(std::uint32_t index) { return nodes_[index]; }
  [[nodiscard]] Scalars scalars() const { return scalars_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()); }
  void reserve(std::size_t nodes) { nodes_.reserve(nodes); }

  std::uint32_t add(Node node) {
    nodes_.push_back(node);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  // Links `child` as the last of `parent`, whose last child so far the caller knows.
  void link(std::uint32_t parent, std::uint32_t last, std::uint32_t child) {
    (last == Node::kNone ? nodes_[parent].first_child : nodes_[last].next) = child;
    ++nodes_[parent].children;
  }
  std::string_view keep(std::string text) {
    kept_.push_back(std::make_unique<std::string>(std::move(text)));
    return *kept_.back();
  }

 private:
  Scalars scalars_;
  std::vector<Node> nodes_{};
  std::vector<std::unique_ptr<std::string>> kept_{};
};

Result<Document, Problem> parse_json_document(std::string_view text, JsonLimits limits);

// A node and all below it as JSON again, on one line.
void append_json(std::string& out, const Document& document, const Node& node);

}  // namespace tranche::wire
