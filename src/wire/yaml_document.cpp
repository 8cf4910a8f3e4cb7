// SPDX-License-Identifier: Apache-2.0
// The only user of yaml-cpp: its parser's events fill a Document.
#include "wire/yaml_document.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

namespace tranche::wire {
namespace {

struct Stop {  // Leaves the parser's callbacks; caught below, never seen outside.
  Problem problem;
};
[[noreturn]] void stop(std::uint32_t line, std::string message) {
  throw Stop{{.path = {}, .message = std::move(message), .hint = {}, .line = line}};
}

bool only(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_decimal(std::string_view text) {
  const auto exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (!power.empty() && (power.front() == '+' || power.front() == '-')) power.remove_prefix(1);
    if (!only(power, "0123456789")) return false;
    text = text.substr(0, exponent);
  }
  const auto dot = text.find('.');
  if (dot == std::string_view::npos) return only(text, "0123456789");
  const auto whole = text.substr(0, dot);
  const auto fraction = text.substr(dot + 1);
  return (whole.empty() || only(whole, "0123456789")) && (fraction.empty() || only(fraction, "0123456789")) &&
         !(whole.empty() && fraction.empty());
}

// Tag resolution of the YAML 1.2 core schema for a plain scalar.
NodeKind plain_kind(std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
    return NodeKind::kNull;
  for (const std::string_view word : {"true", "True", "TRUE", "false", "False", "FALSE"}) {
    if (text == word) return NodeKind::kBool;
  }
  if (text.starts_with("0x") && only(text.substr(2), "0123456789abcdefABCDEF")) return NodeKind::kInteger;
  if (text.starts_with("0o") && only(text.substr(2), "01234567")) return NodeKind::kInteger;
  const bool is_signed = text.front() == '-' || text.front() == '+';
  const std::string_view digits = is_signed ? text.substr(1) : text;
  if (only(digits, "0123456789")) return NodeKind::kInteger;
  return is_decimal(digits) ? NodeKind::kDecimal : NodeKind::kString;
}

class Builder : public YAML::EventHandler {
 public:
  explicit Builder(YamlLimits limits) : limits_(limits) {}
  Document take() { return std::move(document_); }
  [[nodiscard]] bool empty() const { return document_.size() == 0; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (take_key(mark, "")) return;
    place({.key = {}, .text = {}, .line = line_of(mark), .kind = NodeKind::kNull}, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (expects_key()) stop(line_of(mark), "a key cannot be an alias");
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) stop(line_of(mark), "an alias stands inside what it names");
    copy(known->second, line_of(mark), open_.size());
  }
  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    if (take_key(mark, value)) return;
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!quoted && tag != "?" && !tag.empty()) stop(line_of(mark), "tags such as " + tag + " are not taken");
    const NodeKind kind = quoted ? NodeKind::kString : plain_kind(value);
    std::string text = kind == NodeKind::kNull ? std::string() : value;
    if (kind == NodeKind::kBool) text.front() = text.front() == 'T' || text.front() == 't' ? 't' : 'f';
    if (kind == NodeKind::kBool) text = text.front() == 't' ? "true" : "false";
    place({.key = {}, .text = document_.keep(std::move(text)), .line = line_of(mark), .kind = kind}, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, NodeKind::kArray);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, NodeKind::kObject);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    std::uint32_t node = 0;
    std::uint32_t last = Node::kNone;
    bool has_key = false;
    std::string_view key{};
    std::uint32_t key_line = 0;
    YAML::anchor_t anchor = 0;
  };

  static std::uint32_t line_of(const YAML::Mark& mark) { return static_cast<std::uint32_t>(mark.line + 1); }

  [[nodiscard]] bool expects_key() const {
    return !open_.empty() && document_.at(open_.back().node).kind == NodeKind::kObject &&
           !open_.back().has_key;
  }
  bool take_key(const YAML::Mark& mark, const std::string& text) {
    if (!expects_key()) return false;
    open_.back().key = document_.keep(text);
    open_.back().key_line = line_of(mark);
    open_.back().has_key = true;
    return true;
  }
  std::uint32_t attach(Node node) {
    if (document_.size() >= limits_.nodes_max) {
      stop(node.line, "holds more than " + std::to_string(limits_.nodes_max) + " values");
    }
    if (open_.empty()) return document_.add(node);
    Open& parent = open_.back();
    if (parent.has_key) {
      node.key = parent.key;
      node.line = parent.key_line;
      parent.has_key = false;
    }
    const std::uint32_t index = document_.add(node);
    document_.link(parent.node, parent.last, index);
    parent.last = index;
    return index;
  }
  std::uint32_t place(Node node, YAML::anchor_t anchor) {
    const std::uint32_t index = attach(node);
    if (anchor != 0) anchors_[anchor] = index;
    return index;
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, NodeKind kind) {
    if (expects_key()) stop(line_of(mark), "a key must be plain text");
    if (!tag.empty() && tag != "?" && tag != "!")
      stop(line_of(mark), "tags such as " + tag + " are not taken");
    if (open_.size() >= limits_.depth_max) stop(line_of(mark), "too many levels of nesting");
    const std::uint32_t index = attach({.key = {}, .text = {}, .line = line_of(mark), .kind = kind});
    open_.push_back({.node = index, .anchor = anchor});
  }
  void close() {
    const Open closed = open_.back();
    open_.pop_back();
    // Known only now: an alias inside what it names would have no end.
    if (closed.anchor != 0) anchors_[closed.anchor] = closed.node;
  }
  void copy(std::uint32_t from, std::uint32_t line, std::size_t depth) {
    if (depth >= limits_.depth_max) stop(line, "too many levels of nesting");
    Node node = document_.at(from);
    std::uint32_t child = std::exchange(node.first_child, Node::kNone);
    node.next = Node::kNone;
    node.children = 0;
    node.line = line;
    const std::uint32_t index = attach(node);
    open_.push_back({.node = index});
    for (; child != Node::kNone; child = document_.at(child).next) {
      open_.back().key = document_.at(child).key;
      open_.back().key_line = line;
      open_.back().has_key = document_.at(index).kind == NodeKind::kObject;
      copy(child, line, depth + 1);
    }
    open_.pop_back();
  }

  YamlLimits limits_;
  Document document_{Scalars::kPlainIsText};
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::uint32_t> anchors_;
};

}  // namespace

Result<Document, Problem> parse_yaml_document(std::string_view text, YamlLimits limits) {
  const auto fail = [](std::string message, std::uint32_t line) {
    return refuse(Problem{.path = {}, .message = std::move(message), .hint = {}, .line = line});
  };
  if (text.size() > limits.bytes_max) {
    return fail("is " + std::to_string(text.size()) + " bytes long; at most " +
                    std::to_string(limits.bytes_max) + " are taken",
                0);
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(limits);
    if (!parser.HandleNextDocument(builder) || builder.empty()) return fail("is empty", 0);
    Builder second(limits);
    if (parser.HandleNextDocument(second)) return fail("holds more than one document", 0);
    return builder.take();
  } catch (const Stop& stopped) { return refuse(stopped.problem); } catch (const YAML::Exception& error) {
    return fail("not valid YAML at column " + std::to_string(error.mark.column + 1) + ": " + error.msg,
                static_cast<std::uint32_t>(std::max(0, error.mark.line) + 1));
  }
}

}  // namespace tranche::wire
