// SPDX-License-Identifier: Apache-2.0
// JSON text to nodes. The only user of Boost.JSON: its parser drives a handler that fills a Document.
#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <functional>

#include "wire/document.hpp"

namespace tranche::wire {
namespace {

class Builder {
 public:
  static constexpr std::size_t max_object_size = SIZE_MAX;
  static constexpr std::size_t max_array_size = SIZE_MAX;
  static constexpr std::size_t max_key_size = SIZE_MAX;
  static constexpr std::size_t max_string_size = SIZE_MAX;
  using Error = boost::json::error_code;
  using Text = boost::json::string_view;

  explicit Builder(std::string_view input) : input_(input) {
    document_.reserve(std::min<std::size_t>(input.size() / 8 + 4, 1024));
  }
  Document take() { return std::move(document_); }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) { return open(NodeKind::kObject); }
  bool on_object_end(std::size_t, Error&) { return close(); }
  bool on_array_begin(Error&) { return open(NodeKind::kArray); }
  bool on_array_end(std::size_t, Error&) { return close(); }
  bool on_key_part(Text part, std::size_t, Error&) { return collect(part); }
  bool on_key(Text part, std::size_t, Error&) {
    key_ = whole(part);
    return true;
  }
  bool on_string_part(Text part, std::size_t, Error&) { return collect(part); }
  bool on_string(Text part, std::size_t, Error&) { return scalar(NodeKind::kString, whole(part)); }
  bool on_number_part(Text, Error&) { return true; }
  bool on_int64(std::int64_t, Text text, Error&) { return scalar(NodeKind::kInteger, view(text)); }
  bool on_uint64(std::uint64_t, Text text, Error&) { return scalar(NodeKind::kInteger, view(text)); }
  bool on_double(double, Text text, Error&) { return scalar(NodeKind::kDecimal, view(text)); }
  bool on_bool(bool value, Error&) { return scalar(NodeKind::kBool, value ? "true" : "false"); }
  bool on_null(Error&) { return scalar(NodeKind::kNull, {}); }
  bool on_comment_part(Text, Error&) { return true; }
  bool on_comment(Text, Error&) { return true; }

 private:
  struct Open {
    std::uint32_t node = 0;
    std::uint32_t last = Node::kNone;
  };

  [[nodiscard]] bool lies_in_input(Text part) const {
    const std::less_equal<> before;
    return before(input_.data(), part.data()) &&
           before(part.data() + part.size(), input_.data() + input_.size());
  }
  static std::string_view view(Text text) { return {text.data(), text.size()}; }

  // A string without escapes lies in the input; any other arrives in the parser's buffer, long ones in parts.
  bool collect(Text part) {
    parts_.append(part.data(), part.size());
    in_parts_ = true;
    return true;
  }
  std::string_view whole(Text part) {
    if (!in_parts_ && lies_in_input(part)) return view(part);
    parts_.append(part.data(), part.size());
    in_parts_ = false;
    return document_.keep(std::exchange(parts_, {}));
  }

  std::uint32_t add(Node node) {
    node.key = std::exchange(key_, {});
    const std::uint32_t index = document_.add(node);
    if (!open_.empty()) {
      document_.link(open_.back().node, open_.back().last, index);
      open_.back().last = index;
    }
    return index;
  }
  bool scalar(NodeKind kind, std::string_view text) {
    Node node;
    node.kind = kind;
    node.text = text;
    add(node);
    return true;
  }
  bool open(NodeKind kind) {
    Node node;
    node.kind = kind;
    open_.push_back({.node = add(node)});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view input_;
  Document document_;
  std::vector<Open> open_;
  std::string_view key_;
  std::string parts_;
  bool in_parts_ = false;
};

Problem syntax_problem(std::string_view text, std::size_t at, const boost::json::error_code& error) {
  at = std::min(at, text.size());
  const auto before = text.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto line_start = before.rfind('\n');
  const std::size_t column = line_start == std::string_view::npos ? at + 1 : at - line_start;
  std::string what = error.message();
  if (error == boost::json::error::incomplete) what = "the text ends too early";
  if (error == boost::json::error::too_deep) what = "too many levels of nesting";
  if (error == boost::json::error::extra_data) what = "there is more after the end of the value";
  return {.path = {},
          .message = "not valid JSON at column " + std::to_string(column) + ": " + what,
          .hint = {},
          .line = static_cast<std::uint32_t>(line)};
}

}  // namespace

Result<Document, Problem> parse_json_document(std::string_view text, JsonLimits limits) {
  if (text.size() > limits.bytes_max) {
    return refuse(Problem{.path = {},
                          .message = "is " + std::to_string(text.size()) + " bytes long; at most " +
                                     std::to_string(limits.bytes_max) + " are taken",
                          .hint = {}});
  }
  boost::json::parse_options options;
  options.max_depth = limits.depth_max;
  boost::json::basic_parser<Builder> parser(options, text);
  boost::json::error_code error;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), error);
  if (!error && used < text.size()) error = boost::json::error::extra_data;
  if (error) return refuse(syntax_problem(text, used, error));
  return parser.handler().take();
}

}  // namespace tranche::wire
