// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nodes of a document to a described value, strictly. The path of a problem is put together on the way out of
// the recursion, so that reading a correct text costs nothing for it.
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "wire/document.hpp"
#include "wire/fields.hpp"
#include "wire/json_writer.hpp"
#include "wire/nearest.hpp"
#include "wire/raw_json.hpp"
#include "wire/text_form.hpp"

namespace tranche::wire::detail {

// The document being read, and the first problem met.
class Reading {
 public:
  explicit Reading(const Document& document, UnknownKeys unknown_keys = UnknownKeys::kRefused)
      : document_(document), unknown_keys_(unknown_keys) {}
  [[nodiscard]] const Document& document() const { return document_; }
  [[nodiscard]] bool plain_is_text() const { return document_.scalars() == Scalars::kPlainIsText; }
  [[nodiscard]] bool ignores_unknown_keys() const { return unknown_keys_ == UnknownKeys::kIgnored; }
  Problem take_problem() { return std::move(problem_); }

  bool fail(const Node& node, std::string message, std::string hint = {});
  bool fail(const Node& node, Problem problem);
  bool wrong_kind(const Node& node, std::string_view wanted);  // must be a string, not a number
  bool outside(const Node& node, std::string_view least, std::string_view most);
  bool unknown_key(const Node& node, std::span<const std::string_view> known);
  bool not_one_of(const Node& node, std::span<const std::string_view> known);
  bool inside(std::string_view name);  // Always false: adds the name of where a problem was met.
  bool inside(std::size_t index);

  // Calls visit(child) until it returns false.
  template <class Visit>
  bool each_child(const Node& parent, Visit&& visit) {
    for (std::uint32_t i = parent.first_child; i != Node::kNone; i = document_.at(i).next) {
      if (!visit(document_.at(i))) return false;
    }
    return true;
  }

 private:
  const Document& document_;
  UnknownKeys unknown_keys_;
  Problem problem_;
};

inline bool is_scalar(const Node& node) {
  return node.kind != NodeKind::kArray && node.kind != NodeKind::kObject && node.kind != NodeKind::kNull;
}

template <class T>
bool read_node(Reading& reading, const Node& node, T& out);

template <class T>
bool read_integer(Reading& reading, const Node& node, T& out) {
  if (node.kind == NodeKind::kDecimal) return reading.fail(node, "must be a whole number");
  if (node.kind != NodeKind::kInteger) return reading.wrong_kind(node, "a whole number");
  std::string_view digits = node.text;
  int base = 10;
  if (digits.starts_with("0x")) base = 16;  // Only YAML has these two, and a plus in front.
  if (digits.starts_with("0o")) base = 8;
  if (base != 10) digits.remove_prefix(2);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, out, base);
  if (parsed.ec == std::errc() && parsed.ptr == end) return true;
  return reading.outside(
      node, std::to_string(std::numeric_limits<T>::min()), std::to_string(std::numeric_limits<T>::max()));
}

template <class T>
bool read_text_form(Reading& reading, const Node& node, T& out) {
  const bool number = node.kind == NodeKind::kInteger || node.kind == NodeKind::kDecimal;
  const bool fits =
      node.kind == NodeKind::kString || (number && (TextForm<T>::kNumbers || reading.plain_is_text()));
  if (!fits) return reading.wrong_kind(node, TextForm<T>::kNumbers ? "a string or a number" : "a string");
  auto parsed = TextForm<T>::parse(node.text);
  if (!parsed) return reading.fail(node, std::move(parsed.error()));
  out = std::move(*parsed);
  return true;
}

template <class E>
bool read_enum(Reading& reading, const Node& node, E& out) {
  if (node.kind != NodeKind::kString) return reading.wrong_kind(node, "a string");
  if (const auto value = from_name<E>(node.text)) {
    out = *value;
    return true;
  }
  static constexpr auto kNames = [] {
    std::array<std::string_view, EnumTable<E>::kCount> names{};
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = EnumTable<E>::kNames[i].view();
    return names;
  }();
  return reading.not_one_of(node, kNames);
}

template <class T>
bool read_vector(Reading& reading, const Node& node, std::vector<T>& out) {
  if (node.kind != NodeKind::kArray) return reading.wrong_kind(node, "a list");
  out.clear();
  out.reserve(node.children);
  return reading.each_child(node, [&](const Node& child) {
    return read_node(reading, child, out.emplace_back()) || reading.inside(out.size() - 1);
  });
}

template <class T, std::size_t N>
bool read_array(Reading& reading, const Node& node, std::array<T, N>& out) {
  if (node.kind != NodeKind::kArray) return reading.wrong_kind(node, "a list");
  if (node.children != N) return reading.fail(node, "must have " + std::to_string(N) + " elements");
  std::size_t index = 0;
  return reading.each_child(node, [&](const Node& child) {
    return read_node(reading, child, out[index]) ? (++index, true) : reading.inside(index);
  });
}

template <class K, class V>
bool read_map(Reading& reading, const Node& node, std::map<K, V>& out) {
  if (node.kind != NodeKind::kObject) return reading.wrong_kind(node, "an object");
  out.clear();
  return reading.each_child(node, [&](const Node& child) {
    K key{};
    if constexpr (std::is_same_v<K, std::string>) {
      key = child.key;
    } else {
      auto parsed = TextForm<K>::parse(child.key);
      if (!parsed)
        return reading.fail(child, "key " + std::move(parsed.error())) || reading.inside(child.key);
      key = *parsed;
    }
    const auto [at, inserted] = out.try_emplace(std::move(key));
    if (!inserted) return reading.fail(child, "is given twice") || reading.inside(child.key);
    return read_node(reading, child, at->second) || reading.inside(child.key);
  });
}

inline bool read_text_map(Reading& reading, const Node& node, TextMap& out) {
  if (node.kind != NodeKind::kObject) return reading.wrong_kind(node, "an object");
  return reading.each_child(node, [&](const Node& child) {
    const bool text = child.kind == NodeKind::kString ||
                      (reading.plain_is_text() && (is_scalar(child) || child.kind == NodeKind::kNull));
    if (!text) return reading.wrong_kind(child, "a string") || reading.inside(child.key);
    if (out.add(std::string(child.key), std::string(child.text))) return true;
    return reading.fail(child, "is given twice") || reading.inside(child.key);
  });
}

template <class T>
using FieldReader = bool (*)(Reading&, const Node&, T&);
template <class T, class Member>
bool read_field(Reading& reading, const Node& node, T& out) {
  // `setup:` with nothing after it is how YAML leaves a field as it is.
  if (node.kind == NodeKind::kNull && reading.plain_is_text()) return true;
  return read_node(reading, node, out.*Member::pointer);
}
template <class T, std::size_t... I>
constexpr auto field_readers(std::index_sequence<I...>) {
  return std::array<FieldReader<T>, sizeof...(I)>{&read_field<T, boost::mp11::mp_at_c<Members<T>, I>>...};
}

// People write keys in the order described more often than not: the search starts after the last one found.
template <class T>
std::size_t find_field(std::string_view key, std::size_t after) {
  constexpr std::size_t kCount = kMemberCount<T>;
  for (std::size_t step = 0; step < kCount; ++step) {
    const std::size_t index = after + step < kCount ? after + step : after + step - kCount;
    if (kMemberNames<T>[index] == key) return index;
  }
  const auto canonical = canonical_name<T>(key);
  if (canonical == key) return kCount;
  for (std::size_t index = 0; index < kCount; ++index) {
    if (kMemberNames<T>[index] == canonical) return index;
  }
  return kCount;
}

// Fields and their other names: what a misspelt key may have meant.
template <class T>
constexpr auto accepted_names() {
  if constexpr (requires { Fields<T>::kAliases; }) {
    std::array<std::string_view, kMemberCount<T> + Fields<T>::kAliases.size()> names{};
    std::size_t used = 0;
    for (const std::string_view name : kMemberNames<T>) names[used++] = name;
    for (const Alias& alias : Fields<T>::kAliases) names[used++] = alias.alias;
    return names;
  } else {
    return kMemberNames<T>;
  }
}
template <class T>
constexpr auto kAcceptedNames = accepted_names<T>();

template <class T>
bool read_struct(Reading& reading, const Node& node, T& out) {
  constexpr std::size_t kCount = kMemberCount<T>;
  static_assert(kCount <= 64, "a struct of more than 64 fields wants to be two");
  static constexpr auto kReaders = field_readers<T>(std::make_index_sequence<kCount>());
  if constexpr (requires { Fields<T>::from_text(node.text); }) {
    if (is_scalar(node)) {
      auto parsed = Fields<T>::from_text(node.text);
      if (!parsed) return reading.fail(node, std::move(parsed.error()));
      out = std::move(*parsed);
      return true;
    }
  }
  if (node.kind != NodeKind::kObject) return reading.wrong_kind(node, "an object");
  std::uint64_t seen = 0;
  std::size_t next = 0;
  const bool read = reading.each_child(node, [&](const Node& child) {
    const std::size_t index = find_field<T>(child.key, next);
    if (index == kCount) {
      return reading.ignores_unknown_keys() || reading.unknown_key(child, kAcceptedNames<T>);
    }
    if ((seen >> index & 1U) != 0) return reading.fail(child, "is given twice") || reading.inside(child.key);
    seen |= std::uint64_t{1} << index;
    next = index + 1 < kCount ? index + 1 : 0;
    return kReaders[index](reading, child, out) || reading.inside(child.key);
  });
  if (!read) return false;
  for (std::size_t index = 0; index < kCount; ++index) {
    if (is_required<T>(kMemberNames<T>[index]) && (seen >> index & 1U) == 0) {
      return reading.fail(node, "is required") || reading.inside(kMemberNames<T>[index]);
    }
  }
  if constexpr (requires { Fields<T>::check(out); }) {
    if (auto problem = Fields<T>::check(out)) return reading.fail(node, std::move(*problem));
  }
  return true;
}

template <class T>
bool read_string(Reading& reading, const Node& node, T& out) {
  if (node.kind != NodeKind::kString && !(reading.plain_is_text() && is_scalar(node))) {
    return reading.wrong_kind(node, "a string");
  }
  out = node.text;
  return true;
}

template <class T>
bool read_node(Reading& reading, const Node& node, T& out) {
  if constexpr (std::is_same_v<T, RawJson>) {
    out.text.clear();
    append_json(out.text, reading.document(), node);
    return true;
  }
  if (IsOptional<T>::value && node.kind == NodeKind::kNull) return true;
  if constexpr (HasTextForm<T>) {
    return read_text_form(reading, node, out);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (node.kind != NodeKind::kBool) return reading.wrong_kind(node, "true or false");
    out = node.text == "true";
    return true;
  } else if constexpr (PlainInteger<T>) {
    return read_integer(reading, node, out);
  } else if constexpr (std::is_same_v<T, double>) {
    if (node.kind != NodeKind::kInteger && node.kind != NodeKind::kDecimal) {
      return reading.wrong_kind(node, "a number");
    }
    const auto parsed = std::from_chars(node.text.data(), node.text.data() + node.text.size(), out);
    return parsed.ec == std::errc() || reading.fail(node, "is out of range");
  } else if constexpr (std::is_same_v<T, std::string>) {
    return read_string(reading, node, out);
  } else if constexpr (DescribedEnum<T>) {
    return read_enum(reading, node, out);
  } else if constexpr (IsOptional<T>::value) {
    return read_node(reading, node, out.emplace());
  } else if constexpr (IsVector<T>::value) {
    return read_vector(reading, node, out);
  } else if constexpr (IsArray<T>::value) {
    return read_array(reading, node, out);
  } else if constexpr (IsMap<T>::value) {
    return read_map(reading, node, out);
  } else if constexpr (std::is_same_v<T, TextMap>) {
    return read_text_map(reading, node, out);
  } else if constexpr (Described<T>) {
    return read_struct(reading, node, out);
  } else {
    static_assert(kUnsupported<T>,
                  "this type is not described: BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_ENUM");
  }
}

template <class T>
Result<T, Problem> read_document(const Document& document, UnknownKeys unknown_keys = UnknownKeys::kRefused) {
  Reading reading(document, unknown_keys);
  T value{};
  if (!read_node(reading, document.root(), value)) return refuse(reading.take_problem());
  return value;
}

}  // namespace tranche::wire::detail
