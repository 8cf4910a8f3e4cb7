// SPDX-License-Identifier: Apache-2.0
#pragma once
// What can be done with a described struct: strict JSON in and out, journal records, JSON Schema.
//
// A struct is described once with BOOST_DESCRIBE_STRUCT; what one wants to say beyond that (required fields,
// other names, documentation) goes into Fields<T> of wire/fields.hpp. Definitions are in wire/codec_impl.hpp:
// include that in the one .cpp that says TRANCHE_WIRE_CODEC(T), and only this header everywhere else.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tranche::wire {

// Why a text was not taken: where, what, and what may have been meant.
struct Problem {
  std::string path{};      // resources.gpus, volumes[2].size; empty: the text as a whole.
  std::string message{};   // unknown key 'gpuz'
  std::string hint{};      // did you mean 'gpus'?
  std::uint32_t line = 0;  // Of the text, from 1; 0: not known.
  bool operator==(const Problem&) const = default;
};
std::string text(
    const Problem& problem);  // line 3: resources.gpuz: unknown key 'gpuz' (did you mean 'gpus'?)

// What a person writes is refused when it says something unknown; what a newer server answers is not.
enum class UnknownKeys : std::uint8_t { kRefused, kIgnored };

struct JsonLimits {
  std::size_t bytes_max = std::size_t{1} << 20;
  std::size_t depth_max = 32;
  UnknownKeys unknown_keys = UnknownKeys::kRefused;
};

template <class T>
void append_json(std::string& out, const T& value);
template <class T>
std::string to_json(const T& value);
// Strict: an unknown or repeated key, a number that does not fit or a wrong type is a problem. A field that
// is missing keeps its default unless it is required.
template <class T>
Result<T, Problem> from_json(std::string_view text, JsonLimits limits = {});

// Records: fields in the order described, each struct with its length before it. Fields added at the end
// later read as their default from old records, and are skipped by old readers.
template <class T>
void encode(std::string& out, const T& value);
template <class T>
Result<T, std::string> decode(std::string_view bytes);  // Total: any bytes give a value or a reason.

// JSON Schema 2020-12 as OpenAPI 3.1 takes it. Described structs and enums inside T are named by $ref.
struct SchemaStyle {
  std::string_view reference = "#/components/schemas/";
};
using Schemas = std::map<std::string, std::string>;  // Name of a type -> its schema.
template <class T>
std::string schema_name();
template <class T>
std::string json_schema(SchemaStyle style = {});
template <class T>
void collect_schemas(Schemas& schemas, SchemaStyle style = {});  // T and everything inside it.

}  // namespace tranche::wire
