// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the codec knows of a described type: names of fields and enumerators, and what Fields<T> adds to them.
#include <array>
#include <boost/describe.hpp>
#include <boost/mp11.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "wire/codec.hpp"

namespace tranche::wire {

// Specialise to say more about T than its description does. Everything is optional:
//   static constexpr std::string_view kName = "Job";                   its name in schemas, else the C++ name
//   static constexpr std::string_view kAbout = "…";                    what T is, in schemas
//   static constexpr std::array kRequired{"run"sv};                    must be present in JSON
//   static constexpr std::array kAliases{Alias{"nodes", "num_nodes"}}; other names accepted on input
//   static constexpr std::array kDocs{FieldDoc{"run", "the command"}}; one sentence a field
//   static constexpr bool kOmitDefaults = true;                        JSON leaves out fields at their
//   default static std::optional<Problem> check(const T&);                     what no single field can say
//   static constexpr std::array kOncePlain{"deadline"sv};              optional fields that records hold as
//   they did before they were optional: plain, where zero means none
//   static Result<T, std::string> from_text(std::string_view);         a shorter form, as one string
//   static constexpr std::string_view kTextSchema = "…";               and its schema
template <class T>
struct Fields {};

// Values that JSON shows as one string (or number): see wire/text_form.hpp for those of base.
//   static void append(std::string& json, const T&);                  writes JSON, quotes included
//   static Result<T, std::string> parse(std::string_view scalar);      from the text of a string or number
//   static constexpr std::string_view kSchema = R"("type":"string")";
//   static constexpr bool kNumbers = true;                             a JSON number is fine, too
template <class T>
struct TextForm {};

struct Alias {
  std::string_view alias;
  std::string_view field;
};
struct FieldDoc {
  std::string_view field;
  std::string_view about;
};

template <class T>
concept Described = std::is_class_v<T> && boost::describe::has_describe_members<T>::value;
template <class T>
concept DescribedEnum = std::is_enum_v<T> && boost::describe::has_describe_enumerators<T>::value;
template <class T>
concept HasTextForm = requires(std::string_view text) { TextForm<T>::parse(text); };
template <class T>
concept IsId = std::is_same_v<T, PartyId> || std::is_same_v<T, TokenId> || std::is_same_v<T, JobId> ||
               std::is_same_v<T, NodeId> || std::is_same_v<T, DeviceId> || std::is_same_v<T, LeaseId> ||
               std::is_same_v<T, ClaimId> || requires { T::kIdPrefix; };
template <class T>
concept PlainInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

namespace detail {

template <class T>
using Members =
    boost::describe::describe_members<T, boost::describe::mod_public | boost::describe::mod_inherited>;
template <class T>
constexpr std::size_t kMemberCount = boost::mp11::mp_size<Members<T>>::value;

template <class T, std::size_t... I>
constexpr auto member_names(std::index_sequence<I...>) {
  return std::array<std::string_view, sizeof...(I)>{boost::mp11::mp_at_c<Members<T>, I>::name...};
}
template <class T>
constexpr auto kMemberNames = member_names<T>(std::make_index_sequence<kMemberCount<T>>());

// Calls visit(field, name, index) for every field of value, in the order described.
template <class T, class Value, class Visit>
constexpr void for_each_field(Value& value, Visit&& visit) {
  boost::mp11::mp_for_each<boost::mp11::mp_iota_c<kMemberCount<T>>>([&](auto index) {
    using Member = boost::mp11::mp_at_c<Members<T>, index>;
    visit(value.*Member::pointer, kMemberNames<T>[index], index);
  });
}

// kFooBar -> foo_bar, kHTTPError -> http_error. A run of capitals is one word.
struct EnumName {
  std::array<char, 48> text{};
  std::size_t size = 0;
  [[nodiscard]] constexpr std::string_view view() const { return {text.data(), size}; }
};
constexpr EnumName enum_name(std::string_view spelled) {
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (spelled.size() > 1 && spelled[0] == 'k' &&
      (upper(spelled[1]) || (spelled[1] >= '0' && spelled[1] <= '9'))) {
    spelled.remove_prefix(1);
  }
  EnumName name;
  for (std::size_t i = 0; i < spelled.size(); ++i) {
    const char c = spelled[i];
    const bool starts_word = upper(c) && i > 0 && spelled[i - 1] != '_' &&
                             (!upper(spelled[i - 1]) ||
                              (i + 1 < spelled.size() && !upper(spelled[i + 1]) && spelled[i + 1] != '_'));
    if (starts_word) name.text[name.size++] = '_';
    name.text[name.size++] = upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name;
}

template <class E>
struct EnumTable {
  using Enumerators = boost::describe::describe_enumerators<E>;
  static constexpr std::size_t kCount = boost::mp11::mp_size<Enumerators>::value;
  template <std::size_t... I>
  static constexpr auto values(std::index_sequence<I...>) {
    return std::array<E, kCount>{boost::mp11::mp_at_c<Enumerators, I>::value...};
  }
  template <std::size_t... I>
  static constexpr auto names(std::index_sequence<I...>) {
    return std::array<EnumName, kCount>{enum_name(boost::mp11::mp_at_c<Enumerators, I>::name)...};
  }
  static constexpr auto kValues = values(std::make_index_sequence<kCount>());
  static constexpr auto kNames = names(std::make_index_sequence<kCount>());
};

template <class T>
constexpr std::string_view plain_type_name() {
  // "… [with T = tranche::wire::JobSpec; std::string_view = …]" (gcc), "… [T = tranche::wire::JobSpec]"
  // (clang).
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]"));
  const auto scope = name.rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}
template <class T>
constexpr std::string_view type_name() {
  if constexpr (requires { Fields<T>::kName; }) {
    return Fields<T>::kName;
  } else {
    return plain_type_name<T>();
  }
}

template <class T>
constexpr std::string_view canonical_name(std::string_view name) {
  if constexpr (requires { Fields<T>::kAliases; }) {
    for (const Alias& alias : Fields<T>::kAliases) {
      if (alias.alias == name) return alias.field;
    }
  }
  return name;
}
template <class T>
constexpr std::string_view field_doc(std::string_view name) {
  if constexpr (requires { Fields<T>::kDocs; }) {
    for (const FieldDoc& doc : Fields<T>::kDocs) {
      if (doc.field == name) return doc.about;
    }
  }
  return {};
}
template <class T>
constexpr bool is_required(std::string_view name) {
  if constexpr (requires { Fields<T>::kRequired; }) {
    for (const std::string_view required : Fields<T>::kRequired) {
      if (required == name) return true;
    }
  }
  return false;
}

template <class T>
constexpr bool is_once_plain(std::string_view name) {
  if constexpr (requires { Fields<T>::kOncePlain; }) {
    for (const std::string_view plain : Fields<T>::kOncePlain) {
      if (plain == name) return true;
    }
  }
  return false;
}

}  // namespace detail

// The name of an enumerator as JSON shows it; empty for a value outside the enumeration.
template <DescribedEnum E>
constexpr std::string_view name_of(E value) {
  using Table = detail::EnumTable<E>;
  for (std::size_t i = 0; i < Table::kCount; ++i) {
    if (Table::kValues[i] == value) return Table::kNames[i].view();
  }
  return {};
}
template <DescribedEnum E>
constexpr std::optional<E> from_name(std::string_view name) {
  using Table = detail::EnumTable<E>;
  for (std::size_t i = 0; i < Table::kCount; ++i) {
    if (Table::kNames[i].view() == name) return Table::kValues[i];
  }
  return std::nullopt;
}

}  // namespace tranche::wire
