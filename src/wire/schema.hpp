// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON Schema 2020-12 of described types, in the form that OpenAPI 3.1 embeds.
#include <limits>
#include <string>
#include <string_view>

#include "wire/fields.hpp"
#include "wire/json_writer.hpp"
#include "wire/text_form.hpp"

namespace tranche::wire::detail {

// The members of a schema object, without its braces.
template <class T>
std::string schema_body(SchemaStyle style);

template <class T>
concept NamedInSchemas = !HasTextForm<T> && (Described<T> || DescribedEnum<T>);

template <class T>
std::string schema_reference(SchemaStyle style) {
  return R"("$ref":")" + std::string(style.reference) + std::string(type_name<T>()) + '"';
}

template <class T>
std::string integer_schema() {
  std::string out = R"("type":"integer")";
  if constexpr (sizeof(T) == 8) out += R"(,"format":"int64")";
  if constexpr (std::is_unsigned_v<T> || sizeof(T) < 8) {
    out += R"(,"minimum":)" + std::to_string(std::numeric_limits<T>::min());
  }
  if constexpr (sizeof(T) < 8) out += R"(,"maximum":)" + std::to_string(std::numeric_limits<T>::max());
  return out;
}

template <class T>
std::string schema_of(SchemaStyle style) {
  if constexpr (NamedInSchemas<T>) {
    return schema_reference<T>(style);
  } else {
    return schema_body<T>(style);
  }
}

template <class E>
std::string enum_schema() {
  std::string out = R"("type":"string","enum":[)";
  for (std::size_t i = 0; i < EnumTable<E>::kCount; ++i) {
    if (i > 0) out += ',';
    append_json_string(out, EnumTable<E>::kNames[i].view());
  }
  return out + ']';
}

template <class Field>
void append_default(std::string& out, const Field& usual) {
  if constexpr (std::is_same_v<Field, bool> || PlainInteger<Field> || DescribedEnum<Field>) {
    out += R"(,"default":)";
    write_json(out, usual);
  }
}

template <class T>
std::string struct_schema(SchemaStyle style) {
  static const T kUsual{};
  std::string out = R"("type":"object")";
  if constexpr (requires { Fields<T>::kAbout; }) {
    out += R"(,"description":)";
    append_json_string(out, Fields<T>::kAbout);
  }
  out += R"(,"properties":{)";
  std::string required;
  bool first = true;
  for_each_field<T>(kUsual, [&]<class Field>(const Field& usual, std::string_view name, std::size_t) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, name);
    out += ":{" + schema_of<Field>(style);
    if (const auto about = field_doc<T>(name); !about.empty()) {
      out += R"(,"description":)";
      append_json_string(out, about);
    }
    append_default(out, usual);
    out += '}';
    if (!is_required<T>(name)) return;
    if (!required.empty()) required += ',';
    append_json_string(required, name);
  });
  if constexpr (requires { Fields<T>::kAliases; }) {
    for (const Alias& alias : Fields<T>::kAliases) {
      out += ',';
      append_json_string(out, alias.alias);
      out += R"(:{"description":"Another name for )" + std::string(alias.field) + R"(."})";
    }
  }
  out += '}';
  if (!required.empty()) out += R"(,"required":[)" + required + ']';
  return out + R"(,"additionalProperties":false)";
}

template <class T>
std::string schema_body(SchemaStyle style) {
  if constexpr (HasTextForm<T>) {
    return std::string(TextForm<T>::kSchema);
  } else if constexpr (std::is_same_v<T, bool>) {
    return R"("type":"boolean")";
  } else if constexpr (PlainInteger<T>) {
    return integer_schema<T>();
  } else if constexpr (std::is_same_v<T, double>) {
    return R"("type":"number")";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return R"("type":"string")";
  } else if constexpr (DescribedEnum<T>) {
    return enum_schema<T>();
  } else if constexpr (IsOptional<T>::value) {
    return schema_of<typename T::value_type>(style);
  } else if constexpr (IsVector<T>::value) {
    return R"("type":"array","items":{)" + schema_of<typename T::value_type>(style) + '}';
  } else if constexpr (IsArray<T>::value) {
    const std::string size = std::to_string(std::tuple_size_v<T>);
    return R"("type":"array","items":{)" + schema_of<typename T::value_type>(style) + R"(},"minItems":)" +
           size + R"(,"maxItems":)" + size;
  } else if constexpr (IsMap<T>::value) {
    return R"("type":"object","additionalProperties":{)" + schema_of<typename T::mapped_type>(style) + '}';
  } else if constexpr (std::is_same_v<T, TextMap>) {
    return R"("type":"object","additionalProperties":{"type":"string"})";
  } else if constexpr (requires { Fields<T>::kTextSchema; }) {
    return R"("anyOf":[{)" + std::string(Fields<T>::kTextSchema) + "},{" + struct_schema<T>(style) + "}]";
  } else {
    return struct_schema<T>(style);
  }
}

template <class T>
void collect_schemas_of(Schemas& schemas, SchemaStyle style) {
  if constexpr (HasTextForm<T> || std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                std::is_same_v<T, TextMap>) {
    return;
  } else if constexpr (IsOptional<T>::value || IsVector<T>::value || IsArray<T>::value) {
    collect_schemas_of<typename T::value_type>(schemas, style);
  } else if constexpr (IsMap<T>::value) {
    collect_schemas_of<typename T::mapped_type>(schemas, style);
  } else {
    const auto [at, added] = schemas.try_emplace(std::string(type_name<T>()));
    if (!added) return;  // Known already, or a type that contains itself.
    at->second = '{' + schema_body<T>(style) + '}';
    if constexpr (Described<T>) {
      boost::mp11::mp_for_each<Members<T>>([&](auto member) {
        using Field = std::remove_cvref_t<decltype(std::declval<T&>().*decltype(member)::pointer)>;
        collect_schemas_of<Field>(schemas, style);
      });
    }
  }
}

}  // namespace tranche::wire::detail
