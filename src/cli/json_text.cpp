// SPDX-License-Identifier: Apache-2.0
// JSON of the server in the forms people and their tools read: indented, line by line, YAML.
#include "cli/output.hpp"
#include "wire/document.hpp"
#include "wire/json_writer.hpp"

namespace tranche::cli {
namespace {

using wire::Document;
using wire::Node;
using wire::NodeKind;

constexpr wire::JsonLimits kAnswerLimits{.bytes_max = std::size_t{1} << 30, .depth_max = 64};

bool is_leaf(const Node& node) {
  return (node.kind != NodeKind::kArray && node.kind != NodeKind::kObject) || node.children == 0;
}

void append_indented(std::string& out, const Document& document, const Node& node, std::size_t depth) {
  if (is_leaf(node)) {
    wire::append_json(out, document, node);
    return;
  }
  const bool object = node.kind == NodeKind::kObject;
  out += object ? "{\n" : "[\n";
  for (std::uint32_t i = node.first_child; i != Node::kNone; i = document.at(i).next) {
    const Node& child = document.at(i);
    out.append(2 * (depth + 1), ' ');
    if (object) {
      wire::append_json_string(out, child.key);
      out += ": ";
    }
    append_indented(out, document, child, depth + 1);
    out += child.next == Node::kNone ? "\n" : ",\n";
  }
  out.append(2 * depth, ' ');
  out += object ? '}' : ']';
}

// A plain scalar of YAML, where no reader of 1.1 or 1.2 could take it for something else.
bool is_plain_yaml(std::string_view text) {
  if (text.empty()) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!letter(text[0]) && text[0] != '/') return false;
  for (const char c : text) {
    if (!letter(c) && !digit(c) && c != '_' && c != '/' && c != '.' && c != '-') return false;
  }
  for (const std::string_view word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (text.size() != word.size()) continue;
    bool same = true;
    for (std::size_t i = 0; i < word.size(); ++i) same = same && (text[i] | 0x20) == word[i];
    if (same) return false;
  }
  return text != ".inf" && text != ".nan";
}

void append_yaml_text(std::string& out, std::string_view text) {
  is_plain_yaml(text) ? static_cast<void>(out += text) : wire::append_json_string(out, text);
}

void append_yaml(std::string& out, const Document& document, const Node& node, std::size_t depth) {
  const bool object = node.kind == NodeKind::kObject;
  bool first = true;
  for (std::uint32_t i = node.first_child; i != Node::kNone; i = document.at(i).next) {
    const Node& child = document.at(i);
    // The first key of a list's element stands on the line of its dash.
    if (!first || (!out.empty() && out.back() == '\n')) out.append(2 * depth, ' ');
    first = false;
    if (object) {
      append_yaml_text(out, child.key);
      out += ':';
    } else {
      out += '-';
    }
    if (is_leaf(child)) {
      out += ' ';
      child.kind == NodeKind::kString ? append_yaml_text(out, child.text)
                                      : wire::append_json(out, document, child);
      out += '\n';
    } else if (object) {
      out += '\n';
      append_yaml(out, document, child, depth + 1);
    } else {
      out += ' ';
      append_yaml(out, document, child, depth + 1);
    }
  }
}

}  // namespace

std::string indented_json(std::string_view json) {
  const auto document = wire::parse_json_document(json, kAnswerLimits);
  if (!document) return std::string(json);
  std::string out;
  out.reserve(json.size() * 2);
  append_indented(out, *document, document->root(), 0);
  return out += '\n';
}

std::string yaml_of_json(std::string_view json) {
  const auto document = wire::parse_json_document(json, kAnswerLimits);
  if (!document) return std::string(json);
  std::string out;
  if (is_leaf(document->root())) {
    wire::append_json(out, *document, document->root());
    return out += '\n';
  }
  append_yaml(out, *document, document->root(), 0);
  return out;
}

std::string json_lines(std::string_view json) {
  const auto document = wire::parse_json_document(json, kAnswerLimits);
  if (!document) return std::string(json);
  std::string out;
  const auto line = [&](const Node& node) {
    wire::append_json(out, *document, node);
    out += '\n';
  };
  const Node& root = document->root();
  const auto each = [&](const Node& list) {
    for (std::uint32_t i = list.first_child; i != Node::kNone; i = document->at(i).next)
      line(document->at(i));
  };
  if (root.kind == NodeKind::kArray) {
    each(root);
    return out;
  }
  for (std::uint32_t i = root.first_child; i != Node::kNone; i = document->at(i).next) {
    if (document->at(i).key != "items" || document->at(i).kind != NodeKind::kArray) continue;
    each(document->at(i));
    return out;
  }
  line(root);
  return out;
}

}  // namespace tranche::cli
