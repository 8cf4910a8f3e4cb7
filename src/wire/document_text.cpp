// SPDX-License-Identifier: Apache-2.0
// Nodes back to JSON text: for values that are passed on without being understood.
#include "wire/document.hpp"
#include "wire/json_writer.hpp"

namespace tranche::wire {

void append_json(std::string& out, const Document& document, const Node& node) {
  switch (node.kind) {
    case NodeKind::kNull:
      out += "null";
      return;
    case NodeKind::kBool:
    case NodeKind::kInteger:
    case NodeKind::kDecimal:
      out += node.text;
      return;
    case NodeKind::kString:
      append_json_string(out, node.text);
      return;
    case NodeKind::kArray:
    case NodeKind::kObject:
      break;
  }
  const bool object = node.kind == NodeKind::kObject;
  out += object ? '{' : '[';
  for (std::uint32_t i = node.first_child; i != Node::kNone; i = document.at(i).next) {
    const Node& child = document.at(i);
    if (i != node.first_child) out += ',';
    if (object) {
      append_json_string(out, child.key);
      out += ':';
    }
    append_json(out, document, child);
  }
  out += object ? '}' : ']';
}

}  // namespace tranche::wire
