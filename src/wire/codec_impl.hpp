// SPDX-License-Identifier: Apache-2.0
#pragma once
// Definitions of what wire/codec.hpp declares. Include it in the one .cpp that instantiates a type's codec,
// and in tests; nowhere else, for the sake of build times.
#include "wire/codec.hpp"
#include "wire/document.hpp"
#include "wire/fields.hpp"
#include "wire/json_reader.hpp"
#include "wire/json_writer.hpp"
#include "wire/record.hpp"
#include "wire/schema.hpp"
#include "wire/text_form.hpp"

namespace tranche::wire {

template <class T>
void append_json(std::string& out, const T& value) {
  detail::write_json(out, value);
}

template <class T>
std::string to_json(const T& value) {
  std::string out;
  detail::write_json(out, value);
  return out;
}

template <class T>
Result<T, Problem> from_json(std::string_view text, JsonLimits limits) {
  const auto document = parse_json_document(text, limits);
  if (!document) return refuse(document.error());
  return detail::read_document<T>(*document, limits.unknown_keys);
}

template <class T>
void encode(std::string& out, const T& value) {
  detail::write_record(out, value);
}

template <class T>
Result<T, std::string> decode(std::string_view bytes) {
  detail::RecordReader reader(bytes);
  T value{};
  if (!detail::read_record(reader, value)) return refuse(std::string(reader.reason()));
  if (reader.left() > 0) return refuse(std::string("there are bytes after the end of the record"));
  return value;
}

template <class T>
std::string schema_name() {
  return std::string(detail::type_name<T>());
}

template <class T>
std::string json_schema(SchemaStyle style) {
  return '{' + detail::schema_body<T>(style) + '}';
}

template <class T>
void collect_schemas(Schemas& schemas, SchemaStyle style) {
  detail::collect_schemas_of<T>(schemas, style);
}

}  // namespace tranche::wire

// Everything for T. C++ wants explicit instantiations outside of other namespaces: write it at the end of the
// .cpp, in no namespace, with the full name of T. TRANCHE_WIRE_JSON leaves out records, for reports with
// doubles.
#define TRANCHE_WIRE_JSON(T)                                                              \
  template void ::tranche::wire::append_json<T>(std::string&, const T&);                  \
  template std::string(::tranche::wire::to_json<T>)(const T&);                            \
  template ::tranche::Result<T, ::tranche::wire::Problem>(::tranche::wire::from_json<T>)( \
      std::string_view, ::tranche::wire::JsonLimits);                                     \
  template std::string(::tranche::wire::schema_name<T>)();                                \
  template std::string(::tranche::wire::json_schema<T>)(::tranche::wire::SchemaStyle);    \
  template void ::tranche::wire::collect_schemas<T>(::tranche::wire::Schemas&, ::tranche::wire::SchemaStyle)

#define TRANCHE_WIRE_RECORD(T)                                      \
  template void ::tranche::wire::encode<T>(std::string&, const T&); \
  template ::tranche::Result<T, std::string>(::tranche::wire::decode<T>)(std::string_view)

#define TRANCHE_WIRE_CODEC(T) \
  TRANCHE_WIRE_JSON(T);       \
  TRANCHE_WIRE_RECORD(T)
