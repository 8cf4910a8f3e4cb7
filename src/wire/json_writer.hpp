// SPDX-License-Identifier: Apache-2.0
#pragma once
// A described value to JSON, appended to a string as it is walked: no tree in between.
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/boxed.hpp"
#include "wire/fields.hpp"
#include "wire/text_form.hpp"
#include "wire/text_map.hpp"

namespace tranche::wire {

// Quotes and escapes; bytes that are not UTF-8 become U+FFFD, so that the output is always JSON.
void append_json_string(std::string& out, std::string_view text);

namespace detail {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsOptional<Boxed<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsArray : std::false_type {};
template <class T, std::size_t N>
struct IsArray<std::array<T, N>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class K, class V>
struct IsMap<std::map<K, V>> : std::true_type {};
template <class T>
constexpr bool kUnsupported = false;

template <class T>
void write_json(std::string& out, const T& value);

template <class T>
void write_json_number(std::string& out, T value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

template <class T>
void write_json_list(std::string& out, const T& values) {
  out += '[';
  bool first = true;
  for (const auto& value : values) {
    if (!first) out += ',';
    first = false;
    write_json(out, value);
  }
  out += ']';
}

template <class Map>
void write_json_map(std::string& out, const Map& values) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : values) {
    if (!first) out += ',';
    first = false;
    if constexpr (std::is_same_v<decltype(key), const std::string>) {
      append_json_string(out, key);
    } else {
      TextForm<std::remove_cvref_t<decltype(key)>>::append(out, key);
    }
    out += ':';
    write_json(out, value);
  }
  out += '}';
}

template <class T>
constexpr bool omit_defaults() {
  if constexpr (requires { Fields<T>::kOmitDefaults; }) {
    return Fields<T>::kOmitDefaults;
  } else {
    return false;
  }
}

template <class T, class Field>
bool is_left_out(const Field& field, [[maybe_unused]] const Field& usual) {
  if constexpr (IsOptional<Field>::value) {
    return !field.has_value();
  } else if constexpr (omit_defaults<T>()) {
    return field == usual;
  } else {
    return false;
  }
}

template <class T>
void write_json_struct(std::string& out, const T& value) {
  [[maybe_unused]] static const T kUsual{};
  out += '{';
  bool first = true;
  boost::mp11::mp_for_each<Members<T>>([&](auto member) {
    using Member = decltype(member);
    const auto& field = value.*Member::pointer;
    if (is_left_out<T>(field, kUsual.*Member::pointer)) return;
    if (!first) out += ',';
    first = false;
    out += '"';
    out += Member::name;
    out += "\":";
    write_json(out, field);
  });
  out += '}';
}

template <class T>
void write_json(std::string& out, const T& value) {
  if constexpr (HasTextForm<T>) {
    TextForm<T>::append(out, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (PlainInteger<T>) {
    write_json_number(out, value);
  } else if constexpr (std::is_same_v<T, double>) {
    std::isfinite(value) ? write_json_number(out, value) : static_cast<void>(out += "null");
  } else if constexpr (std::is_same_v<T, std::string>) {
    append_json_string(out, value);
  } else if constexpr (DescribedEnum<T>) {
    out += '"';
    out += name_of(value);
    out += '"';
  } else if constexpr (IsOptional<T>::value) {
    value ? write_json(out, *value) : static_cast<void>(out += "null");
  } else if constexpr (IsVector<T>::value || IsArray<T>::value) {
    write_json_list(out, value);
  } else if constexpr (IsMap<T>::value || std::is_same_v<T, TextMap>) {
    write_json_map(out, value);
  } else if constexpr (Described<T>) {
    write_json_struct(out, value);
  } else {
    static_assert(kUnsupported<T>,
                  "this type is not described: BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_ENUM");
  }
}

}  // namespace detail
}  // namespace tranche::wire
